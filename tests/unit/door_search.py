"""Finds calls that go past the doors: both parts of the product are measured by the same search."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

CLOCK = {"time", "monotonic", "monotonic_ns", "time_ns", "perf_counter", "clock_gettime", "sleep"}
PROCESS = {"fork", "kill", "waitpid", "pidfd_open", "posix_spawn", "execv", "execve", "system"}
CHANGE = {
    *("link", "symlink", "replace", "rename", "remove", "unlink", "mkdir", "makedirs", "rmdir"),
    *("chmod", "chown", "mkfifo", "truncate"),
}
ASKED: dict[str, tuple[str, set[str]]] = {
    "time": ("clock", CLOCK),
    "datetime": ("clock", {"now", "utcnow", "today"}),
    "subprocess": ("processes", {"Popen", "run", "check_output", "check_call", "call"}),
    "multiprocessing": ("processes", {"Process", "Pool"}),
    "os": ("processes", PROCESS),
    "command": ("processes", {"run"}),
    "socket": ("sockets", {"socket", "socketpair", "create_connection", "gethostname"}),
    "_socket": ("sockets", {"socket"}),
    "urllib.request": ("sockets", {"urlopen", "build_opener"}),
    "http.client": ("sockets", {"HTTPConnection", "HTTPSConnection"}),
    "redis": ("sockets", {"Redis", "from_url"}),
    "Redis": ("sockets", {"from_url"}),
    "messaging": ("sockets", {"make_app"}),
    "openstack": ("sockets", {"connect"}),
    "openstack.connection": ("sockets", {"Connection"}),
    "sa": ("sockets", {"create_engine"}),
    "secrets": ("chance", {"token_hex", "token_bytes", "token_urlsafe", "randbits", "choice"}),
    "random": (
        "chance",
        {"Random", "SystemRandom", "random", "randrange", "choice", "sample", "uniform", "shuffle"},
    ),
    "uuid": ("chance", {"uuid1", "uuid4"}),
    "fcntl": ("devices", {"ioctl"}),
    "signal": ("clock", {"setitimer", "alarm"}),
    "threading": ("threads", {"Thread", "Event", "Timer"}),
    "tempfile": (
        "files",
        {"mkstemp", "mkdtemp", "NamedTemporaryFile", "TemporaryFile", "TemporaryDirectory"},
    ),
    "shutil": ("files", {"rmtree", "copy", "copyfile", "move", "chown", "copytree"}),
}
NAMES = {
    "utc_now": "clock",
    "utc_text": "clock",
    "new_uuid": "chance",
    "BlockDevice": "devices",
    "SystemRandom": "chance",
    "Redis": "sockets",
}
TREES = ("/sys/", "/proc/", "/dev/", "/etc/")
"""What begins so is below the root of a :class:`~eraser.host.sysfs.Host`."""

OF_PATHS = {
    *("write_text", "write_bytes", "mkdir", "touch", "rename", "rmdir", "chmod", "hardlink_to"),
    "symlink_to",
}
"""Of any object: what has such a method is a path."""

WRITES = ("O_CREAT", "O_WRONLY", "O_RDWR", "O_APPEND", "O_TRUNC")


def _asked(call: ast.Call) -> str:
    """The kind of door that a call goes past; empty for one that does not."""
    function = call.func
    if isinstance(function, ast.Name):
        return NAMES.get(function.id, "")
    if not isinstance(function, ast.Attribute):
        return ""
    of = ast.unparse(function.value)
    if (of, function.attr) == ("os", "urandom"):
        return "chance"
    kind, names = ASKED.get(of, ("", set()))
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


def _file(call: ast.Call) -> str:
    """What makes or changes a file. Whoever reads one was told where."""
    function = call.func
    if isinstance(function, ast.Name):
        return "files" if function.id == "open" and _to_write(call, 1) else ""
    if not isinstance(function, ast.Attribute):
        return ""
    name = function.attr
    if isinstance(function.value, ast.Name) and function.value.id == "os":
        opened = name == "open" and any(word in ast.unparse(call) for word in WRITES)
        return "files" if opened or name in CHANGE else ""
    # A text's replace() takes two arguments, a dataclass's or a time's takes names; Redis has an
    # unlink() with keys.
    changes = (
        name in OF_PATHS
        or (name == "replace" and len(call.args) == 1 and not call.keywords)
        or (name == "unlink" and not call.args)
        or (name == "open" and _to_write(call, 0))
    )
    return "files" if changes else ""


def _to_write(call: ast.Call, place: int) -> bool:
    modes = [each.value for each in call.keywords if each.arg == "mode"]
    modes += call.args[place : place + 1]
    said = [mode.value for mode in modes if isinstance(mode, ast.Constant)]
    return any(isinstance(mode, str) and set(mode) & {*"wax+"} for mode in said)


def past(path: Path) -> Iterator[tuple[str, int]]:
    """Kind and line of each call that goes past the doors. A default of an argument is none."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and (kind := _asked(node) or _tree(node) or _file(node)):
            yield kind, node.lineno


def kinds(path: Path) -> str:
    """All kinds of a file, in one word list."""
    return " ".join(sorted({kind for kind, _line in past(path)}))
