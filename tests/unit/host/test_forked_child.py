"""Children keep what they are to keep, also where the process began without standard input."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CLOSED = (
    "import os; os.close({number}); kept = os.open({file!r}, os.O_RDWR); assert kept == {number}\n"
)
ANSWERS = """
from eraser.host.answerer import Answerer
asked = Answerer(lambda question: os.pread(kept, 4, 0), kept, 10)
answer = asked.ask(b"?", 10, 20.0)
asked.close()
os.write(result, answer)
"""
HOLDS = """
import fcntl, time
from eraser.host.children import CHILDREN
fcntl.flock(kept, fcntl.LOCK_EX)
def work():
    os.mkdir(FILE + ".works")
    time.sleep(1)
has_ended = CHILDREN.outlive(work, kept)
os.close(kept)
while not os.path.exists(FILE + ".works"):
    time.sleep(0.01)
other = os.open(FILE, os.O_RDWR)
try:
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    os.write(result, b"held")
while not has_ended():
    time.sleep(0.01)
fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
"""


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize(("program", "expected"), [(ANSWERS, b"lock"), (HOLDS, b"held")])
def test_what_is_kept_may_have_the_number_of_a_standard_one(
    tmp_path: Path, number: int, program: str, expected: bytes
) -> None:
    """The child of a Format would let go of the slot's lock, a look's child of its drive."""
    file, result = tmp_path / "file", tmp_path / "result"
    file.write_bytes(b"lock")
    head = f"import os; result = os.open({str(result)!r}, os.O_WRONLY | os.O_CREAT)\n"
    text = head + f"FILE = {str(file)!r}\n" + CLOSED.format(number=number, file=str(file)) + program
    subprocess.run([sys.executable, "-c", text], check=True, timeout=60)
    assert result.read_bytes() == expected
