"""The resident gate: all that a decision needs is loaded, and libvirt's hook only has to ask.

It waits on a socket that is root's alone, and forks for whoever connects: the fork hears the
question, decides as the hook's own would (:mod:`eraser.gate.door`), answers and ends. The parent
holds no lock and reads no drive, so a mute drive keeps a fork and nobody else.

Old rules are a leak. So it remembers each of our files as it was before it was loaded, and where
one is another now, it gives no answer and ends; it is started anew, and the hook helps itself.
It also looks now and then unasked: an upgrade then makes no guest's start slow, and where its
socket's name is gone nobody would ever ask.

Run by its path, without anything of ours loaded.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

FORKS = 32
"""At once. Each may hold a domain of ``door.MAX_DOMAIN_BYTES`` until its time is up."""

LOOK_EVERY = 30.0
"""Seconds after which it looks at its files where nobody asked."""

_HEAD_BYTES = 1 << 12
"""Of a question, before the domain."""

Identity = tuple[int, int, int, int, int]


def identity(path: str) -> Identity:
    """What tells that a file is not the one that it was. Raises ``OSError``."""
    seen = os.stat(path)
    return seen.st_dev, seen.st_ino, seen.st_ctime_ns, seen.st_mtime_ns, seen.st_size


def sources(library: str) -> dict[str, Identity]:
    """Every file of ours that could be loaded, by path. Raises ``OSError``."""
    found = (str(path) for path in Path(library, "eraser").rglob("*.py"))
    return {path: identity(path) for path in found}


def stale(loaded: dict[str, Identity | None]) -> bool:
    """A file is not what was loaded from it; None says that nobody saw it before."""
    try:
        return any(identity(path) != before for path, before in loaded.items())
    except OSError:
        return True


def main(argv: list[str]) -> int:
    """``STATE_DIR RUN_DIR``, absolute and as the hook has them. Returns once its code is stale."""
    state_dir, run_dir = argv
    library = str(Path(__file__).parents[2])
    before = sources(library)
    # A compiled file is taken by its source's time and size: it may be of another version.
    sys.pycache_prefix, sys.dont_write_bytecode = os.devnull, True
    # Behind the standard library, as in the hook.
    sys.path.append(library)
    from eraser import casefiles  # noqa: F401 - the gate loads it seldom, and then too late
    from eraser.drive.alone import alone
    from eraser.gate import door, hook

    # Whatever is not loaded by now could be of another version.
    sys.meta_path.clear()
    files = {getattr(module, "__file__", None) or "" for module in sys.modules.values()}
    loaded = {path: before.get(path) for path in files if path.startswith(f"{library}/")}

    def answer(connection: socket.socket) -> None:
        alone(connection.fileno())
        # Whoever started us may have left it ignored.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
        begun = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, hook.TIMEOUT)
        connection.sendall(hook.greeting(state_dir, run_dir, library))
        name, seconds, left, document = question(connection, door.MAX_DOMAIN_BYTES)
        # Before whoever asked gives up and has the guest refused: nothing may be decided later.
        # They looked at their clock after our greeting, and we may have been stopped since.
        left = begun + 0.9 * left - time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, max(1e-6, left))
        with contextlib.redirect_stderr(io.StringIO()) as words:
            code = door.main(name, document, state_dir, run_dir, seconds)
        said = words.getvalue().encode("utf-8", "backslashreplace")
        connection.sendall(b"%d\0%s" % (code, said))

    path = Path(run_dir, hook.SOCKET)
    try:
        listener = listen(path)
        loaded[str(path)] = identity(str(path))
    except OSError as error:
        print(f"nvme-eraser: expected to listen in {run_dir}, found {error}", file=sys.stderr)
        return 1
    serve(listener, lambda: stale(loaded), answer, LOOK_EVERY)
    print("nvme-eraser: the resident gate ends: its files or socket were changed", file=sys.stderr)
    return 0


def question(connection: socket.socket, limit: int) -> tuple[str, float, float, bytes]:
    """The domain's name, the seconds for its drives, those for all, and the domain.

    Raises ``ValueError`` for less than a whole one and more than ``limit`` bytes of domain.
    """
    said = bytearray()
    while part := connection.recv(1 << 16):
        said += part
        if len(said) > limit + _HEAD_BYTES:
            raise ValueError(f"expected at most {limit} bytes, found more")
    name, seconds, left, size, document = bytes(said).split(b"\0", 4)
    if len(document) != int(size):
        raise ValueError(f"expected a domain of {int(size)} bytes, found {len(document)}")
    return name.decode("utf-8", "surrogateescape"), float(seconds), float(left), document


def listen(path: Path) -> socket.socket:
    """A socket at its final name only once nobody but root may connect. Raises ``OSError``.

    Also where one listens there already: that one would be deaf, and nobody be told.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.setblocking(False)
        if other.connect_ex(str(path)) in (0, errno.EAGAIN):
            raise OSError(errno.EADDRINUSE, "another resident gate; stop that one first")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    temporary.unlink(missing_ok=True)
    listener.bind(str(temporary))
    temporary.chmod(0o600)
    listener.listen(FORKS)
    temporary.replace(path)
    return listener


def serve(
    listener: socket.socket,
    ended: Callable[[], bool],
    answer: Callable[[socket.socket], None],
    look_every: float,
) -> None:
    """Forks for whoever connects, until ``ended`` says so.

    It asks that for whoever connects, and after ``look_every`` seconds without anything to do.
    Raises ``OSError``.
    """
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    forks: dict[int, int] = {}
    while True:
        events = poll.poll(look_every * 1000)
        if not events and ended():
            return
        for descriptor, _event in events:
            if descriptor in forks:
                os.waitpid(forks.pop(descriptor), 0)
                poll.unregister(descriptor)
                os.close(descriptor)
                continue
            connection, _address = listener.accept()
            with connection:
                if ended():
                    return
                if len(forks) < FORKS:
                    pid = os.fork()
                    if not pid:
                        try:
                            answer(connection)
                        finally:
                            os._exit(0)
                    ending = os.pidfd_open(pid)
                    forks[ending] = pid
                    poll.register(ending, select.POLLIN)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
