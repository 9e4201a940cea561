"""The journal survives what a power loss does to a file, and notices everything else."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eraser.state import journal
from eraser.state.journal import Journal, JournalError

PAYLOADS: list[object] = [
    {"place": 0, "attempt": 1},
    {"text": 'caf\u00e9 \u2028 "quoted" \\ \n line', "list": [1, 2.5, None, True]},
    {"place": 1},
]


def written(path: Path) -> bytes:
    book = Journal(path)
    for payload in PAYLOADS:
        book.append("Intent", payload)
    book.close()
    return path.read_bytes()


def test_what_was_appended_is_read_again(tmp_path: Path) -> None:
    written(tmp_path / "j")
    again = Journal(tmp_path / "j")
    assert [line.payload for line in again.lines] == PAYLOADS
    again.append("Result", {"end": True})
    again.close()
    assert [line.kind for line in journal.read(tmp_path / "j")] == ["Intent"] * 3 + ["Result"]


def test_a_torn_last_line_is_cut_at_every_byte(tmp_path: Path) -> None:
    whole = written(tmp_path / "j")
    ends = [at + 1 for at, byte in enumerate(whole) if byte == 0x0A]
    for length in range(len(whole) + 1):
        path = tmp_path / f"cut-{length}"
        path.write_bytes(whole[:length])
        book = Journal(path)
        sound = sum(end <= length for end in ends)
        assert len(book.lines) == sound
        book.append("After", {"cut": length})
        book.close()
        assert [line.kind for line in journal.read(path)] == ["Intent"] * sound + ["After"]


def test_each_flipped_bit_is_seen_or_is_a_torn_tail(tmp_path: Path) -> None:
    whole = written(tmp_path / "j")
    for at, bit in itertools.product(range(len(whole)), range(8)):
        damaged = whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :]
        try:
            lines, _mark, taken = journal.parse(damaged, "j")
        except JournalError:
            continue
        # Only the end of the last line may go: it then looks torn, and its entry is not believed.
        assert at == len(whole) - 1
        assert len(lines) == len(PAYLOADS) - 1
        assert taken < len(whole)


@pytest.mark.parametrize("change", ["drop first", "drop middle", "swap", "repeat", "foreign"])
def test_lines_that_moved_are_damage(tmp_path: Path, change: str) -> None:
    path = tmp_path / "j"
    first, second, third = written(path).splitlines(keepends=True)
    path.write_bytes(
        {
            "drop first": second + third,
            "drop middle": first + third,
            "swap": second + first + third,
            "repeat": first + second + second + third,
            "foreign": first + b'{"a":1}\n' + second,
        }[change]
    )
    with pytest.raises(JournalError, match=r"line [0-9]"):
        Journal(path)
    with pytest.raises(JournalError, match=r"line [0-9]"):
        journal.read(path)


@settings(max_examples=200, deadline=None)
@given(raw=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    try:
        lines, _mark, _taken = journal.parse(raw, "j")
    except JournalError:
        return
    assert lines == ()


def test_a_line_that_could_not_be_synced_does_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "j"
    before = written(path)
    book = Journal(path)

    def refuse(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        book.append("Lost", {})
    monkeypatch.undo()
    book.append("Kept", {})
    book.close()
    assert path.read_bytes().startswith(before)
    assert [line.kind for line in journal.read(path)] == ["Intent"] * 3 + ["Kept"]


def test_a_signal_in_mid_append_leaves_no_half_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "j"
    written(path)
    book = Journal(path)

    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        book.append("Lost", {"long": "x" * 500})
    monkeypatch.undo()
    book.append("Kept", {})
    book.close()
    assert [line.kind for line in journal.read(path)] == ["Intent"] * 3 + ["Kept"]


def test_every_entry_is_synced_before_append_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.fstat(fd).st_size), real(fd)))
    path = tmp_path / "j"
    book = Journal(path)
    book.append("One", {})
    assert synced[-1] == path.stat().st_size > 0
    book.close()


def test_its_name_is_on_the_disk_before_its_first_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is synced inside of a file is lost with its name."""
    named = set[Path]()

    def fsync(descriptor: int) -> None:
        synced = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if synced.is_dir():
            named.update(synced.iterdir())

    monkeypatch.setattr(os, "fsync", fsync)
    book = Journal(tmp_path / "j")
    assert named == {tmp_path / "j"}
    book.close()


def test_a_line_that_was_written_in_part_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at a limit of the file's size, or the end of the disk."""
    path = tmp_path / "j"
    written(path)
    book, whole = Journal(path), os.pwrite
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", lambda fd, data, at: whole(fd, data[:-1], at))
        with pytest.raises(OSError, match=r"expected to write \d+ bytes, wrote \d+"):
            book.append("Lost", {})
    assert len(book.lines) == len(PAYLOADS)
    book.append("Kept", {})
    book.close()
    assert [line.kind for line in journal.read(path)] == ["Intent"] * 3 + ["Kept"]


def test_a_journal_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_BYTES", 100)
    (tmp_path / "j").write_bytes(b"x" * 101)
    with pytest.raises(JournalError, match="at most 100 bytes"):
        Journal(tmp_path / "j")


def test_no_entry_makes_a_journal_that_the_next_run_cannot_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = Journal(tmp_path / "j")
    book.append("One", {})
    monkeypatch.setattr(journal, "MAX_BYTES", 100)
    with pytest.raises(JournalError, match="at most 100 bytes"):
        book.append("Large", {"log": "x" * 100})
    # What stood there stands there still, and a small one finds room.
    book.append("Two", {})
    book.close()
    assert [line.kind for line in journal.read(tmp_path / "j")] == ["One", "Two"]


def test_replacing_leaves_nothing_beside(tmp_path: Path) -> None:
    journal.replace_durably(tmp_path / "f", b"one")
    journal.replace_durably(tmp_path / "f", b"two")
    assert [entry.name for entry in tmp_path.iterdir()] == ["f"]
    assert (tmp_path / "f").read_bytes() == b"two"
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o600
