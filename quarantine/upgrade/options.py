"""Reads nova.conf and placement.conf as their services do: the options that decide about drives.

oslo.config itself reads the files, so values that are given more than once keep their order and old
names count. Options that are none of ours are passed over. What Nova would refuse is a finding and
no error of ours: a host whose file is broken must not hide what is wrong with the others.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from oslo_config import cfg

from quarantine.errors import BadInputError
from quarantine.upgrade.facts import ConfigSource, NovaConf, PlacementConf
from quarantine.upgrade.nova import alias, devicespec

MAX_FILE_BYTES: Final = 8 << 20
"""No configuration file comes near this."""

_NOVA: Final[Mapping[str, list[cfg.Opt]]] = {
    "pci": [
        cfg.MultiStrOpt(
            "alias", default=[], deprecated_name="pci_alias", deprecated_group="DEFAULT"
        ),
        cfg.MultiStrOpt(
            "device_spec",
            default=[],
            deprecated_opts=[
                cfg.DeprecatedOpt("passthrough_whitelist", group="pci"),
                cfg.DeprecatedOpt("pci_passthrough_whitelist", group="DEFAULT"),
            ],
        ),
        cfg.BoolOpt("report_in_placement", default=False),
    ],
    "filter_scheduler": [
        cfg.BoolOpt("pci_in_placement", default=False),
        cfg.ListOpt("enabled_filters", default=[]),
    ],
    "compute": [cfg.IntOpt("resource_provider_association_refresh", default=300)],
    "DEFAULT": [
        cfg.IntOpt("reclaim_instance_interval", default=0),
        cfg.StrOpt("running_deleted_instance_action", default="reap"),
        cfg.IntOpt("running_deleted_instance_poll_interval", default=1800),
    ],
}
"""Defaults of Nova 34 (``nova/conf``), but for enabled_filters: none of its own are ours."""

_PLACEMENT: Final[Mapping[str, list[cfg.Opt]]] = {
    "workarounds": [cfg.BoolOpt("optimize_for_wide_provider_trees", default=False)],
    "placement": [
        cfg.StrOpt("allocation_candidates_generation_strategy", default="depth-first"),
    ],
}
"""``placement/conf`` of Placement 16."""

_Values = Mapping[str, Mapping[str, Any]]


def nova(source: ConfigSource) -> NovaConf:
    """The files of one role, read together. Raises :class:`BadInputError` for a file that is not
    there or cannot be read."""
    values, trouble = _read(source.paths, _NOVA)
    pci, scheduling, core = values["pci"], values["filter_scheduler"], values["DEFAULT"]
    specs, wrong_specs = devicespec.parse(pci["device_spec"])
    aliases, wrong_aliases = alias.parse(pci["alias"])
    return NovaConf(
        source=source,
        trouble=trouble,
        wrong_specs=wrong_specs,
        wrong_aliases=wrong_aliases,
        device_specs=specs,
        aliases=aliases,
        report_in_placement=pci["report_in_placement"],
        pci_in_placement=scheduling["pci_in_placement"],
        enabled_filters=frozenset(scheduling["enabled_filters"]),
        provider_refresh=values["compute"]["resource_provider_association_refresh"],
        reclaim_interval=core["reclaim_instance_interval"],
        ghost_action=core["running_deleted_instance_action"],
        ghost_interval=core["running_deleted_instance_poll_interval"],
    )


def placement(source: ConfigSource) -> PlacementConf:
    """placement.conf. Raises :class:`BadInputError` as :func:`nova` does."""
    values, trouble = _read(source.paths, _PLACEMENT)
    return PlacementConf(
        source=source,
        trouble=trouble,
        wide_trees=values["workarounds"]["optimize_for_wide_provider_trees"],
        strategy=values["placement"]["allocation_candidates_generation_strategy"],
    )


def _read(
    paths: Sequence[Path], options: Mapping[str, list[cfg.Opt]]
) -> tuple[_Values, tuple[str, ...]]:
    """Every value; its default where it is bad, and then a word about it."""
    files = [file for path in paths for file in _files(path)]
    if not files:
        # Every value would be its default, as if the service had said so. One of several
        # directories may be empty.
        where = ", ".join(map(str, paths))
        raise BadInputError(f"nova-conf: expected a file or *.conf in {where}, found none")
    # oslo tells of old names as it meets them: those are Nova's matter.
    logging.getLogger("oslo_config").setLevel(logging.ERROR)
    trouble: list[str] = []
    conf = _registered(options)
    try:
        _parse(conf, files)
    except (cfg.Error, ValueError) as error:
        trouble.append(" ".join(str(error).split())[:300])
        conf = _registered(options)
        # Of no file at all: what is asked for below are the defaults.
        _parse(conf, [])
    values: dict[str, dict[str, Any]] = {}
    for group, members in options.items():
        holder = conf if group == "DEFAULT" else conf[group]
        values[group] = {}
        for option in members:
            try:
                # oslo converts a value when it is asked for: a bad one spoils no other.
                value = getattr(holder, option.dest)
            except (cfg.Error, ValueError) as error:
                # Our line names the option already: only the end of oslo's sentence is kept.
                reason = " ".join(str(error).split()).rpartition("is not valid: ")[2]
                trouble.append(f"[{group}]{option.name}: {reason[:200]}")
                value = option.default
            values[group][option.dest] = value
    return values, tuple(trouble)


def _registered(options: Mapping[str, list[cfg.Opt]]) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    for group, members in options.items():
        conf.register_opts(members, group=None if group == "DEFAULT" else group)
    return conf


def _parse(conf: cfg.ConfigOpts, files: Sequence[Path]) -> None:
    conf(
        [],
        project="nvme-quarantine",
        default_config_files=[str(file) for file in files],
        default_config_dirs=[],
        # Ours are not the environment variables of Nova's services.
        use_env=False,
    )


def _files(path: Path) -> list[Path]:
    """The file itself, or a directory's ``*.conf`` by name (``--config-dir``)."""
    try:
        found = [path]
        if path.is_dir():
            # Not by glob, which finds nothing in a directory that we may not look into.
            names = sorted(os.listdir(path))
            found = [path / n for n in names if n.endswith(".conf") and not n.startswith(".")]
        for file in found:
            # Opened here first: what is missing or far too large is no finding on Nova.
            with file.open("rb") as handle:
                if len(handle.read(MAX_FILE_BYTES + 1)) > MAX_FILE_BYTES:
                    raise BadInputError(
                        f"nova-conf: expected at most {MAX_FILE_BYTES} bytes in {file}"
                    )
    except OSError as error:
        raise BadInputError(f"nova-conf: expected a file at {path}: {error.strerror}") from error
    return found
