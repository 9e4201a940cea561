"""Our file in libvirt's ``qemu.d``: its text, and how it gets there and away.

Every executable file of that directory is run as root for every guest, whatever its name: nothing
half written may ever stand there, and nothing without its mode.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from eraser.state.journal import sync_directory

HOOKS = "/etc/libvirt/hooks"
HOOK_DIRECTORY = f"{HOOKS}/qemu.d"
HOOK = f"{HOOK_DIRECTORY}/50-nvme-quarantine"
MODE = 0o755

CALLED_FILE = "gate-called"
"""In the run directory: process id and start time (clock ticks since boot, proc(5)) of the libvirt
daemon that called the hook last."""

_SETTINGS = {
    "library": 'LIBRARY = "/usr/lib/python3/dist-packages"',
    "state_dir": 'STATE_DIR = "/var/lib/nvme-eraser"',
    "run_dir": 'RUN_DIR = "/run/nvme-quarantine"',
}
"""A setting, and the line of ``hook.py`` that it replaces the value of."""

_SAFE = re.compile(r"/[A-Za-z0-9_./+-]+")

# dash and Python read one file: to the shell the third line is the command ":", to Python it opens
# a string that ends where the shell has long left.
# In called() fields count from behind the name: ${20} is the 22nd of proc(5), the start time.
_SHELL = """\
#!/bin/sh
''':'
# Written by 'nvme-eraser host-setup', which also removes it (--no-gate). Do not edit.
#
# libvirt runs this as root for every guest, and holds the guest locked meanwhile: it is quick and
# never calls libvirt. It says no at "prepare" only: at "reconnect" a no ends a running guest. The
# shell does what it can, so that a Python that is broken hinders no guest without a PCI device.
called() {{
    read -r stat <"/proc/$PPID/stat" || return
    daemon=$PPID
    set -- ${{stat##*) }}
    echo "$daemon ${{20}}" >"{run_dir}/{called}"
}}
called 2>/dev/null
case "$2" in prepare | release) ;; *) exit 0 ;; esac
xml=$(cat)
case "$xml" in *hostdev* | *vfio* | *nvme* | *qemu:*) ;; *) exit 0 ;; esac
printf "%s" "$xml" | "{python}" -IS "$0" "$@"
code=$?
[ "$2" = prepare ] || exit 0
[ "$code" -le 1 ] && exit "$code"
echo "nvme-quarantine: guest $1 does not start: expected {python} to run, found exit code $code" >&2
exit 1
'''
"""


@dataclass(frozen=True)
class HookSettings:
    """What the file says of this host: absolute paths."""

    python: str
    library: str
    """The directory that holds the package of the eraser."""
    state_dir: str
    run_dir: str

    @property
    def door(self) -> str:
        """What the hook loads."""
        return f"{self.library}/eraser/gate/door.py"

    def __post_init__(self) -> None:
        for path in (self.python, self.library, self.state_dir, self.run_dir):
            if _SAFE.fullmatch(path) is None:
                raise ValueError(
                    "expected an absolute path of letters, digits and _ . / + - for libvirt's "
                    f"hook, found {path!r}"
                )


def text(settings: HookSettings) -> str:
    """The whole file, the same for the same settings and version."""
    body = Path(__file__).with_name("hook.py").read_text()
    for setting, line in _SETTINGS.items():
        if body.count(line) != 1:
            raise AssertionError(f"expected hook.py to say {line!r} once")
        name = line.partition(" ")[0]
        # A string in JSON is one in Python too.
        body = body.replace(line, f"{name} = {json.dumps(getattr(settings, setting))}")
    shell = _SHELL.format(run_dir=settings.run_dir, called=CALLED_FILE, python=settings.python)
    return shell + body


def install(path: Path, data: bytes) -> None:
    """Replaces the hook at once. Raises ``OSError``.

    It is made beside its directory, because inside libvirt would run it half written, and gets its
    mode before it gets its name, because without that libvirt would not run it at all.
    """
    staging = path.parent.parent
    path.parent.mkdir(mode=MODE, parents=True, exist_ok=True)
    temporary = staging / f".{path.name}.{os.getpid()}.tmp"
    # One that a power loss left may have our number: in a container each run has the same.
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), MODE)
            file.flush()
            os.fsync(file.fileno())
        # Synced before it has its name: after a power loss it could stand there empty.
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def remove(path: Path) -> None:
    """Takes the hook away; fine where there is none. Raises ``OSError``."""
    path.unlink(missing_ok=True)
    if path.parent.is_dir():
        sync_directory(path.parent)
