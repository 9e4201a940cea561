"""Where the control plane's record is kept."""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup(
    "database",
    title="The record of slots, drives and certificates",
    help="""
The record is the control plane's memory. Losing it frees nothing: drives stay reserved in Placement
and are erased again when their slots are enrolled anew. Certificates are lost with it unless
[evidence]certificates_dir is kept elsewhere.
""",
)

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "url",
        default="sqlite:////var/lib/nvme-quarantine/record.db",
        secret=True,
        help="""
URL of the database, as SQLAlchemy writes it. The default is one SQLite file, written with full
synchronisation; it serves one control plane host with some thousands of slots well. The directory
must exist; the file is made readable by its owner alone.

When to change: to run the control plane on more than one host, or to have the database's own
backup: postgresql://USER:PASSWORD@HOST/NAME, or mariadb://USER:PASSWORD@HOST/NAME in a database of
its own, whose collation 'db upgrade' sets; the user needs ALL on it. Never put an SQLite file on a
network file system: its locks do not hold there.

After a change, and after each upgrade of the software: nvme-quarantine db upgrade.
""",
    ),
]


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [(GROUP, OPTIONS)]
