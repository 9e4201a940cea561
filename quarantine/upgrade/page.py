"""The page of checks: ``python -m quarantine.upgrade.page > docs/upgrade-check.md``."""

from __future__ import annotations

from quarantine.upgrade.catalogue import CHECKS
from quarantine.upgrade.finding import Check

_HEAD = """\
# upgrade check

`nvme-quarantine upgrade check` reads nova.conf files, Placement, the control plane's record and the
hosts' last words, changes nothing, and names what would leak a drive to the next tenant or break.
Run it before drives are handed to Nova, before and after every upgrade and every change of Nova's
configuration, and from a timer.

```
nvme-quarantine upgrade check \\
    --nova-conf api=/etc/nova/nova.conf --nova-conf scheduler=/etc/nova/nova.conf \\
    --nova-conf conductor=/etc/nova/nova.conf --nova-conf placement=/etc/placement/placement.conf \\
    --nova-conf compute=compute.conf --nova-conf compute@cmp7=cmp7.conf \\
    --nova-release 34 --placement-release 16 -f json
```

- `compute=FILE` stands for every host without a `compute@HOST=FILE` of its own; `all=FILE` for
  every service of Nova. A directory is read as Nova reads `--config-dir` (its `*.conf` by name). A
  role that is given twice reads both, in that order, as a service with two `--config-file`.
- Lines of `[pci]device_spec` are held against the drives with Nova's own rules, in Nova's order.
- What was not given or does not answer is *unknown*, and that is a warning. Options that a service
  takes from its environment or its command line are not seen.
- Each slot costs Placement three requests; `--host` narrows a large cloud.

Exit codes are those of OpenStack's upgrade checks: 0 success, 1 warning, 2 failure, 255 when the
check itself could not be made. Malformed options also end with 2, with one line on stderr and
nothing on stdout. Numbers of leaks are those of [leaks.md](leaks.md).

## The checks
"""


def markdown() -> str:
    """The whole page, from the table."""
    return _HEAD + "\n".join(_entry(check) for check in CHECKS)


def _entry(check: Check) -> str:
    leaks = f", leaks {', '.join(map(str, check.leaks))}" if check.leaks else ""
    return (
        f"\n### {check.name}\n"
        f"Expected: {check.title}. ({check.level.name.lower()}{leaks})\n\n"
        f"{check.why}\n\n"
        f"{check.do}\n"
    )


if __name__ == "__main__":
    print(markdown(), end="")
