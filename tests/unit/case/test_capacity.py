"""Capacity of which a drive tells late, otherwise, or no more: what was not read is never passed
over, and no honest drive is held for its way of telling (docs/decisions/unallocated.md)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from eraser.case.entries import Allocating, Freed, Sent
from eraser.case.namespaces import creation
from eraser.case.state import CaseState
from eraser.controller.passthru import success
from eraser.protocol.conclusions import unallocated
from eraser.protocol.policy import Policy
from eraser.protocol.report import CommandRecord, EraseReport, Verdict
from tests.lab.nvme.composed.description import Layout
from tests.lab.nvme.composed.host import Answer
from tests.lab.nvme.drive import Drive
from tests.lab.nvme.linux.kernel import Kernel
from tests.lab.nvme.nature import Method
from tests.unit.case.test_odd_drives import silent
from tests.unit.case.test_rearranging import (
    ATTACH,
    ATTACHMENT,
    CLEAR,
    CREATE,
    DELETE,
    DETACH,
    HOLD,
    MANAGEMENT,
    ONE,
    QUICK,
    TWO,
    Crash,
    Site,
    layout_of,
    managing,
    refusing,
    said,
    sent,
    site,
    whole_format,
)

IDENTIFY, CONTROLLER, ACTIVE, ALLOCATED = 0x06, 0x01, 0x02, 0x10
UNVMCAP = slice(296, 312)
SEL = 0xF
REFUSED, NO_CAPACITY = 0x002, 0x115
MIB = 1 << 20
_SEND = Kernel.send


def room(report: EraseReport) -> list[str]:
    return [line for line in report.residues if line.startswith("Capacity: ")]


def refused(kernel: Kernel, code: int) -> Answer:
    return replace(_SEND(kernel, 0xFF), code=code, again=False)


def with_room(answer: Answer, told: int) -> Answer:
    """Identify Controller with another UNVMCAP."""
    data = bytearray(answer.data)
    data[UNVMCAP] = told.to_bytes(16, "little")
    return replace(answer, data=bytes(data))


def attach_list(controller: int = 1) -> bytes:
    return (1).to_bytes(2, "little") + controller.to_bytes(2, "little") + bytes(4092)


class Firmware:
    """A drive behind firmware with a way of its own."""

    def send(self, kernel: Kernel, code: int, words: dict[str, Any]) -> Answer:
        return _SEND(kernel, code, **words)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def send(kernel: Kernel, code: int, **words: Any) -> Answer:
            if words.get("io"):
                return _SEND(kernel, code, **words)
            return self.send(kernel, code, words)

        monkeypatch.setattr(Kernel, "send", send)


@dataclass
class AttachedAlone(Firmware):
    """The list of all namespaces (CNS 10h) has those that are attached, and no others."""

    attaches: bool = False
    """What is created is attached at once."""
    forgets: bool = False
    """What was detached is attached no more."""

    def __post_init__(self) -> None:
        self.detached = set[int]()

    def send(self, kernel: Kernel, code: int, words: dict[str, Any]) -> Answer:
        act = (code, words.get("cdw10", 0) & SEL)
        if code == IDENTIFY and words.get("cdw10", 0) & 0xFF == ALLOCATED:
            words["cdw10"] = ACTIVE
        if act == (ATTACHMENT, DETACH):
            self.detached.add(words["nsid"])
        if act == (ATTACHMENT, ATTACH) and self.forgets and words["nsid"] in self.detached:
            return refused(kernel, REFUSED)
        answer = _SEND(kernel, code, **words)
        if act == (MANAGEMENT, CREATE) and self.attaches and answer.code == 0:
            _SEND(kernel, ATTACHMENT, nsid=answer.dw0, cdw10=ATTACH, send=attach_list())
        return answer


@dataclass
class Silent(Firmware):
    """It tells of no unallocated capacity, so many seconds, after a namespace was deleted."""

    seconds: float = math.inf
    gives: int | None = None
    """While it is silent it creates namespaces of this size, bytes, and no other; None: of any."""
    now: Callable[[], float] = float
    until: float = 0.0

    def send(self, kernel: Kernel, code: int, words: dict[str, Any]) -> Answer:
        silent = self.now() < self.until
        creates = (code, words.get("cdw10", 0) & SEL) == (MANAGEMENT, CREATE)
        asked = int.from_bytes(words["send"][:8], "little") * 512 if creates else None
        if creates and silent and self.gives not in (None, asked):
            return refused(kernel, NO_CAPACITY)
        answer = _SEND(kernel, code, **words)
        if (code, words.get("cdw10", 0) & SEL) == (MANAGEMENT, DELETE) and answer.code == 0:
            self.until = self.now() + self.seconds
        if code == IDENTIFY and words.get("cdw10", 0) & 0xFF == CONTROLLER and silent:
            return with_room(answer, 0)
        return answer


@dataclass
class Late(Firmware):
    """It tells of no unallocated capacity until it was erased."""

    def __post_init__(self) -> None:
        self.erased = False

    def send(self, kernel: Kernel, code: int, words: dict[str, Any]) -> Answer:
        answer = _SEND(kernel, code, **words)
        self.erased |= code in (0x80, 0x84)
        if code == IDENTIFY and words.get("cdw10", 0) & 0xFF == CONTROLLER and not self.erased:
            return with_room(answer, 0)
        return answer


@dataclass
class Granular(Firmware):
    """It creates whole pieces, and refuses every other size with this status."""

    status: int
    granule: int = MIB

    def send(self, kernel: Kernel, code: int, words: dict[str, Any]) -> Answer:
        if (code, words.get("cdw10", 0) & SEL) == (MANAGEMENT, CREATE):
            blocks = int.from_bytes(words["send"][:8], "little")
            if blocks * 512 % self.granule:
                return refused(kernel, self.status)
        return _SEND(kernel, code, **words)


def create(made: Site, size: int, lba_format: int) -> None:
    """What a tenant does: a namespace of so many bytes, attached."""
    data = bytearray(4096)
    data[0:8] = data[8:16] = (size // 512).to_bytes(8, "little")
    data[26] = lba_format
    answer = _SEND(made.kernel, MANAGEMENT, cdw10=CREATE, send=bytes(data))
    assert answer.code == 0
    _SEND(made.kernel, ATTACHMENT, nsid=answer.dw0, cdw10=ATTACH, send=attach_list())


def changed(made: Site, less: int = MIB) -> None:
    """Its tenant made the first namespace smaller: the layout is restored."""
    [found] = made.drive.state.namespaces
    assert _SEND(made.kernel, MANAGEMENT, nsid=found.nsid, cdw10=DELETE).code == 0
    create(made, found.size - less, found.lba_format)


def filled(made: Site) -> None:
    """Its tenant laid a namespace over all that was free: none is when the case begins."""
    create(made, made.drive.state.unallocated, made.drive.state.namespaces[0].lba_format)
    made.kernel.reset()


LEFT = {"room": lambda made: None, "smaller": lambda made: changed(made), "filled": filled}
"""What its tenant left: the layout as it was, a smaller namespace, one more."""
METHODS = {"two": TWO, "one": ONE, "clear": CLEAR}
_EACH = {"room": "two", "smaller": "one", "filled": "clear"}
LEFT_TO = [
    pytest.param(
        METHODS[name],
        left,
        id=f"{left}-{name}",
        marks=() if _EACH[left] == name else pytest.mark.campaign,
    )
    for left in LEFT
    for name in METHODS
]
"""What erases it, and what its tenant left."""


@pytest.mark.parametrize("methods", [TWO, ONE, CLEAR], ids=["two", "one", "clear"])
def test_one_that_is_listed_when_it_is_attached_is_erased_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, methods: tuple[Method, ...]
) -> None:
    """Firmware that answers CNS 10h as 02h. It was never attached, never read, and stayed: its next
    tenant attached it, with the data of the one before."""
    AttachedAlone().install(monkeypatch)
    with site(managing(Layout.ROOMY, methods), tmp_path) as made:
        report = made.erase()
        made.whole(report)
    assert report.verification is not None
    assert any(each.temporary for each in report.verification.namespaces)
    assert room(report) == []


def test_one_that_such_firmware_attaches_no_more_holds_where_the_policy_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look for a layout to restore took it for nothing that had ever been there."""
    AttachedAlone(attaches=True, forgets=True).install(monkeypatch)
    with site(managing(Layout.ROOMY, TWO), tmp_path, HOLD) as made:
        report = made.erase()
    assert (report.verdict, report.fit) == (Verdict.ERASED, False)
    assert any("belong to no namespace" in reason for reason in report.reasons), report.reasons


@pytest.mark.parametrize(
    ("policy", "change"), [(HOLD, True), (QUICK, False)], ids=["with the layout", "between methods"]
)
def test_one_that_is_created_anew_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: Policy, change: bool
) -> None:
    """It was attached no more, and is deleted by the number that nothing lists."""
    AttachedAlone(attaches=True, forgets=True).install(monkeypatch)
    with site(managing(Layout.ROOMY, TWO), tmp_path, policy) as made:
        if change:
            changed(made)
        report = made.erase()
        made.whole(report)
    assert report.verification is not None
    assert any(each.temporary for each in report.verification.namespaces)
    assert room(report) == []


@pytest.mark.parametrize(
    ("methods", "policy"), [(CLEAR, QUICK), (ONE, HOLD)], ids=["Clear", "hold"]
)
@pytest.mark.parametrize("left", ["smaller", "filled"])
def test_capacity_that_the_drive_tells_of_no_more_holds_the_drive(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    methods: tuple[Method, ...],
    policy: Policy,
    left: str,
) -> None:
    """It was deleted for the layout's sake, and a Format of it may have been a lie."""
    whole_format(monkeypatch)
    with site(managing(Layout.ROOMY, methods), tmp_path, policy) as made:
        Silent(gives=made.before[0][1]).install(monkeypatch)
        LEFT[left](made)
        report = made.erase()
    assert (report.verdict, report.fit) == (Verdict.ERASED, False)
    word = {"smaller": "tells of", "filled": "its last owner had"}[left]
    assert any(word in reason for reason in report.reasons), report.reasons


@pytest.mark.parametrize("left", LEFT)
def test_capacity_that_the_drive_tells_of_no_more_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    with site(managing(Layout.ROOMY, TWO), tmp_path) as made:
        Silent(gives=made.before[0][1]).install(monkeypatch)
        LEFT[left](made)
        report = made.erase()
        made.whole(report)
    assert left != "room" or any("tells of" in text for text in said(report))
    [text] = room(report)
    assert "nobody has read them" in text
    assert unallocated.unread(report) == made.drive.state.unallocated


@pytest.mark.parametrize(("methods", "left"), LEFT_TO)
def test_capacity_that_the_drive_gives_although_it_does_not_tell_of_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, methods: tuple[Method, ...], left: str
) -> None:
    Silent().install(monkeypatch)
    with site(managing(Layout.ROOMY, methods), tmp_path, HOLD) as made:
        LEFT[left](made)
        report = made.erase()
        made.whole(report)
    assert report.verification is not None
    [size] = [each.blocks * 4096 for each in report.verification.namespaces if each.temporary]
    assert size == made.drive.state.unallocated
    assert room(report) == []
    assert unallocated.unread(report) == 0


@pytest.mark.parametrize(("methods", "left"), LEFT_TO)
def test_a_drive_that_tells_of_it_late_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, methods: tuple[Method, ...], left: str
) -> None:
    """Nor does it give of it meanwhile."""
    with site(managing(Layout.ROOMY, methods), tmp_path, HOLD) as made:
        Silent(5, gives=0, now=made.machine.host.clock.monotonic).install(monkeypatch)
        LEFT[left](made)
        report = made.erase()
        made.whole(report)
    assert room(report) == []


def test_capacity_that_the_drive_tells_of_after_the_erase_alone_holds_under_clear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Late().install(monkeypatch)
    with site(managing(Layout.ROOMY, CLEAR), tmp_path) as made:
        report = made.erase()
    assert (report.verdict, report.fit) == (Verdict.ERASED, False)
    assert any("belong to no namespace" in reason for reason in report.reasons), report.reasons


@pytest.mark.parametrize("methods", [TWO, ONE, CLEAR], ids=["two", "one", "clear"])
@pytest.mark.parametrize("number", [0, 1])
def test_a_deletion_that_is_refused_once_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, methods: tuple[Method, ...], number: int
) -> None:
    refusing(monkeypatch, MANAGEMENT, DELETE, {number})
    with site(managing(Layout.ROOMY, methods), tmp_path) as made:
        report = made.erase()
        made.whole(report)


def test_a_deletion_that_is_refused_between_the_methods_is_printed_and_read_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the last reading is over it refuses; then it takes it."""
    refusing(monkeypatch, MANAGEMENT, DELETE, {0, 1})
    with site(managing(Layout.ROOMY, ONE), tmp_path) as made:
        report = made.erase()
        made.whole(report)
    assert any("stays" in text for text in said(report)), said(report)
    assert report.verification is not None
    assert any(each.temporary for each in report.verification.namespaces)
    assert room(report) == []


@pytest.mark.parametrize("status", [NO_CAPACITY, REFUSED], ids=["no capacity", "refused"])
@pytest.mark.parametrize("methods", [ONE, CLEAR], ids=["one", "clear"])
def test_a_drive_that_creates_whole_pieces_is_asked_for_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, methods: tuple[Method, ...], status: int
) -> None:
    Granular(status).install(monkeypatch)
    with site(managing(Layout.ROOMY, methods), tmp_path) as made:
        report = made.erase()
        made.whole(report)
    assert report.verification is not None
    assert any(each.temporary for each in report.verification.namespaces)


@pytest.mark.parametrize(
    ("free", "granule"),
    [(52 * MIB // 10, MIB), (1401 * MIB // 2, 2 * MIB), (20 * 1024 * MIB + 300 * MIB, 1024 * MIB)],
)
def test_sizes_of_whole_pieces_are_among_those_asked_for(free: int, granule: int) -> None:
    asked = list(creation.sizes(free))
    assert asked == sorted(set(asked), reverse=True)
    assert asked[0] == free
    assert sum(size % granule == 0 for size in asked) >= 3
    assert len(asked) < 60


@pytest.mark.parametrize("number", [1, 0xFFFFFFFF])
def test_no_namespace_of_the_layout_is_deleted_for_a_number_that_is_a_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """It calls a new one by the number of the one that was there, or by that of all."""

    class Liar(Firmware):
        def send(self, kernel: Kernel, code: int, words: dict[str, Any]) -> Answer:
            answer = _SEND(kernel, code, **words)
            if (code, words.get("cdw10", 0) & SEL) == (MANAGEMENT, CREATE):
                return replace(answer, dw0=number)
            return answer

    Liar().install(monkeypatch)
    with site(managing(Layout.ROOMY, ONE), tmp_path) as made:
        report = made.erase()
        assert made.before[0] in layout_of(made.drive)
    assert f"delete {number}" not in sent(report)


@pytest.mark.parametrize("methods", [ONE, CLEAR])
def test_one_that_was_deleted_although_its_answer_was_lost_holds_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, methods: tuple[Method, ...]
) -> None:
    """The second try finds a number that no namespace has: Invalid Field, by the standard."""

    class Forgetful(Firmware):
        def send(self, kernel: Kernel, code: int, words: dict[str, Any]) -> Answer:
            answer = _SEND(kernel, code, **words)
            if (code, words.get("cdw10", 0) & SEL) != (MANAGEMENT, DELETE):
                return answer
            return refused(kernel, 0x002 if answer.code else 0x006)

    Forgetful().install(monkeypatch)
    with site(managing(Layout.ROOMY, methods), tmp_path) as made:
        report = made.erase()
        assert layout_of(made.drive) == made.before
    assert (report.verdict, report.fit) == (Verdict.ERASED, True)


def test_one_that_was_deleted_is_attached_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, ATTACHMENT, ATTACH, set(range(1, 99)))
    with site(managing(Layout.ROOMY, ONE), tmp_path) as made:
        report = made.erase()
        made.whole(report)
    assert sent(report)[-1] == "delete 2"


def test_a_number_that_the_layout_has_now_is_no_temporary_ones() -> None:
    """It was called created, and its deletion refused, by a drive that had none of that number."""

    def managed(select: int, nsid: int, status: int, said: str) -> Sent:
        return Sent(CommandRecord((), MANAGEMENT, nsid, select, status, 0, said, "", 0.0, ""))

    state = CaseState()
    state.apply(Allocating((1,), 5 * MIB, 9 * MIB))
    state.apply(managed(CREATE, 0, 0, success(2)))
    state.apply(managed(CREATE, 0, 0, success(1)))
    assert state.made == {2}, "number 1 was there before"
    state.apply(managed(DELETE, 2, REFUSED, "refused"))
    state.apply(Freed("temporary namespace 2 stays"))
    assert state.made == {2}
    state.apply(managed(CREATE, 0, 0, success(2)))
    assert state.made == set()


@dataclass
class Rounding(Firmware):
    """It gives namespaces in whole pieces, and says what each takes (NVMCAP)."""

    drive: Drive
    full: int
    """The size, bytes, of the one that takes a further piece."""
    piece: int = 1100 << 10

    def send(self, kernel: Kernel, code: int, words: dict[str, Any]) -> Answer:
        answer = _SEND(kernel, code, **words)
        if code != IDENTIFY or answer.code or not answer.data:
            return answer
        data, cns = bytearray(answer.data), words.get("cdw10", 0) & 0xFF
        if cns == 0:
            size = int.from_bytes(data[0:8], "little") * 512
            more = self.piece if size == self.full else 0
            data[48:64] = (size + more).to_bytes(16, "little")
        if cns == CONTROLLER:
            sizes = [each.size for each in self.drive.state.namespaces]
            told = int.from_bytes(data[UNVMCAP], "little")
            told = max(0, told - self.piece * (self.full in sizes))
            data[UNVMCAP] = told.to_bytes(16, "little")
        return replace(answer, data=bytes(data))


def test_a_layout_that_takes_more_than_its_size_holds_no_honest_drive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that its tenant made was smaller, and left all the rest to be had."""
    with site(managing(Layout.ROOMY, CLEAR), tmp_path) as made:
        Rounding(made.drive, made.before[0][1]).install(monkeypatch)
        changed(made)
        report = made.erase()
        made.whole(report)


@dataclass
class Pieces(Firmware):
    """It gives its namespaces whole pieces, which do not lie together, and says what each takes
    (NVMCAP)."""

    drive: Drive
    piece: int = 1900 << 10
    overhead: bool = False
    """What one takes beyond its size is nobody's: it gives none of that size."""

    def __post_init__(self) -> None:
        self.built = {each.nsid for each in self.drive.state.namespaces}

    def taken(self, size: int) -> int:
        return -(-size // self.piece) * self.piece

    def told(self) -> int:
        more = (each.size for each in self.drive.state.namespaces if each.nsid not in self.built)
        free = self.drive.state.size - sum(
            each.size for each in self.drive.state.namespaces if each.nsid in self.built
        )
        return free // self.piece * self.piece - sum(map(self.taken, more))

    def send(self, kernel: Kernel, code: int, words: dict[str, Any]) -> Answer:
        if (code, words.get("cdw10", 0) & SEL) == (MANAGEMENT, CREATE):
            size = int.from_bytes(words["send"][:8], "little") * 512
            whole = self.overhead and size == self.piece
            if self.taken(size) > min(self.piece, self.told()) or whole:
                return refused(kernel, NO_CAPACITY)
        answer = _SEND(kernel, code, **words)
        cns = words.get("cdw10", 0) & 0xFF
        if code != IDENTIFY or answer.code or not answer.data:
            return answer
        if cns == CONTROLLER:
            return with_room(answer, self.told())
        if cns in (0, 0x11) and words.get("nsid") not in self.built:
            data = bytearray(answer.data)
            size = int.from_bytes(data[0:8], "little") * 512
            data[48:64] = self.taken(size).to_bytes(16, "little")
            return replace(answer, data=bytes(data))
        return answer


@pytest.mark.parametrize(
    ("methods", "policy"), [(CLEAR, QUICK), (ONE, HOLD)], ids=["Clear", "hold"]
)
@pytest.mark.parametrize("overhead", [False, True], ids=["all of a piece", "with an overhead"])
def test_pieces_that_do_not_lie_together_are_read_whole(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    methods: tuple[Method, ...],
    policy: Policy,
    overhead: bool,
) -> None:
    """Each is asked for by a power of two, and then by what it takes: its next tenant may."""
    with site(managing(Layout.ROOMY, methods), tmp_path, policy, size=24 << 20) as made:
        firmware = Pieces(made.drive, overhead=overhead)
        firmware.install(monkeypatch)
        report = made.erase()
        made.whole(report)
    read = temporary_ones(report)
    assert len(read) == 2
    assert (set(read) == {firmware.piece}) is not overhead


def temporary_ones(report: EraseReport) -> list[int]:
    """Bytes of each temporary namespace that was read."""
    assert report.verification is not None
    return [each.blocks * 4096 for each in report.verification.namespaces if each.temporary]


def test_pieces_are_read_whole_where_nvme_cli_does_not_tell_their_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with site(managing(Layout.ROOMY, CLEAR), tmp_path, size=24 << 20) as made:
        firmware = Pieces(made.drive)
        firmware.install(monkeypatch)
        silent(made.machine, monkeypatch)
        report = made.erase()
        made.whole(report)
    assert temporary_ones(report) == [firmware.piece] * 2


def test_more_pieces_than_are_made_are_read_as_far_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left is printed, and no reason to leave the others unread."""
    with site(managing(Layout.ROOMY, TWO), tmp_path, size=96 << 20) as made:
        firmware = Pieces(made.drive)
        firmware.install(monkeypatch)
        pieces = firmware.told() // firmware.piece
        report = made.erase()
    assert pieces > creation.MOST
    assert temporary_ones(report) == [firmware.piece] * creation.MOST
    assert (report.verdict, report.fit) == (Verdict.ERASED, True), report.reasons
    left = (pieces - creation.MOST) * firmware.piece
    assert any(line.startswith(f"Capacity: {left} bytes") for line in room(report)), room(report)


def test_one_that_cannot_be_attached_leaves_no_other_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with site(managing(Layout.ROOMY, TWO), tmp_path, size=24 << 20) as made:
        firmware = Pieces(made.drive)
        firmware.install(monkeypatch)
        send, refusing = Kernel.send, [2]

        def refuses(kernel: Kernel, code: int, **words: Any) -> Answer:
            act = (code, words.get("cdw10", 0) & SEL)
            if act == (ATTACHMENT, ATTACH) and words["nsid"] in refusing:
                return refused(kernel, REFUSED)
            return send(kernel, code, **words)

        monkeypatch.setattr(Kernel, "send", refuses)
        report = made.erase()
    assert temporary_ones(report) == [firmware.piece]
    left = f"Capacity: {firmware.piece} bytes"
    assert any(line.startswith(left) for line in room(report)), room(report)


@pytest.mark.parametrize(("methods", "policy"), [(CLEAR, QUICK), (TWO, QUICK), (ONE, HOLD)])
@pytest.mark.parametrize("numbers", [{0}, {0, 1}], ids=["once", "always"])
def test_the_rest_of_a_piece_that_is_not_made_larger_is_not_passed_over(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    methods: tuple[Method, ...],
    policy: Policy,
    numbers: set[int],
) -> None:
    """Its next tenant may have one of the whole piece, once the drive deletes this one."""
    with site(managing(Layout.ROOMY, methods), tmp_path, policy, size=96 << 20) as made:
        firmware = Pieces(made.drive, piece=7900 << 10)
        firmware.install(monkeypatch)
        refusing(monkeypatch, MANAGEMENT, DELETE, numbers)
        report = made.erase()
    whole = temporary_ones(report) == [firmware.piece] * 2
    assert report.verdict is Verdict.ERASED
    # Between two methods they are made again.
    assert whole is (numbers == {0} or methods is TWO)
    assert report.fit is whole, report.reasons
    told = (*room(report), *report.reasons)
    assert any("nobody has read" in line for line in told) is not whole, told


@dataclass
class Slack(Firmware):
    """A namespace takes a MiB more than it shows by its word (NVMCAP); once one was deleted, it
    refuses so many creations."""

    built: frozenset[int]
    refusals: float
    left: float = 0

    def send(self, kernel: Kernel, code: int, words: dict[str, Any]) -> Answer:
        act = (code, words.get("cdw10", 0) & SEL)
        if act == (MANAGEMENT, CREATE) and self.left > 0:
            self.left -= 1
            return refused(kernel, NO_CAPACITY)
        answer = _SEND(kernel, code, **words)
        if act == (MANAGEMENT, DELETE) and answer.code == 0 and words["nsid"] not in self.built:
            self.left = self.refusals
        cns = words.get("cdw10", 0) & 0xFF
        if (
            code == IDENTIFY
            and cns in (0, 0x11)
            and answer.data
            and words["nsid"] not in self.built
        ):
            data = bytearray(answer.data)
            size = int.from_bytes(data[0:8], "little") * 512
            data[48:64] = (size + MIB).to_bytes(16, "little")
            return replace(answer, data=bytes(data))
        return answer


@pytest.mark.parametrize(("refusals", "fit"), [(3, True), (math.inf, False)])
def test_one_that_is_made_larger_comes_to_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusals: float, fit: bool
) -> None:
    """A drive that took back what it had given, and gave it no more, had a case go on for ever."""
    with site(managing(Layout.ROOMY, CLEAR), tmp_path) as made:
        Slack(frozenset({1}), refusals).install(monkeypatch)
        report = made.erase()
    assert (report.verdict, report.fit) == (Verdict.ERASED, fit), report.reasons
    assert fit or any("none in place of one" in reason for reason in report.reasons)
    assert len(sent(report)) < 60


@dataclass
class Deleted(Firmware):
    """Something of its own once a namespace was deleted."""

    since: float | None = None
    now: Callable[[], float] = float

    def send(self, kernel: Kernel, code: int, words: dict[str, Any]) -> Answer:
        act = (code, words.get("cdw10", 0) & SEL)
        answer = self.changed(kernel, code, words) if self.since is not None else None
        answer = answer or _SEND(kernel, code, **words)
        if act == (MANAGEMENT, DELETE) and answer.code == 0:
            self.since = self.now()
        return answer

    def changed(self, kernel: Kernel, code: int, words: dict[str, Any]) -> Answer | None:
        raise NotImplementedError


class ManagesNoMore(Deleted):
    """It calls itself a drive that manages no namespaces (OACS bit 3)."""

    def changed(self, kernel: Kernel, code: int, words: dict[str, Any]) -> Answer | None:
        if code != IDENTIFY or words.get("cdw10", 0) & 0xFF != CONTROLLER:
            return None
        answer = _SEND(kernel, code, **words)
        data = bytearray(answer.data)
        data[256] &= ~8 & 0xFF
        return replace(answer, data=bytes(data))


class GivesLate(Deleted):
    """It tells of what it got back, and gives nothing of it for five seconds."""

    def changed(self, kernel: Kernel, code: int, words: dict[str, Any]) -> Answer | None:
        creates = (code, words.get("cdw10", 0) & SEL) == (MANAGEMENT, CREATE)
        waits = self.since is not None and self.now() < self.since + 5
        return refused(kernel, NO_CAPACITY) if creates and waits else None


class GivesNoMore(Deleted):
    """It tells of what it got back, and gives nobody any of it."""

    def changed(self, kernel: Kernel, code: int, words: dict[str, Any]) -> Answer | None:
        creates = (code, words.get("cdw10", 0) & SEL) == (MANAGEMENT, CREATE)
        return refused(kernel, NO_CAPACITY) if creates else None


@dataclass
class Keeps(Deleted):
    """It keeps a MiB of what it got back, and has no number for a further namespace."""

    most: int = 0
    """Bytes of the largest namespace that it gives then."""

    def changed(self, kernel: Kernel, code: int, words: dict[str, Any]) -> Answer | None:
        if (code, words.get("cdw10", 0) & SEL) == (MANAGEMENT, CREATE):
            size = int.from_bytes(words["send"][:8], "little") * 512
            if kernel.host.drive.state.namespaces:
                return refused(kernel, 0x116)
            return refused(kernel, NO_CAPACITY) if size > self.most else None
        if code == IDENTIFY and words.get("cdw10", 0) & 0xFF == CONTROLLER:
            free = max(0, kernel.host.drive.state.unallocated - MIB)
            return with_room(_SEND(kernel, code, **words), free)
        return None


@pytest.mark.parametrize("left", ["smaller", "filled"])
def test_a_drive_that_calls_itself_another_hides_nothing_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    ManagesNoMore().install(monkeypatch)
    with site(managing(Layout.ROOMY, CLEAR), tmp_path) as made:
        LEFT[left](made)
        report = made.erase()
    assert report.verification is not None
    read = sum(each.blocks * 4096 for each in report.verification.namespaces if each.temporary)
    assert read == made.drive.state.unallocated
    assert unallocated.unread(report) == 0


@pytest.mark.parametrize(("methods", "left"), LEFT_TO)
def test_a_drive_that_gives_late_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, methods: tuple[Method, ...], left: str
) -> None:
    with site(managing(Layout.ROOMY, methods), tmp_path) as made:
        GivesLate(now=made.machine.host.clock.monotonic).install(monkeypatch)
        LEFT[left](made)
        report = made.erase()
        made.whole(report)
    assert unallocated.unread(report) == 0


def test_what_its_last_owner_had_and_nobody_is_given_holds_the_drive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A piece that nobody is given is printed; this is none."""
    whole_format(monkeypatch)
    with site(managing(Layout.ROOMY, CLEAR), tmp_path) as made:
        GivesNoMore().install(monkeypatch)
        filled(made)
        report = made.erase()
    assert (report.verdict, report.fit) == (Verdict.ERASED, False)
    assert any("its last owner had" in reason for reason in report.reasons), report.reasons


@pytest.mark.parametrize(
    ("methods", "policy"), [(CLEAR, QUICK), (ONE, HOLD)], ids=["Clear", "hold"]
)
def test_what_the_profile_lets_a_drive_keep_holds_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, methods: tuple[Method, ...], policy: Policy
) -> None:
    with site(managing(Layout.ONE, methods), tmp_path, policy) as made:
        made.profile = replace(made.profile, size_tolerance=MIB)
        Keeps(most=made.before[0][1] - MIB).install(monkeypatch)
        changed(made, 2 * MIB)
        report = made.erase()
    assert (report.verdict, report.fit) == (Verdict.ERASED, True), report.reasons
    assert unallocated.unread(report) > 0, "it is printed"


@pytest.mark.parametrize("moment", ["answered", "lost"])
def test_one_that_was_not_made_larger_yet_is_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Killed once it was created; and where the answer to the deletion is lost."""
    with site(managing(Layout.ROOMY, CLEAR), tmp_path, size=24 << 20) as made:
        pieces, seen = Pieces(made.drive), list[int]()

        class Killed(Firmware):
            def send(self, kernel: Kernel, code: int, words: dict[str, Any]) -> Answer:
                answer = pieces.send(kernel, code, words)
                wanted = DELETE if moment == "lost" else CREATE
                if (code, words.get("cdw10", 0) & SEL) == (MANAGEMENT, wanted) and not seen:
                    seen.append(answer.code)
                    if moment == "lost":
                        return refused(kernel, 0x006)
                    raise Crash
                return answer

        Killed().install(monkeypatch)
        with contextlib.suppress(Crash):
            made.erase()
        report = made.erase()
        made.whole(report)
    assert report.verification is not None
    read = [each.blocks * 4096 for each in report.verification.namespaces if each.temporary]
    assert read == [pieces.piece, pieces.piece]
