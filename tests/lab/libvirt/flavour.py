"""The compute guest that has libvirtd. Its image and its saved state are made on first use."""

from typing import Final

from tests.lab.guest.argv import Flavour
from tests.lab.guest.image import Image
from tests.lab.guest.packages import GUEST_PACKAGES, LIBVIRT_PACKAGES
from tests.lab.libvirt.daemons import START

# What libvirtd runs has no PYTHONPATH: here the project is found as an installed one is.
# libvirtd asks its QEMU what it can do and keeps the answer; under emulation that takes long, so
# it has been asked, and answers, when the state is saved.
_WARM_UP: Final = f"""
[ -s /etc/machine-id ] || dbus-uuidgen >/etc/machine-id
modprobe -a vfio-pci tun
printf '/opt/src\\n/opt/site\\n' >/usr/lib/python3/dist-packages/lab.pth
{START}
virsh -q domcapabilities --virttype qemu --machine q35 >/dev/null
"""
LIBVIRT: Final = Flavour(
    "libvirt",
    memory_mib=2048,
    image=Image("libvirt", (*GUEST_PACKAGES, *LIBVIRT_PACKAGES), 2000, _WARM_UP),
)
