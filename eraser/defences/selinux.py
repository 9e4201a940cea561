"""Whether SELinux lets a process execute a file: the kernel is asked, for policies differ.

A program without leave sees an executable file by its mode, and fails to run it. So it is with
libvirt's hooks where the policy lets virtqemud only read them: it refuses every start, and ends
running guests when it is started anew.
"""

from __future__ import annotations

import os
from pathlib import Path

from eraser.gate.hookfile import HOOK
from eraser.host import proc
from eraser.host.proc import Process
from eraser.host.sysfs import Host

_PLACE = "/sys/fs/selinux"
_FILE_SYSTEM = "selinuxfs"
"""Known to a kernel that booted with SELinux (init_sel_fs in security/selinux/selinuxfs.c)."""
_PERMISSIVE = 1
"""SELINUX_AVD_FLAGS_PERMISSIVE, of one domain (security/selinux/include/security.h)."""
_MAX_ANSWER = 4096


def forbids(host: Host, process: Process, path: Path) -> str:
    """Why it must not execute the file at ``path``, or one that is made in a directory there; empty
    where it may, or where SELinux enforces nothing. Raises ``OSError``, ``ValueError``."""
    try:
        if not _may_enforce(host):
            return ""
        who = host.text(f"{process.directory}/attr/current").rstrip("\0")
    except (FileNotFoundError, ProcessLookupError):
        return ""  # it ended, and who asks sees that
    # Without a policy, as SELINUX=disabled has it, processes have names and no contexts
    # (initial_sid_to_string in security/selinux/include/initial_sid_to_string.h).
    if ":" not in who:
        return ""
    what = label(path)
    # Of a script, not of what runs it (selinux_bprm_creds_for_exec, selinux_inode_permission).
    becomes = _ask(host, "create", who, what, _index(host, "process")).rstrip("\0")
    wanted = [(who, what, "file", "execute")]
    if becomes == who:
        wanted.append((who, what, "file", "execute_no_trans"))
    else:
        wanted += [(who, becomes, "process", "transition"), (becomes, what, "file", "entrypoint")]
    for each in wanted:
        if not _may(host, *each):
            return f"SELinux does not let it execute what is labelled {what} ({' '.join(each)})"
    return ""


def bars_hook(host: Host) -> str:
    """Why a daemon of libvirt that runs could not execute our hook once it is there; empty where
    all could. Raises ``OSError``, ``ValueError``."""
    for daemon in proc.libvirt_daemons(host, tuple(proc.processes(host))):
        place = Path(f"{proc.view(host, daemon)}{HOOK}")
        # What is made in a directory gets its label.
        while not host.path(str(place)).exists():
            place = place.parent
        if why := forbids(host, daemon, host.path(str(place))):
            return f"{daemon.name} (process {daemon.pid}): {why}"
    return ""


def label(path: Path) -> str:
    """Raises ``OSError``."""
    return os.getxattr(path, "security.selinux").decode().rstrip("\0")


def _may_enforce(host: Host) -> bool:
    """Whether SELinux enforces, or nobody can tell: then the questions below fail."""
    try:
        return host.text(f"{_place(host)}/enforce").strip() == "1"
    except FileNotFoundError:
        pass  # no SELinux, or none that is seen from here
    try:
        return _FILE_SYSTEM in host.text("/proc/filesystems").split()
    except FileNotFoundError:
        return False


def _place(host: Host) -> str:
    """As the host's first process has it: a container has a /sys of its own, and selinuxfs is not
    mounted there, or for reading alone."""
    return f"{proc.view(host, proc.FIRST)}{_PLACE}"


def _may(host: Host, subject: str, target: str, kind: str, permission: str) -> bool:
    """As libselinux asks (security_compute_av_flags(3)): hexadecimal, but for the fifth number."""
    allowed, _, _, _, _, flags = _ask(host, "access", subject, target, _index(host, kind)).split()
    bit = int(host.text(f"{_place(host)}/class/{kind}/perms/{permission}")) - 1
    return bool(int(allowed, 16) >> bit & 1 or int(flags, 16) & _PERMISSIVE)


def _index(host: Host, kind: str) -> int:
    return int(host.text(f"{_place(host)}/class/{kind}/index"))


def _ask(host: Host, question: str, subject: str, target: str, kind: int) -> str:
    """One write and one read of a file of selinuxfs: the answer is this descriptor's alone."""
    descriptor = os.open(host.path(f"{_place(host)}/{question}"), os.O_RDWR | os.O_CLOEXEC)
    try:
        os.write(descriptor, f"{subject} {target} {kind}".encode())
        return os.read(descriptor, _MAX_ANSWER).decode()
    finally:
        os.close(descriptor)
