"""How others erase an NVMe drive: each as its own documentation or code does it, in our guest.

What is theirs is theirs: Debian's nvme-cli, util-linux and nwipe, and ironic-python-agent from the
Python package index. The scripts below are only what an operator types around them. Exit code 0 is
what each of them calls success, and what a caller would release the drive on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.lab.guest.argv import Flavour
from tests.lab.guest.image import Image
from tests.lab.guest.packages import GUEST_PACKAGES

FLAVOUR: Final = Flavour(
    "peers",
    "nvme_core.admin_timeout=5",
    image=Image("peers", (*GUEST_PACKAGES, "nwipe"), 1200),
)
IRONIC: Final = "ironic-python-agent==13.0.0"
"""With its dependencies, on top of what the guests have from the package index."""


@dataclass(frozen=True)
class Peer:
    """Somebody else's way. ``script`` gets the controller as $1, its block devices after it."""

    name: str
    about: str
    script: str

    def argv(self, controller: str, devices: list[str]) -> list[str]:
        """The command line in the guest."""
        return ["/bin/sh", "-ec", self.script, self.name, f"/dev/{controller}", *devices]


# As ironic-python-agent calls itself when a node is cleaned, with the conductor's defaults.
_IRONIC = """
shift
cat >/tmp/clean.py <<'END'
import sys
from oslo_config import cfg
from ironic_python_agent import config, hardware
cfg.CONF([], project='ironic-python-agent')
manager = hardware.GenericHardwareManager()
node = {'driver_internal_info': {'agent_continue_if_secure_erase_failed': False}}
found = {one.name: one for one in manager.list_block_devices()}
for name in sys.argv[1:]:
    manager.erase_block_device(node, found[name])
END
exec python3 /tmp/clean.py "$@"
"""

# Started, then polled until log 81h no longer says that it runs: the usual loop around it.
_SANITIZE = """
control=$1
if nvme id-ctrl $control -H | grep -q 'Block Erase Sanitize Operation Supported'; then
    action=2
else
    action=4
fi
nvme sanitize $control --sanact=$action
while :; do
    state=$(nvme get-log $control --log-id=0x81 --log-len=512 -b | od -An -tu1 -j2 -N1)
    state=$((state & 7))
    [ $state -eq 2 ] || break
    sleep 0.5
done
[ $state -eq 1 ] || [ $state -eq 4 ]
"""

PEERS: Final = (
    Peer(
        "nvme-format",
        "`nvme format -s1` as it comes, on every block device",
        'shift; [ $# -gt 0 ]; for d in "$@"; do nvme format "$d" -s1 --force; done',
    ),
    Peer(
        "nvme-sanitize", "`nvme sanitize`, block erase or else crypto, polled to its end", _SANITIZE
    ),
    Peer(
        "ironic-python-agent",
        "ironic-python-agent's own erase_block_device, on every block device",
        _IRONIC,
    ),
    Peer(
        "nwipe",
        "nwipe, one pass of zeros, verified",
        'shift; [ $# -gt 0 ]; nwipe --autonuke --nogui --nowait --method=zero --verify=last "$@"',
    ),
    Peer(
        "blkdiscard",
        "`blkdiscard`, then every byte compared with zero",
        'shift; [ $# -gt 0 ]; for d in "$@"; do blkdiscard -f "$d"; '
        'cmp -n $(blockdev --getsize64 "$d") "$d" /dev/zero; done',
    ),
)
