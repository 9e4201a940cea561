"""The host's side reaches the machine below it through doors alone: a simulator can be all of it.

:class:`eraser.host.sysfs.Host` has them. This is the measure: what still goes past them stands in
:data:`PAST`, with why, and a line that is of no use any more has to go.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import eraser

TOP = Path(eraser.__file__).parent
ROOMS = (
    "agent", "case", "gate", "ownership", "proof", "erase", "drive", "media", "controller", "host",
    "state",
)  # fmt: skip
"""All but the command line, ``defences`` (what a person has set up on a host) and what is data."""

CLOCK = {"time", "monotonic", "monotonic_ns", "time_ns", "perf_counter", "clock_gettime", "sleep"}
PROCESS = {"fork", "kill", "waitpid", "pidfd_open", "posix_spawn", "execv", "execve", "system"}
ASKED: dict[str, tuple[str, set[str]]] = {
    "time": ("clock", CLOCK),
    "datetime": ("clock", {"now", "utcnow", "today"}),
    "subprocess": ("processes", {"Popen", "run", "check_output", "check_call", "call"}),
    "os": ("processes", PROCESS),
    "command": ("processes", {"run"}),
    "socket": ("sockets", {"socket", "socketpair", "create_connection", "gethostname"}),
    "_socket": ("sockets", {"socket"}),
    "secrets": ("chance", {"token_hex", "token_bytes", "token_urlsafe", "randbits", "choice"}),
    "random": ("chance", {"Random", "SystemRandom", "random", "randrange", "choice", "sample"}),
    "fcntl": ("devices", {"ioctl"}),
    "signal": ("clock", {"setitimer", "alarm"}),
    "threading": ("threads", {"Thread", "Event"}),
}
NAMES = {"utc_now": "clock", "BlockDevice": "devices", "SystemRandom": "chance"}
TREES = ("/sys/", "/proc/", "/dev/", "/etc/")
"""What begins so is below the root of a :class:`~eraser.host.sysfs.Host`."""

DOORS = {
    "agent/bell.py": "sockets threads: it is the door to the bell",
    "agent/watcher.py": "sockets: its KernelEvents are the door to the kernel's events",
    "host/answerer.py": "processes sockets: a child of the door to processes",
    "host/children.py": "clock processes: it is the door to processes",
    "host/command.py": "clock processes: programs of the door to processes, with their seconds",
    "host/forked_child.py": "clock processes trees: a child of the door to processes",
    "host/sysfs.py": "devices: it is the door to devices",
    "media/reader.py": "devices: it is the door to a namespace's blocks",
}
FOR_GOOD = {
    "agent/bounded_probes.py": "threads: looks that may never come back, in the worker's process",
    "agent/worker.py": "threads: Celery has the main one; a simulator calls the pumps' turns",
    "gate/hook.py": "clock processes sockets trees: stands alone; libvirt runs it, it is an entry",
    "host/daemons.py": "clock processes: what a person's host-setup tells libvirt",
    "ownership/store.py": "clock: flock(2) knows no time limit; a simulator's locks are free",
}
PAST = DOORS | FOR_GOOD


FALLBACKS = {
    "agent/bell.py": "MACHINE",
    "agent/bounded_probes.py": "monotonic",
    "agent/idle_counters.py": "monotonic",
    "agent/orders.py": "monotonic",
    "agent/tickets.py": "monotonic",
    "host/sysfs.py": "MACHINE",
}
"""Where who forgets a door gets this machine's own: the worker's pumps, and ``Host`` itself."""


def fallen_back_to(path: Path) -> set[str]:
    """Doors that stand as the default of an argument or of a field."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        defaults: list[ast.expr | None] = []
        if isinstance(node, ast.arguments):
            defaults = [*node.defaults, *node.kw_defaults]
        elif isinstance(node, ast.ClassDef):
            defaults = [each.value for each in node.body if isinstance(each, ast.AnnAssign)]
        for part in (part for each in defaults if each for part in ast.walk(each)):
            name = part.id if isinstance(part, ast.Name) else getattr(part, "attr", "")
            if name in ("MACHINE", "Host", "BlockDevice", "monotonic"):
                found.add(name)
    return found


def test_who_forgets_a_door_makes_a_type_error() -> None:
    """A verification by hand was once timed by another clock than its drive's: a default was."""
    found = {
        str(path.relative_to(TOP)): " ".join(sorted(doors))
        for room in ROOMS
        for path in (TOP / room).rglob("*.py")
        if (doors := fallen_back_to(path))
    }
    assert found == FALLBACKS


def _asked(call: ast.Call) -> str:
    """The kind of door that a call goes past; empty for one that does not."""
    function = call.func
    if isinstance(function, ast.Name):
        return NAMES.get(function.id, "")
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
        return ""
    if (function.value.id, function.attr) == ("os", "urandom"):
        return "chance"
    kind, names = ASKED.get(function.value.id, ("", set()))
    return kind if function.attr in names else ""


def _tree(call: ast.Call) -> str:
    """The kernel's tree that a path is made of, past a host's root."""
    named = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    if named not in ("Path", "open", "listdir", "readlink", "stat") or not call.args:
        return ""
    first = call.args[0]
    if isinstance(first, ast.JoinedStr) and first.values:
        first = first.values[0]
    text = first.value if isinstance(first, ast.Constant) else ""
    return "trees" if isinstance(text, str) and text.startswith(TREES) else ""


def past(path: Path) -> Iterator[tuple[str, int]]:
    """Kind and line of each call that goes past the doors. A default of an argument is none."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and (kind := _asked(node) or _tree(node)):
            yield kind, node.lineno


def kinds(path: Path) -> str:
    """All kinds of a file, in one word list."""
    return " ".join(sorted({kind for kind, _line in past(path)}))


@pytest.mark.parametrize("room", ROOMS)
def test_nothing_goes_past_the_doors_but_what_is_named(room: str) -> None:
    found = {
        name: found
        for path in sorted((TOP / room).rglob("*.py"))
        if (found := kinds(path))
        for name in [str(path.relative_to(TOP))]
    }
    named = {
        name: why.partition(":")[0] for name, why in PAST.items() if name.startswith(f"{room}/")
    }
    assert found == named


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("time.sleep(1)", "clock"),
        ("utc_now()", "clock"),
        ("command.run(argv)", "processes"),
        ("os.fork()", "processes"),
        ("socket.socket()", "sockets"),
        ("os.urandom(8)", "chance"),
        ("fcntl.ioctl(fd, 1, b'')", "devices"),
        ("signal.setitimer(0, 1)", "clock"),
        ("threading.Thread(target=None)", "threads"),
        ("Path(f'/proc/{pid}/stat')", "trees"),
        ("open('/sys/block')", "trees"),
        ("def wait(now=time.monotonic): ...", ""),
        ("host.clock.sleep(1)", ""),
        ("Path('below')", ""),
    ],
)
def test_the_search_finds_what_goes_past(tmp_path: Path, line: str, kind: str) -> None:
    file = tmp_path / "one.py"
    file.write_text(line + "\n")
    assert kinds(file) == kind
