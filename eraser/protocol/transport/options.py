"""Reading oslo.config files strictly: the one way for every program of this project.

oslo.config passes over what it does not know and reads a value when it is first used. Here a
misspelt limit would then silently be the default, and a bad one found in the middle of a case.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final

from oslo_config import cfg

from eraser.protocol.errors import BadInputError

LOG = logging.getLogger(__name__)

Options = list[tuple[cfg.OptGroup, list[cfg.Opt]]]

_GONE: Final = frozenset(
    {
        ("worker", "thermal_pause"),
        ("worker", "visibility_timeout"),
        ("broker", "visibility_timeout"),
    }
)
"""Options of earlier releases: an upgrade must not keep a program from starting."""

_GONE_GROUPS: Final = {
    "notifications": "nova-compute rings by itself; stop and remove nvme-quarantine-listener",
}
"""As above, with what there is to do."""


def register(conf: cfg.ConfigOpts, options: Options) -> None:
    """Registers groups and their options on ``conf``, which then shares nothing with another.

    Each group is made anew: oslo.config copies the one that it is given shallowly, so an override
    on one ``ConfigOpts`` would be read in every other of the process.
    """
    for group, group_options in options:
        own = cfg.OptGroup(group.name, title=group.title, help=group.help)
        conf.register_group(own)
        conf.register_opts(group_options, group=own)


def load(
    options: Options,
    paths: Sequence[Path],
    project: str,
    check: Callable[[cfg.ConfigOpts], None] = lambda _conf: None,
    foreign: Collection[str] = (),
) -> cfg.ConfigOpts:
    """Reads the files, later ones winning, and every value at once.

    ``check`` raises ``ValueError`` for values that are right one by one and wrong together.
    ``foreign`` are groups of libraries, which register and check what is in them themselves. Raises
    :class:`BadInputError` with one line that names the files.
    """
    for path in paths:
        if not path.is_file():
            raise BadInputError(f"configuration: expected a file at {path}, found none")
    names = ", ".join(map(str, paths)) or "defaults"
    conf = cfg.ConfigOpts()
    register(conf, options)
    try:
        conf(
            [],
            project=project,
            default_config_files=list(map(str, paths)),
            default_config_dirs=[],
            # What a service does is said in its files alone.
            use_env=False,
        )
        _refuse_unknown(options, paths, foreign)
        for group, group_options in options:
            for option in group_options:
                # Each value is read once now, so that a bad one is not found in the middle of a
                # case.
                _read(conf, group.name, option.dest)
        check(conf)
    except (cfg.Error, ValueError, OSError) as error:
        line = " ".join(str(error).split())
        raise BadInputError(f"configuration ({names}): {line}; correct the file") from error
    return conf


def _read(conf: cfg.ConfigOpts, group: str, name: str) -> None:
    try:
        value = conf[group][name]
    except ValueError as error:
        # Oslo puts the repr of its own bookkeeping before what matters.
        reason = str(error).rpartition("is not valid: ")[2]
        raise ValueError(f"expected a valid [{group}]{name}, found otherwise: {reason}") from error
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"expected a number of seconds in [{group}]{name}, found {value}")


def _refuse_unknown(options: Options, paths: Sequence[Path], foreign: Collection[str]) -> None:
    known = {
        group.name: {name for option in group_options for name in (option.name, option.dest)}
        for group, group_options in options
    }
    for path in paths:
        sections: dict[str, dict[str, list[str]]] = {}
        cfg.ConfigParser(str(path), sections).parse()
        for section, values in sections.items():
            if section == "DEFAULT" and not values:
                continue  # the generator begins every sample with it
            if section in foreign:
                continue
            if section in _GONE_GROUPS:
                LOG.warning(
                    "%s: [%s] is gone and does nothing: %s", path, section, _GONE_GROUPS[section]
                )
                continue
            if section not in known:
                raise ValueError(
                    f"{path}: expected one of the groups {', '.join(sorted(known))}, "
                    f"found [{section}]"
                )
            for name in values:
                if (section, name) in _GONE:
                    LOG.warning("%s: [%s]%s is gone and does nothing", path, section, name)
                elif name not in known[section]:
                    raise ValueError(
                        f"{path}: expected an option of [{section}] "
                        f"({', '.join(sorted(known[section]))}), found {name}"
                    )
