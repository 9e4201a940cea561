"""What our file in libvirt's qemu.d does once its shell part found that Python is needed.

``hookfile`` writes it out, with the settings below put in. Hence the standard library only, and as
little of that as a start of a guest needs.
"""

# Not socket, which loads more than the bell needs. A guest waits for each import.
import _socket
import os
import sys
import time

LIBRARY = "/usr/lib/python3/dist-packages"
STATE_DIR = "/var/lib/nvme-eraser"
RUN_DIR = "/run/nvme-quarantine"

BUDGET = 25.0
"""Seconds for the gate's answer. libvirt waits meanwhile, and so does nova-compute, whose callers
give up after ``rpc_response_timeout``, 60 s (oslo.messaging)."""

SPARE = 1.0
"""Seconds of them that the gate leaves for its answer: a late one would be killed half said."""

NO_ANSWER = (1, 2, 126, 127)
"""Exit codes of a program that is broken or was not understood. All others but 0 are a refusal."""

NVME_CLASS = "0x010802"


def main(argv: list[str]) -> int:
    """``NAME OPERATION SUBOPERATION EXTRA`` as libvirt calls it, the domain on standard input."""
    name, operation = argv[1:3]
    xml = sys.stdin.buffer.read()
    if operation == "release":
        # An error here refuses nothing: the shell part answers 0 to all but prepare.
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
    # Below 0 the child was ended by a signal, and gave no answer either.
    if code not in NO_ANSWER and code > 0:
        return words or f"nvme-quarantine: guest {name} does not start: refused with code {code}\n"
    # Without an answer a guest with an NVMe drive is refused. A broken gate must keep no other.
    if not may_have_nvme(xml):
        return ""
    return (
        f"nvme-quarantine: guest {name} does not start: it has an NVMe drive, and expected an "
        f"answer from the gate in {LIBRARY}, found: {last_line(words) or f'exit code {code}'}\n"
    )


def ask(name: str, xml: bytes) -> tuple[int, str]:
    """The exit code and words of a gate that a fork of ours loads; 1 without an answer.

    Another Python would take longer to start than the gate to decide. It talks through a file in
    memory: nothing can block on that, and nobody who is stuck and holds it keeps us.
    """
    import select

    ends = time.monotonic() + BUDGET
    words = os.memfd_create("words")
    child = os.fork()
    if not child:
        gate(name, xml, words, ends - SPARE)
    poll = select.poll()
    poll.register(os.pidfd_open(child), select.POLLIN)
    if not poll.poll(max(0.0, ends - time.monotonic()) * 1000):
        # Killed but not waited for: a command to a drive that is mute cannot be interrupted, and
        # libvirt serves nobody on this guest's account before we end.
        os.kill(child, 9)
        return 1, f"none within {BUDGET:g} s"
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, os.pread(words, 1 << 16, 0).decode("utf-8", "replace")


def gate(name: str, xml: bytes, words: int, ends: float) -> None:
    """The gate's own judgement by ``ends`` (monotonic clock), in a child that holds no pipe of
    libvirt's. Does not return."""
    code = 1
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for ours, theirs in ((nothing, 0), (nothing, 1), (words, 2)):
            os.dup2(ours, theirs)
        # Behind the standard library: nothing that lies beside the eraser may stand for that.
        sys.path.append(LIBRARY)
        from eraser.gate.door import main as judge

        code = judge(name, xml, STATE_DIR, RUN_DIR, ends - time.monotonic())
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        sys.stderr.flush()
        # Never back into main(), whatever happened: this is a fork, and its parent goes on there.
        os._exit(code)


def last_line(words: str) -> str:
    """What a program said in the end."""
    return words.strip().rpartition("\n")[2]


def may_have_nvme(xml: bytes) -> bool:
    """A function that the domain names anywhere is an NVMe one, or a host's function is absent.

    Coarser than the gate's own reading, for when that cannot be had.
    """
    import re

    # A source has the host's address; others may be the guest's, which the host need not have.
    sources = b"".join(re.findall(rb"<source\b[^>]*(?<!/)>.*?</source>", xml, re.DOTALL))
    return any(pci_class(address) == "" for address in in_elements(sources)) or any(
        pci_class(address) == NVME_CLASS for address in in_elements(xml) | in_arguments(xml)
    )


def in_elements(xml: bytes) -> set[str]:
    """PCI addresses of ``<address .../>`` elements, of the host's and the guest's side."""
    import re

    found = set()
    # Attributes come in any order, in either kind of quotes, hexadecimal or decimal.
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
    slots = sorted(a for a in in_elements(xml) | in_arguments(xml) if pci_class(a) == NVME_CLASS)
    if slots:
        bell = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
        bell.setblocking(False)
        bell.sendto(" ".join(slots).encode(), os.path.join(RUN_DIR, "bell.sock"))


if __name__ == "__main__":
    sys.exit(main(sys.argv))
