"""Scripts that start and end libvirt's daemons in a guest that has no systemd."""

from typing import Final

LOG: Final = "/var/log/libvirt/libvirtd.log"
"""libvirtd's own log; hook calls are in it at debug level."""

START: Final = f"""
mkdir -p /run/dbus /run/libvirt /var/log/libvirt/qemu
pgrep -x dbus-daemon >/dev/null || dbus-daemon --system --fork
pgrep -x virtlogd >/dev/null || virtlogd -d
LIBVIRT_LOG_OUTPUTS=1:file:{LOG} \\
LIBVIRT_LOG_FILTERS='1:util.hook 3:rpc 3:event 3:util.object' \\
    libvirtd -d
until virsh -q list >/dev/null 2>&1; do sleep 0.05; done
"""
