"""Domains as Nova would define them, cut down to what the gate looks at and QEMU needs."""

import re
from dataclasses import dataclass, field
from uuid import uuid4
from xml.sax.saxutils import escape

_ADDRESS = re.compile(r"([0-9a-f]{4}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])")

# A machine without firmware settings of its own or a disk: it is started paused, and what is
# looked at is who has the drives. The smallest memory makes the quickest mapping of it.
_XML = """\
<domain type='qemu'>
  <name>{name}</name>
  <uuid>{uuid}</uuid>
  <memory unit='MiB'>16</memory>
  <vcpu>1</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <controller type='usb' model='none'/>
{hostdevs}    <memballoon model='none'/>
  </devices>
</domain>
"""
_HOSTDEV = """\
    <hostdev mode='subsystem' type='pci' managed='yes'>
      <source>
        <address domain='0x{0}' bus='0x{1}' slot='0x{2}' function='0x{3}'/>
      </source>
    </hostdev>
"""


@dataclass(frozen=True)
class Domain:
    """A guest of the compute guest, with NVMe drives by their host PCI addresses."""

    name: str
    addresses: tuple[str, ...] = ()
    uuid: str = field(default_factory=lambda: str(uuid4()))

    def xml(self) -> str:
        """What ``virsh define`` takes."""
        devices = "".join(map(hostdev, self.addresses))
        return _XML.format(name=escape(self.name), uuid=self.uuid, hostdevs=devices)


def hostdev(address: str) -> str:
    """One managed hostdev, as ``virsh attach-device`` takes it."""
    parts = _ADDRESS.fullmatch(address)
    if parts is None:
        raise ValueError(f"expected a PCI address such as 0000:01:00.0, got {address!r}")
    return _HOSTDEV.format(*parts.groups())
