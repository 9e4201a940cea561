"""What our file in libvirt's qemu.d does once its shell part found that Python is needed.

Never imported by a running program: ``hookfile`` writes it out, with the two settings below put in.
Hence the standard library only, and as little of that as a start of a guest needs.
"""

import os
import sys

ERASER: list[str] = ["nvme-eraser", "gate", "check"]
RUN_DIR = "/run/nvme-quarantine"

TIMEOUT = 10.0
"""Seconds for the gate's answer; it has a shorter deadline of its own for drives that are mute."""

NO_ANSWER = (1, 2, 126, 127)
"""Exit codes of a program that is broken or was not understood. All others but 0 are a refusal."""

NVME_CLASS = "0x010802"


def main(argv: list[str]) -> int:
    """``NAME OPERATION SUBOPERATION EXTRA`` as libvirt calls it, the domain on standard input."""
    name, operation = argv[1:3]
    xml = sys.stdin.buffer.read()
    if operation == "release":
        ring(xml)
        return 0
    try:
        words = refusal(name, xml)
    except Exception as error:
        words = f"nvme-quarantine: guest {name} does not start: the hook failed: {error!r}\n"
    sys.stderr.write(words)
    return 1 if words else 0


def refusal(name: str, xml: bytes) -> str:
    """Why the guest may not start; empty where it may."""
    code, words = ask(name, xml)
    if code == 0:
        return ""
    if code not in NO_ANSWER and code > 0:
        return words or f"nvme-quarantine: guest {name} does not start: refused with code {code}\n"
    if not may_have_nvme(xml):
        return ""
    return (
        f"nvme-quarantine: guest {name} does not start: it has an NVMe drive, and expected an "
        f"answer from '{' '.join(ERASER)}', found: {last_line(words) or f'exit code {code}'}\n"
    )


def ask(name: str, xml: bytes) -> tuple[int, str]:
    """The gate's exit code and words; 127 where there is no such program, 1 without an answer.

    Files in memory in place of pipes: nothing can block on them, and nobody who is stuck and holds
    one keeps us. And subprocess would take longer to load than all the rest of us.
    """
    import select

    domain, words = os.memfd_create("domain"), os.memfd_create("words")
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.pwrite(domain, xml, 0)
    ends = ((domain, 0), (nothing, 1), (words, 2))
    try:
        child = os.posix_spawn(
            ERASER[0],
            [*ERASER, "--", name],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, ours, theirs) for ours, theirs in ends],
        )
    except OSError as error:
        return 127, str(error)
    poll = select.poll()
    poll.register(os.pidfd_open(child), select.POLLIN)
    if not poll.poll(TIMEOUT * 1000):
        # Killed but not waited for: a command to a drive that is mute cannot be interrupted, and
        # libvirt serves nobody on this guest's account before we end.
        os.kill(child, 9)
        return 1, f"none within {TIMEOUT:g} s"
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, os.pread(words, 1 << 16, 0).decode("utf-8", "replace")


def last_line(words: str) -> str:
    """What a program said in the end."""
    return words.strip().rpartition("\n")[2]


def may_have_nvme(xml: bytes) -> bool:
    """A function that the domain names anywhere is an NVMe one, or a host's function is absent.

    Coarser than the gate's own reading, for when that cannot be had.
    """
    import re

    sources = b"".join(re.findall(rb"<source\b[^>]*(?<!/)>.*?</source>", xml, re.DOTALL))
    return any(pci_class(address) == "" for address in in_elements(sources)) or any(
        pci_class(address) == NVME_CLASS for address in in_elements(xml) | in_arguments(xml)
    )


def in_elements(xml: bytes) -> set[str]:
    """PCI addresses of ``<address .../>`` elements, of the host's and the guest's side."""
    import re

    found = set()
    for attributes in re.findall(rb"<address\b([^>]*)>", xml):
        parts = dict(re.findall(rb"(\w+)=['\"](0[xX][0-9a-fA-F]+|[0-9]+)['\"]", attributes))
        if b"bus" in parts and b"slot" in parts:
            found.add(
                "{:04x}:{:02x}:{:02x}.{:x}".format(
                    *(int(parts.get(n, b"0"), 0) for n in (b"domain", b"bus", b"slot", b"function"))
                )
            )
    return found


def in_arguments(xml: bytes) -> set[str]:
    """PCI addresses as QEMU's own arguments spell them."""
    import re

    spelled = re.findall(
        rb"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})\.([0-7])", xml
    )
    return {
        f"{int(d or b'0', 16):04x}:{int(b, 16):02x}:{int(s, 16):02x}.{f.decode()}"
        for d, b, s, f in spelled
    }


def pci_class(address: str) -> str:
    """The kernel's word for what a function is; empty where there is none."""
    try:
        with open(f"/sys/bus/pci/devices/{address}/class") as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


def ring(xml: bytes) -> None:
    """Tells the worker which slots a guest may have let go of. Only a hint: errors do not matter,
    and it also comes after a refused start."""
    import socket

    slots = sorted(a for a in in_elements(xml) | in_arguments(xml) if pci_class(a) == NVME_CLASS)
    if slots:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
            bell.setblocking(False)
            bell.sendto(" ".join(slots).encode(), os.path.join(RUN_DIR, "bell.sock"))


if __name__ == "__main__":
    sys.exit(main(sys.argv))
