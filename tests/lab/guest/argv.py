"""The QEMU command line of a guest. A saved state loads only under the very same one."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.lab.guest.image import PLAIN, Image
from tests.lab.guest.qemu import KVM

SLOTS: Final = 8
"""Empty PCIe root ports of a guest, where its flavour does not ask for more."""
MOST_SLOTS: Final = 24
"""And the most that a flavour may ask for: a storage server's whole front."""
AGENT_PORT: Final = "org.nvme-quarantine.agent"
_FIRST_ROOT_PORT_DEVICE: Final = 0x10
KERNEL_ARGUMENTS: Final = (
    "console=ttyS0 quiet panic=-1 net.ifnames=0 random.trust_cpu=on mitigations=off nokaslr "
    # Passthrough domains for the host's own devices: without them every transfer of a drive on
    # the nvme driver would be a map and an unmap message to the process that serves it.
    # On a busy machine an emulated timer may miss the kernel's test of it, which is a panic.
    "tsc=reliable no_timer_check intel_iommu=on iommu=pt"
)


@dataclass(frozen=True)
class Flavour:
    """What kind of machine: each flavour has a saved state of its own."""

    name: str = "default"
    kernel_arguments: str = ""
    """Added to the kernel command line, e.g. ``nvme_core.admin_timeout=5``."""
    memory_mib: int = 1024
    cpus: int = 2
    slots: int = SLOTS
    image: Image = PLAIN


DEFAULT: Final = Flavour()
SHORT_TIMEOUTS: Final = Flavour("short-timeouts", "nvme_core.admin_timeout=5")
"""The kernel gives up on an admin command after 5 s instead of 60 s."""


@dataclass(frozen=True)
class Disks:
    """The image files of one guest. The root overlay and the state disk are its own."""

    root_overlay: Path
    site: Path
    sources: Path
    state: Path


@dataclass(frozen=True)
class Sockets:
    """The host's ends of a guest's channels; the directory's path must be short (108 bytes)."""

    directory: Path

    @property
    def monitor(self) -> Path:
        """The QMP monitor."""
        return self.directory / "qmp"

    @property
    def agent(self) -> Path:
        """The agent's virtio serial port."""
        return self.directory / "agent"


def slot_address(slot: int) -> str:
    """Return the PCI address of a drive in a slot, counted from 0: ``0000:01:00.0`` and so on."""
    if not 0 <= slot < MOST_SLOTS:
        raise ValueError(f"expected a slot from 0 to {MOST_SLOTS - 1}, got {slot}")
    return f"0000:{slot + 1:02x}:00.0"


def root_port(slot: int) -> str:
    """Return the QEMU id of the root port of a slot."""
    return f"rp{slot}"


def command_line(
    accel: str, base: Path, flavour: Flavour, disks: Disks, sockets: Sockets, console: Path
) -> list[str]:
    """Return QEMU's arguments, all but the program itself."""
    kernel = (base / "vmlinuz", base / "initramfs.gz")
    arguments = f"{KERNEL_ARGUMENTS} {flavour.kernel_arguments}".rstrip()
    argv = chassis(accel, flavour.memory_mib, flavour.cpus, sockets, console)
    argv += boot(*kernel, arguments)
    argv += disk("root", disks.root_overlay, {"format": "qcow2", "cache": "unsafe"})
    argv += disk("site", disks.site, {"format": "raw", "readonly": "on"})
    argv += disk("src", disks.sources, {"format": "raw", "readonly": "on"})
    # A flush in the guest is an fdatasync of this file: what the product has synced is on disk.
    argv += disk("state", disks.state, {"format": "raw", "cache": "writeback"})
    return argv + channels(sockets) + slots(flavour.slots)


def chassis(accel: str, memory_mib: int, cpus: int, sockets: Sockets, console: Path) -> list[str]:
    """Return the machine itself: processors, memory, console, monitor."""
    argv = ["-name", "lab", "-accel", accel, "-machine", "q35,kernel-irqchip=split"]
    argv += ["-cpu", "host" if accel == KVM else "max", "-smp", str(cpus)]
    argv += ["-m", str(memory_mib), "-nodefaults", "-no-user-config", "-no-reboot"]
    # vfio-user serves DMA from the shared memory that the device process maps as well.
    memory = f"memory-backend-memfd,id=ram,size={memory_mib}M,share=on"
    argv += ["-object", memory, "-numa", "node,memdev=ram", "-display", "none"]
    argv += ["-serial", f"file:{escape(console)}"]
    argv += ["-qmp", f"unix:{escape(sockets.monitor)},server=on,wait=off"]
    return argv


def boot(kernel: Path, initramfs: Path, arguments: str) -> list[str]:
    """Return what it boots, and the IOMMU."""
    argv = ["-kernel", str(kernel), "-initrd", str(initramfs), "-append", arguments]
    return [*argv, "-device", "intel-iommu,intremap=on,caching-mode=on"]


def channels(sockets: Sockets) -> list[str]:
    """Return the agent's port, a source of randomness, and the network of this machine."""
    argv = ["-device", "virtio-serial-pci", "-device", "virtio-rng-pci"]
    argv += ["-chardev", f"socket,id=agent,path={escape(sockets.agent)},server=on,wait=off"]
    argv += ["-device", f"virtserialport,chardev=agent,name={AGENT_PORT}"]
    return [*argv, "-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile="]


def slots(count: int = SLOTS) -> list[str]:
    """Return the empty root ports that drives are plugged into."""
    argv = []
    for slot in range(count):
        device, function = divmod(slot, 8)
        port = f"pcie-root-port,id={root_port(slot)},chassis={slot + 1},slot={slot + 1}"
        port += f",addr={_FIRST_ROOT_PORT_DEVICE + device:#x}.{function}"
        argv += ["-device", port + (",multifunction=on" if function == 0 else "")]
    return argv


def disk(name: str, image: Path, options: Mapping[str, str]) -> list[str]:
    """Return a virtio disk."""
    words = [f"file={escape(image)}", "if=none", f"id={name}"]
    words += [f"{key}={value}" for key, value in options.items()]
    return ["-drive", ",".join(words), "-device", f"virtio-blk-pci,drive={name},serial={name}"]


def escape(path: Path) -> str:
    """Return a path as it stands in an option's value: QEMU ends that at a single comma."""
    return str(path).replace(",", ",,")
