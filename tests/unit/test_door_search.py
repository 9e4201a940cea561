"""The search for calls that go past the doors finds them, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.door_search import kinds, past


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
        ("os.open(path, os.O_WRONLY | os.O_CREAT)", "files"),
        ("os.replace(one, other)", "files"),
        ("open(path, 'w')", "files"),
        ("open(path, mode='ab')", "files"),
        ("path.open('wb')", "files"),
        ("path.write_text('')", "files"),
        ("path.replace(other)", "files"),
        ("path.unlink(missing_ok=True)", "files"),
        ("path.parent.mkdir()", "files"),
        ("tempfile.mkdtemp()", "files"),
        ("urllib.request.urlopen(url)", "sockets"),
        ("Redis.from_url(url)", "sockets"),
        ("sa.create_engine(url)", "sockets"),
        ("new_uuid()", "chance"),
        ("open(path)", ""),
        ("path.open('rb')", ""),
        ("os.open(path, os.O_RDONLY)", ""),
        ("text.replace('a', 'b')", ""),
        ("dataclasses.replace(row, state=1)", ""),
        ("moment.replace(tzinfo=None)", ""),
        ("client.unlink(key)", ""),
        ("Store.open(url)", ""),
        ("def wait(now=time.monotonic): ...", ""),
        ("host.clock.sleep(1)", ""),
        ("Path('below')", ""),
    ],
)
def test_the_search_finds_what_goes_past(tmp_path: Path, line: str, kind: str) -> None:
    file = tmp_path / "one.py"
    file.write_text(line + "\n")
    assert kinds(file) == kind


def test_a_call_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "late.py"
    file.write_text("import time\n\ndef wait(now=time.monotonic):\n    return time.monotonic()\n")
    assert list(past(file)) == [("clock", 4)]
