"""libvirtd in a compute guest, as a test holds it: domains, their processes, and the daemon."""

import re
from dataclasses import dataclass
from typing import Final

from tests.lab.errors import LabError
from tests.lab.guest.commands import Completed
from tests.lab.libvirt import daemons
from tests.lab.libvirt.domains import Domain, hostdev
from tests.lab.rack.guests import ComputeGuest

HOOKS: Final = "/etc/libvirt/hooks/qemu.d"
LIVE: Final = "/run/libvirt/qemu"
_STDIN: Final = "/proc/self/fd/0"
_START_S: Final = 600.0
_CALL: Final = re.compile(r"Calling hook (\S+) id=(\S+) op=(\S+) subop=(\S+)")


@dataclass(frozen=True)
class HookCall:
    """One run of a hook file."""

    file: str
    domain: str
    operation: str
    step: str


class Libvirt:
    """The libvirt of one compute guest (flavour ``LIBVIRT``)."""

    def __init__(self, compute: ComputeGuest) -> None:
        self.compute = compute

    def virsh(self, *words: str, check: bool = True, stdin: str = "") -> Completed:
        """Run virsh. Raises ``CommandFailed`` unless ``check`` is false."""
        return self.compute.run(["virsh", "-q", *words], check=check, stdin=stdin, timeout=_START_S)

    # Domains

    def define(self, domain: Domain) -> Domain:
        """Define a domain, or define it anew."""
        self.virsh("define", _STDIN, stdin=domain.xml())
        return domain

    def start(self, domain: Domain) -> Completed:
        """Define a domain (anew) and start it, as Nova does, but paused: its processor never runs.

        Returns what virsh said; a refusal is no exception.
        """
        self.define(domain)
        return self.virsh("start", "--paused", domain.name, check=False)

    def started(self, domain: Domain) -> None:
        """Start a domain that has to start. Raises ``LabError``."""
        done = self.start(domain)
        if done.returncode != 0:
            raise LabError(f"expected {domain.name} to start: {done.stderr.strip()}")

    def destroy(self, domain: Domain) -> None:
        """Pull a domain's plug and wait until its drives are back."""
        self.virsh("destroy", domain.name)
        self.settle(domain)

    def undefine(self, domain: Domain) -> None:
        """Remove a domain that is off."""
        self.virsh("undefine", domain.name)

    def attach(self, domain: Domain, address: str) -> Completed:
        """Hot-plug a drive into a running domain, as Nova's resume does."""
        words = ("attach-device", domain.name, _STDIN, "--live")
        return self.virsh(*words, check=False, stdin=hostdev(address))

    def state(self, domain: Domain) -> str:
        """``running``, ``paused``, ``shut off``, ..."""
        return self.virsh("domstate", domain.name).stdout.strip()

    def pid(self, domain: Domain) -> int:
        """Process id of the domain's QEMU. Raises ``GuestError`` when it does not run."""
        return int(self.compute.get(f"{LIVE}/{domain.name}.pid"))

    def alive(self, pid: int) -> bool:
        """Whether a process of the compute guest runs."""
        return self.compute.sh(f"kill -0 {pid}", check=False).returncode == 0

    def kill_qemu(self, domain: Domain) -> None:
        """Kill a domain's QEMU, as the kernel does when memory is short."""
        self.compute.sh(f"kill -9 {self.pid(domain)}")

    def settle(self, domain: Domain) -> None:
        """Wait until a domain is off and each of its drives answers on the nvme driver again."""
        self.compute.wait_for(f"{LIVE}/{domain.name}.xml", _START_S, gone=True)
        for address in domain.addresses:
            self.compute.wait_drive(address)

    def clear(self) -> None:
        """No domains, running or defined; every drive on the nvme driver."""
        for kind in ("--state-running", "--state-paused"):
            for name in self._names(kind):
                self.virsh("destroy", name)
        for name in self._names("--all"):
            self.virsh("undefine", name)
        for drive in self.compute.drives:
            self.compute.wait_drive(drive.address)

    def _names(self, kind: str) -> list[str]:
        return self.virsh("list", "--name", kind).stdout.split()

    # The daemon

    def restart(self, *, boot: bool = False) -> None:
        """End libvirtd and start it again; domains live on. ``boot`` also makes it autostart."""
        self.stop()
        if boot:
            self.compute.sh("rm -rf /run/libvirt/qemu/autostarted")
        self.compute.sh(daemons.START, timeout=_START_S)

    def stop(self) -> None:
        """End libvirtd."""
        self.compute.sh(daemons.STOP, timeout=_START_S)

    def reload(self) -> None:
        """What ``systemctl reload libvirtd`` does; returns when the daemon is through with it."""
        self.compute.sh(daemons.RELOAD, timeout=_START_S)

    def hook_calls(self) -> list[HookCall]:
        """The hooks that libvirtd says it called, oldest first."""
        log = self.compute.get(daemons.LOG).decode(errors="replace")
        return [HookCall(*found.groups()) for found in _CALL.finditer(log)]

    def log_tail(self, lines: int = 40) -> str:
        """The end of libvirtd's log, without the lines about hooks."""
        log = self.compute.get(daemons.LOG).decode(errors="replace")
        return "\n".join([line for line in log.splitlines() if "virHook" not in line][-lines:])
