"""Collects the groups of this package, registers them, and reads files strictly."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final
from urllib.parse import urlsplit

from oslo_config import cfg

from eraser.protocol.errors import BadInputError as WireError
from eraser.protocol.transport import options
from eraser.protocol.transport.options import Options
from quarantine.conf import capacity, metrics
from quarantine.errors import BadInputError

DEFAULT_FILE = Path("/etc/nvme-quarantine/nvme-quarantine.conf")
"""Read when no file is named, and only if it is there."""

_PACKAGE = "quarantine.conf"
_OTHER_BROKERS = frozenset({"redis+socket", "sentinel"})
_NOT_GROUPS = frozenset({"opts"})

FOREIGN_GROUPS: Final = frozenset({"keystone_authtoken", "oslo_policy"})
"""What the API's libraries read, whose options this program does not know."""


def list_opts() -> Options:
    """Every group with its options: the entry point of oslo-config-generator."""
    return [entry for module in _modules() for entry in module.list_opts()]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Registers every group on ``conf``; tests make as many as they like."""
    options.register(conf, list_opts())


def load(files: Sequence[Path | str] = ()) -> cfg.ConfigOpts:
    """Reads the files, later ones winning; without any, :data:`DEFAULT_FILE` if it is there.

    Every value is read and checked now, not when it is first used, and an option or group that
    does not exist is an error: a misspelt limit would otherwise be silently the default. Raises
    :class:`BadInputError` with one line that names the file.
    """
    try:
        paths = [Path(file) for file in files] or [p for p in (DEFAULT_FILE,) if p.is_file()]
        return options.load(list_opts(), paths, "nvme-quarantine", _check_together, FOREIGN_GROUPS)
    except WireError as error:
        raise BadInputError(str(error)) from error
    except OSError as error:
        # A directory that the caller may not look into: is_file() passes over a missing file alone.
        # Without the file's word the defaults must not count, for they name another record.
        raise BadInputError(
            f"configuration: expected a file to read at {error.filename}: {error.strerror}"
        ) from error


def _modules() -> Iterator[ModuleType]:
    package = importlib.import_module(_PACKAGE)
    for found in sorted(pkgutil.iter_modules(package.__path__), key=lambda entry: entry.name):
        if found.name in _NOT_GROUPS:
            continue
        module = importlib.import_module(f"{_PACKAGE}.{found.name}")
        if not hasattr(module, "list_opts"):
            raise RuntimeError(
                f"{module.__name__}: expected list_opts, found a module without; a group that is "
                "not listed is missing in the sample file"
            )
        yield module


def _check_broker(text: str) -> None:
    """Found now and not at the first message. Nothing of the URL is shown: it holds a password."""
    try:
        url = urlsplit(text)
        number = url.path.strip("/")
        # urlsplit itself raises for a port that is none, and lets 0 pass.
        plain = url.port != 0 and bool(url.hostname) and (number.isdigit() or not number)
        good = plain if url.scheme in ("redis", "rediss") else url.scheme in _OTHER_BROKERS
    except ValueError:
        good = False
    if not good:
        raise ValueError(
            "expected [broker]url to be a URL such as rediss://USER:PASSWORD@HOST:6379/0, "
            "found something else"
        )


def _check_together(conf: cfg.ConfigOpts) -> None:
    """Values that are right one by one and wrong together."""
    erase, detection = conf.erase, conf.detection
    tsa = conf.evidence.tsa_url
    if tsa is not None and not tsa.startswith(("http://", "https://")):
        raise ValueError(f"expected [evidence]tsa_url to begin with http(s)://, found {tsa!r}")
    _check_broker(conf.broker.url)
    capacity.sold(conf.capacity.flavors)
    metrics.address(conf.metrics.listen)
    if erase.resend_after >= erase.order_seconds:
        raise ValueError(
            f"expected [erase]resend_after below order_seconds ({erase.order_seconds}), "
            f"found {erase.resend_after}"
        )
    # Slots in use are read in rounds, one in sweep_interval: none can be read more often.
    if detection.sweep_interval > detection.in_use_reread:
        raise ValueError(
            "expected [detection]sweep_interval of at most in_use_reread "
            f"({detection.in_use_reread}), found {detection.sweep_interval}"
        )
