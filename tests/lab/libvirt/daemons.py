"""Scripts that start and end libvirt's daemons in a guest that has no systemd."""

from typing import Final

LOG: Final = "/var/log/libvirt/libvirtd.log"
"""libvirtd's own log; hook calls are in it at debug level."""

# libvirtd gets the environment that a service has, not that of the guest's command agent: what
# runs in a hook must not live off our PYTHONPATH.
START: Final = f"""
mkdir -p /run/dbus /run/libvirt /var/log/libvirt/qemu
pgrep -x dbus-daemon >/dev/null || dbus-daemon --system --fork
pgrep -x virtlogd >/dev/null || virtlogd -d
env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C HOME=/root \\
    LIBVIRT_LOG_OUTPUTS=1:file:{LOG} \\
    LIBVIRT_LOG_FILTERS='1:util.hook 3:rpc 3:event 3:util.object' \\
    libvirtd -d
until virsh -q list >/dev/null 2>&1; do sleep 0.05; done
"""

STOP: Final = """
pid=$(cat /run/libvirtd.pid)
kill $pid
while [ -e /proc/$pid ]; do sleep 0.05; done
"""

# It looks for the hooks of each driver in turn; this is the last one.
_LOOKED: Final = f"grep -c 'virHookCheck.*/hooks/bhyve.d' {LOG}"
RELOAD: Final = f"""
before=$({_LOOKED})
kill -HUP $(cat /run/libvirtd.pid)
while [ $({_LOOKED}) = $before ]; do sleep 0.05; done
"""
