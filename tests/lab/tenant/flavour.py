"""The tenant's guest: Debian 12 with what the role asks for, and an initramfs of its own."""

from typing import Final

from tests.lab.guest.argv import Flavour
from tests.lab.guest.image import Image
from tests.lab.guest.packages import GUEST_PACKAGES

TENANT_PACKAGES: Final = (
    "cryptsetup-bin",
    "initramfs-tools",
    "python3-apt",
    "systemd",
)
"""On top of the plain guest. systemd is there for its tools (systemctl enable, the generator of
mount units); process 1 is the lab's own."""

# The guest boots from the lab's kernel and initramfs. The files here are empty, but enough for
# update-initramfs to make a real one when the role asks for it. A short list of modules makes that
# take half a minute and not five; the lab's kernel comes without the file that says what it can
# unpack.
_WARM_UP: Final = """
version=$(uname -r)
printf 'MODULES=list\\nCOMPRESS=gzip\\n' >/etc/initramfs-tools/conf.d/lab
echo CONFIG_RD_GZIP=y >"/boot/config-$version"
: >"/boot/vmlinuz-$version"
: >"/boot/initrd.img-$version"
"""
TENANT: Final = Flavour(
    "tenant", image=Image("tenant", (*GUEST_PACKAGES, *TENANT_PACKAGES), 1400, _WARM_UP)
)
