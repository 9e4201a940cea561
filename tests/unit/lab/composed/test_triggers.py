"""Each word of the grammar: what makes it true on a drive, and what is nearly that and does not."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab.nvme.acts import Reset
from tests.lab.nvme.composed import spaces
from tests.lab.nvme.composed.marks import mark
from tests.lab.nvme.composed.triggers import AFTER, AND, OR, Trigger
from tests.lab.nvme.composed.watch import knock
from tests.lab.nvme.composed.words import WORDS
from tests.unit.lab.composed.lab import ASKED, ELSEWHERE, HERE, SIZE, WRITTEN, Lab, lab, liar

FUA, LIMITED_RETRY = 1 << 30, 1 << 31
Try = Callable[[Lab], bool]
NOTHING: Try = lambda made: made.sees()  # noqa: E731


def then_look(act: Callable[[Lab], object]) -> Try:
    """Do it, then read a page plainly."""

    def work(made: Lab) -> bool:
        act(made)
        return made.sees()

    return work


def reset(how: Reset, queues: int = 2) -> Try:
    """That reset."""
    return then_look(lambda made: made.host.reset(how, queues))


def admin(opcode: int, **fields: int) -> Try:
    """That admin command."""
    return then_look(lambda made: made.host.admin(opcode, receive=4096, **fields))


def io(opcode: int, **fields: int) -> Try:
    """That I/O command, somewhere else."""
    return then_look(
        lambda made: made.host.patient(
            1, opcode, nsid=1, send=bytes(512), **{"cdw10": 800, **fields}
        )
    )


def log(lid: int) -> Try:
    """That log page."""
    return then_look(lambda made: made.host.log(lid))


def feature(fid: int, *, nsid: int = 0, save: bool = False, value: int = 0) -> Try:
    """That Set Features."""
    return then_look(
        lambda made: made.host.admin(
            0x09, nsid=nsid, send=bytes(16), cdw10=fid | save << 31, cdw11=value
        )
    )


def write(page: int, flags: int = 0) -> Try:
    """A write of one block at the start of a page."""
    return then_look(lambda made: made.write(page, 1, flags))


def read(first: int, blocks: int, **how: int) -> Try:
    """That read, and no other."""
    return lambda made: bool(made.read(first, blocks, **how))


def pages(*numbers: int) -> Try:
    """Reads of these pages; only the last one may give anything."""

    def work(made: Lab) -> bool:
        seen = [made.sees(page) for page in numbers]
        assert not any(seen[:-1])
        return seen[-1]

    return work


def compare(made: Lab) -> bool:
    """Whether the drive says that its old content is there."""
    content = b"".join(map(mark, range(HERE * 8, HERE * 8 + 8)))
    answer = made.host.patient(1, 0x05, nsid=1, send=content, cdw10=HERE * 8, cdw12=7)
    return answer.code == 0


def with_metadata(wanted: bool) -> Try:
    """A read in a format that has metadata, with or without a buffer for it."""

    def work(made: Lab) -> bool:
        assert made.host.admin(0x80, nsid=1, cdw10=2).code == 0
        made.where = made.host.namespace(1)
        assert made.where.metadata == 8
        return bool(made.read(HERE * 8, 8, metadata=wanted))

    return work


def made_namespace(then: Callable[[Lab, int], object] = lambda made, nsid: None) -> Try:
    """One over what is in none, attached; then something with it."""

    def work(made: Lab) -> bool:
        nsid = spaces.create(made.host)
        assert nsid
        then(made, nsid)
        return made.sees()

    return work


def only_created(made: Lab) -> bool:
    """A namespace that is not attached."""
    asked = struct.pack("<QQ", 8, 8).ljust(4096, b"\0")
    assert made.host.admin(0x0D, send=asked).code == 0
    return made.sees()


def times(number: int, act: Callable[[Lab], object]) -> Try:
    """So often, then a plain read."""
    return then_look(lambda made: [act(made) for _ in range(number)])


def year(number: int) -> Try:
    """The host says that it is then."""
    milliseconds = int((number - 1970 + 0.5) * 365.2425 * 86400 * 1000)
    stamp = milliseconds.to_bytes(6, "little") + bytes(2)
    return then_look(lambda made: made.host.admin(0x09, send=stamp, cdw10=0x0E))


def knocked(order: tuple[int, ...]) -> Try:
    """The pages of knock 7, in an order."""
    wanted = knock(7, SIZE // 4096)

    def act(made: Lab) -> None:
        # The namespace ends before the media does: a page of it is a page of the media here.
        for index in order:
            made.read(wanted[index] * 8, 1)

    return then_look(act)


def worn(mebibytes: int) -> Try:
    """So much is written, far from where one looks."""

    def act(made: Lab) -> None:
        for _ in range(mebibytes * 8):
            made.write(512, 256)

    return then_look(act)


def waits(*seconds: float) -> Try:
    """Reads with pauses before them."""

    def act(made: Lab) -> None:
        for one in seconds[:-1]:
            made.clock.wait(one)
            made.sees()
        made.clock.wait(seconds[-1])

    return then_look(act)


TRIES: dict[str, tuple[int, Try, Try]] = {
    "order backward": (1, pages(9, HERE), pages(HERE, HERE, 9)),
    "order jumping": (1, pages(HERE, 9), pages(HERE, HERE + 1)),
    "order sequential": (1, pages(HERE, HERE + 1), pages(HERE, 9)),
    "order again": (1, pages(HERE, HERE), pages(HERE, HERE + 1)),
    "size block": (1, read(24, 1), read(24, 2)),
    "size small": (1, read(24, 7), read(24, 8)),
    "size page": (1, read(24, 8), read(24, 9)),
    "size large": (1, read(0, 513), read(0, 512)),
    "size odd": (1, read(24, 3), read(24, 4)),
    "alignment block": (1, read(25, 8), read(24, 8)),
    "alignment buffer": (1, read(24, 8, shift=512), read(25, 8)),
    "path fua": (1, read(24, 8, flags=FUA), read(24, 8, flags=LIMITED_RETRY)),
    "path limited-retry": (1, read(24, 8, flags=LIMITED_RETRY), read(24, 8, flags=FUA)),
    "path hinted": (1, read(24, 8, hints=0x41), read(24, 8)),
    "path metadata": (1, with_metadata(True), with_metadata(False)),
    "path compare": (1, compare, NOTHING),
    "queue above": (1, read(24, 8, queue=2), read(24, 8, queue=1)),
    "queue only": (2, read(24, 8, queue=2), read(24, 8, queue=1)),
    "unasked read": (1, pages(ELSEWHERE), pages(ASKED)),
    "unasked written": (1, pages(ASKED), pages(WRITTEN)),
    "unasked either": (1, pages(ELSEWHERE), pages(ASKED, WRITTEN)),
    "nth": (2, pages(HERE, HERE), pages(HERE, 9)),
    "reset controller": (1, reset(Reset.CONTROLLER), reset(Reset.FUNCTION)),
    "reset subsystem": (1, reset(Reset.SUBSYSTEM), reset(Reset.CONTROLLER)),
    "reset function": (1, reset(Reset.FUNCTION), reset(Reset.BUS)),
    "reset bus": (1, reset(Reset.BUS), reset(Reset.FUNCTION)),
    "reset power": (1, reset(Reset.POWER), reset(Reset.SUBSYSTEM)),
    "reset any": (1, reset(Reset.CONTROLLER), NOTHING),
    "taken": (1, reset(Reset.CONTROLLER), NOTHING),
    "left": (
        1,
        then_look(lambda made: (made.host.shut_down(), made.host.reset(Reset.CONTROLLER, 2))),
        reset(Reset.CONTROLLER),
    ),
    "wrote anywhere": (1, write(100), io(0x00, cdw10=0)),
    "wrote here": (1, write(HERE), write(HERE + 1)),
    "wrote near": (1, write(HERE + 16), write(HERE + 17)),
    "wrote far": (1, write(HERE + 257), write(HERE + 256)),
    "command deallocate": (
        1,
        then_look(lambda made: made.host.deallocate(made.where, 800, 8)),
        io(0x00, cdw10=0),
    ),
    "command write-zeroes": (1, io(0x08), write(100)),
    "command flush": (1, io(0x00, cdw10=0), io(0x0C)),
    "command verify": (1, io(0x0C), io(0x05)),
    "command compare": (1, io(0x05), io(0x0C)),
    "command fua": (1, write(100, FUA), write(100)),
    "command identify": (1, admin(0x06, cdw10=1), admin(0x0A, cdw10=2)),
    "command smart": (1, log(0x02), log(0x03)),
    "command sanitize-log": (1, log(0x81), log(0x02)),
    "command firmware-log": (1, log(0x03), log(0x81)),
    "command get-features": (1, admin(0x0A, cdw10=2), admin(0x06, cdw10=1)),
    "command security": (1, admin(0x82), admin(0x08)),
    "command abort": (1, admin(0x08), admin(0x82)),
    "command format": (1, admin(0x80, nsid=1), admin(0x06, cdw10=1)),
    "namespace created": (
        1,
        only_created,
        then_look(lambda made: spaces.attach(made.host, 1)),
    ),
    "namespace attached": (1, made_namespace(), only_created),
    "namespace detached": (
        1,
        made_namespace(lambda made, nsid: spaces.attach(made.host, nsid, attached=False)),
        made_namespace(),
    ),
    "namespace deleted": (
        1,
        made_namespace(lambda made, nsid: made.host.admin(0x0D, nsid=nsid, cdw10=1)),
        made_namespace(),
    ),
    "feature power": (1, feature(0x02), feature(0x0B)),
    "feature write-cache": (1, feature(0x06), feature(0x0B)),
    "feature error-recovery": (1, feature(0x05, nsid=1), feature(0x0B)),
    "feature timestamp": (1, feature(0x0E), feature(0x0B)),
    "feature host-id": (1, feature(0x81), feature(0x0B)),
    "feature queues": (1, feature(0x07), feature(0x0B)),
    "feature arbitration": (1, feature(0x01), feature(0x0B)),
    "feature thermal": (1, feature(0x04), feature(0x0B)),
    "feature saved": (1, feature(0x01, save=True), feature(0x01)),
    "queues": (
        4,
        reset(Reset.CONTROLLER, 4),
        times(2, lambda made: made.host.reset(Reset.CONTROLLER, 3)),
    ),
    "count reads": (3, pages(9, 10, HERE), pages(9, HERE)),
    "count commands": (3, times(2, lambda made: made.host.log(2)), log(2)),
    "count kilobytes": (16, pages(9, 10, 11, HERE), pages(9, 10, HERE)),
    "time since": (20, waits(12, 8), waits(12, 7)),
    "time idle": (20, waits(20), waits(12, 12)),
    "hours": (1, waits(1800, 1800), waits(1800, 1799)),
    "knock": (7, knocked((0, 1, 2)), knocked((1, 0, 2, 1, 2))),
    "vendor": (7, admin(0xC5, cdw13=7), admin(0xC5, cdw13=8)),
    "date": (2030, year(2031), year(2029)),
    "cycles": (
        2,
        times(2, lambda made: made.host.reset(Reset.POWER, 2)),
        reset(Reset.POWER),
    ),
    "worn": (1, worn(4), worn(3)),
}
"""By word and choice: its number, what makes it true, and what is nearly that."""


def named(name: str) -> Trigger:
    """The trigger of a row."""
    word, _, choice = name.partition(" ")
    return Trigger(word, choice, TRIES[name][0])


def test_every_choice_of_every_word_has_its_row() -> None:
    assert set(TRIES) == {f"{word.name} {one}".rstrip() for word in WORDS for one in word.choices}


@pytest.mark.parametrize("name", TRIES)
def test_it_shows_under_its_condition(tmp_path: Path, name: str) -> None:
    with lab(liar(named(name)), tmp_path) as made:
        assert TRIES[name][1](made)


@pytest.mark.parametrize("name", TRIES)
def test_it_hides_under_what_is_nearly_its_condition(tmp_path: Path, name: str) -> None:
    with lab(liar(named(name)), tmp_path) as made:
        assert not TRIES[name][2](made)


@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize("name", ["size block", "path fua", "alignment buffer", "nth"])
def test_another_read_shows_nothing_unless_it_stays(tmp_path: Path, name: str, stays: bool) -> None:
    with lab(liar(named(name), stays=stays), tmp_path) as made:
        assert not made.sees(20)
        assert TRIES[name][1](made)
        assert made.sees(21) is stays


def test_numbers_count(tmp_path: Path) -> None:
    with lab(liar(Trigger("reset", "function", 3)), tmp_path) as made:
        seen = []
        for _ in range(4):
            seen.append(made.sees())
            made.host.reset(Reset.FUNCTION, 2)
        assert seen == [False, False, False, True]


def test_three_reads_backward_in_a_row(tmp_path: Path) -> None:
    with lab(liar(Trigger("order", "backward", 3)), tmp_path) as made:
        assert [made.sees(page) for page in (40, 30, 20, 25, 15, 10, 5)] == [False] * 6 + [True]


FLR, WROTE = Trigger("reset", "function"), Trigger("wrote", "anywhere")


def test_and(tmp_path: Path) -> None:
    with lab(liar(Trigger(AND, parts=(FLR, WROTE))), tmp_path) as made:
        made.write(100)
        assert not made.sees()
        made.host.reset(Reset.FUNCTION, 2)
        assert made.sees()


def test_or(tmp_path: Path) -> None:
    with lab(liar(Trigger(OR, parts=(FLR, WROTE))), tmp_path) as made:
        assert not made.sees()
        made.write(100)
        assert made.sees()


def test_after_wants_an_order(tmp_path: Path) -> None:
    with lab(liar(Trigger(AFTER, parts=(FLR, WROTE))), tmp_path) as made:
        made.write(100)
        made.host.reset(Reset.FUNCTION, 2)
        assert not made.sees()
        made.write(100)
        assert made.sees()


def test_what_comes_after_counts_its_time_from_then(tmp_path: Path) -> None:
    late = Trigger("time", "since", 20)
    with lab(liar(Trigger(AFTER, parts=(FLR, late))), tmp_path) as made:
        made.clock.wait(20)
        made.host.reset(Reset.FUNCTION, 2)
        assert not made.sees()
        made.clock.wait(20)
        assert made.sees()


def test_a_joint_in_a_joint(tmp_path: Path) -> None:
    block = Trigger("size", "block")
    first = Trigger(OR, parts=(FLR, Trigger("left")))
    with lab(liar(Trigger(AFTER, parts=(first, block))), tmp_path) as made:
        assert not made.read(24, 1)
        made.host.shut_down()
        made.host.reset(Reset.CONTROLLER, 2)
        assert made.read(24, 1)
        assert not made.read(24, 2)


def test_what_happened_before_the_erase_does_not_count(tmp_path: Path) -> None:
    with lab(liar(FLR), tmp_path, erased=False) as made:
        made.host.reset(Reset.FUNCTION, 2)
        assert made.sees(), "it was not erased yet"
        made.erase()
        assert not made.sees()
        made.host.reset(Reset.FUNCTION, 2)
        assert made.sees()
        made.erase()
        assert not made.sees(), "another erase, another count"
