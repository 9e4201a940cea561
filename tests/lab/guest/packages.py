"""What the rack needs from Debian and from the Python package index: the only list of it."""

from typing import Final

# Debian packages of the machine that runs the rack (tools/ installs them).
HOST_PACKAGES: Final = (
    "busybox-static",
    "cpio",
    "debian-archive-keyring",
    "e2fsprogs",
    "kmod",
    "mmdebstrap",
    "qemu-utils",
    "util-linux",
)

GUEST_SUITE: Final = "bookworm"
GUEST_PACKAGES: Final = (
    "e2fsprogs",
    "fdisk",
    "fio",
    "iproute2",
    "kmod",
    "lvm2",
    "mdadm",
    "nvme-cli",
    "pciutils",
    "procps",
    "psmisc",
    "python3",
    "python3-pyudev",
    "udev",
    "util-linux",
    "xfsprogs",
)
# On top of these, the compute guest that has libvirtd.
LIBVIRT_PACKAGES: Final = (
    "dbus",
    "libvirt-clients",
    "libvirt-daemon-system",
    "libvirt-daemon-system-sysv",
    "qemu-system-x86",
)
GUEST_KERNEL: Final = "linux-image-cloud-amd64"

# vfio-user came with QEMU 10.1, which is younger than Debian 12 and Debian 13. Backports keeps one
# version at a time, so the version is never pinned; it is checked after unpacking.
QEMU_MINIMUM: Final = (10, 1)
QEMU_SUITE: Final = "trixie"
QEMU_BACKPORTS: Final = "trixie-backports"
QEMU_PACKAGES: Final = ("qemu-system-x86", "qemu-system-common", "qemu-system-data", "seabios")

# The dependencies of the project (in pyproject.toml) that the eraser side needs.
GUEST_DISTRIBUTIONS: Final = ("celery", "cryptography", "oslo.config", "pyudev", "redis")
GUEST_PYTHON: Final = (3, 11)
# Wanted by redis-py before Python 3.11.3 (Debian 12 has 3.11.2). pip looks at the version of the
# Python that runs it, which may be a newer 3.11.
GUEST_MARKED: Final = ("async-timeout>=4.0.3",)

# Project packages that run in a guest; those that do not exist yet are skipped.
GUEST_SOURCES: Final = ("eraser", "qualify", "quarantine")

# Loaded from the initramfs, in dependency order, before the root file system can be mounted.
INITRAMFS_MODULES: Final = (
    "virtio_pci",
    "virtio_blk",
    "virtio_console",
    "virtio_net",
    "virtio-rng",
)
# Loaded before the state is saved, so that no test waits for them.
PRELOADED_MODULES: Final = ("dm-mod", "loop", "raid0", "raid1", "vfio-pci", "xfs")
