"""Whether a trigger holds: it listens to the acts since an erase and is asked at each read."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.lab.nvme.acts import Act, Kind, Reset
from tests.lab.nvme.composed.triggers import AFTER, ALWAYS, AND, OR, Trigger
from tests.lab.nvme.fill import CHUNK
from tests.lab.nvme.spec import AdminOp, Lid, NvmOp

HOUR = 3600
NEAR, FAR = 64 << 10, 1 << 20
"""Bytes from a write within which a place is near, and beyond which it is far."""

KNOCK_LENGTH = 3
_FUA, _LIMITED_RETRY = 1 << 30, 1 << 31
_FEATURES = {
    "power": 0x02,
    "write-cache": 0x06,
    "error-recovery": 0x05,
    "timestamp": 0x0E,
    "host-id": 0x81,
    "queues": 0x07,
    "arbitration": 0x01,
    "thermal": 0x04,
}
_SELECTED = {
    "created": (AdminOp.NAMESPACE_MANAGEMENT, 0),
    "deleted": (AdminOp.NAMESPACE_MANAGEMENT, 1),
    "attached": (AdminOp.NAMESPACE_ATTACHMENT, 0),
    "detached": (AdminOp.NAMESPACE_ATTACHMENT, 1),
}
_IO = {
    "deallocate": NvmOp.DATASET_MANAGEMENT,
    "write-zeroes": NvmOp.WRITE_ZEROES,
    "flush": NvmOp.FLUSH,
    "verify": NvmOp.VERIFY,
    "compare": NvmOp.COMPARE,
}
_ADMIN = {
    "identify": AdminOp.IDENTIFY,
    "get-features": AdminOp.GET_FEATURES,
    "security": AdminOp.SECURITY_RECEIVE,
    "abort": AdminOp.ABORT,
}
_LOGS = {"smart": Lid.SMART, "sanitize-log": Lid.SANITIZE, "firmware-log": Lid.FIRMWARE}


def knock(number: int, pages: int) -> list[int]:
    """The pages of a knock, on a drive of so many: in its first half, where blocks are."""
    return [number * (index + 1) * 2654435761 % (pages // 2) for index in range(KNOCK_LENGTH)]


@dataclass
class Scene:
    """What a watch needs to know of the drive.

    ``largest`` is MDTS, ``size`` the capacity, both bytes; ``clock`` tells seconds. ``read`` and
    ``written`` are the pages that the host addressed before the erase, since the function was
    last reset; ``year`` is what the host said that it is.
    """

    largest: int
    size: int
    clock: Callable[[], float]
    read: set[int] = field(default_factory=set)
    written: set[int] = field(default_factory=set)
    year: int = 0


class Watch:
    """One node of a trigger: what it has heard."""

    def __init__(self, trigger: Trigger, scene: Scene) -> None:
        self.trigger = trigger
        self._scene = scene
        self._parts = [Watch(part, scene) for part in trigger.parts]
        self.begin()

    def begin(self) -> None:
        """Forget, and listen from now on."""
        self._count = self._streak = self._knocked = self._queues = self._open = 0
        self._before: tuple[int, int] | None = None
        self._pages: dict[int, int] = {}
        self._first = False
        self._since = self._last = self._scene.clock()
        self._longest = 0.0
        for part in self._parts:
            part.begin()

    def copy(self, scene: Scene) -> Watch:
        """One that goes on from here on its own."""
        return copy.deepcopy(self, {id(self._scene): scene})

    def hear(self, act: Act) -> None:
        """The host did something."""
        if self.trigger.word == AFTER:
            first, then = self._parts
            if self._first:
                then.hear(act)
                return
            first.hear(act)
            if first.held(act):
                self._first = True
                then.begin()
            return
        for part in self._parts:
            part.hear(act)
        if not self._parts:
            self._listen(act)

    def held(self, act: Act) -> bool:
        """Whether it holds anywhere that the act is about."""
        pages = range(act.start // CHUNK, -(-act.end // CHUNK)) or range(1)
        return any(self.holds(act, page) for page in pages)

    def holds(self, act: Act, page: int) -> bool:
        """Whether it holds for a page of the media, which the act reads."""
        word = self.trigger.word
        if word == ALWAYS:
            return True
        if word == AND:
            return all(part.holds(act, page) for part in self._parts)
        if word == OR:
            return any(part.holds(act, page) for part in self._parts)
        if word == AFTER:
            return self._first and self._parts[1].holds(act, page)
        return _HOLDS[word](self, act, page)

    # What a word hears

    def _listen(self, act: Act) -> None:
        now = self._scene.clock()
        if act.kind in (Kind.ADMIN, Kind.IO):
            self._longest = max(self._longest, now - self._last)
            self._last = now
        if act.reads:
            self._listen_to_read(act)
        elif act.writes and self.trigger.word == "wrote":
            for page in range(act.start // CHUNK, -(-act.end // CHUNK)):
                self._pages[page] = self._pages.get(page, 0) + 1
        if act.kind is Kind.RESET:
            self._queues = 0
        elif act.is_admin(AdminOp.CREATE_SQ):
            self._queues += 1
            self._open = max(self._open, self._queues)
        self._count += self._counts(act)

    def _listen_to_read(self, act: Act) -> None:
        if self.trigger.word == "order":
            self._streak = self._streak + 1 if self._ordered(act) else 0
            self._before = (act.start, act.end)
        elif self.trigger.word == "nth":
            for page in range(act.start // CHUNK, -(-act.end // CHUNK)):
                self._pages[page] = self._pages.get(page, 0) + 1
        elif self.trigger.word == "knock" and self._knocked < KNOCK_LENGTH:
            wanted = knock(self.trigger.number, self._scene.size // CHUNK)
            here = act.start // CHUNK
            if here == wanted[self._knocked]:
                self._knocked += 1
            else:
                self._knocked = int(here == wanted[0])

    def _ordered(self, act: Act) -> bool:
        if self._before is None:
            return False
        start, end = self._before
        return {
            "backward": act.start < start,
            "jumping": act.start != end,
            "sequential": act.start == end,
            "again": act.start == start,
        }[self.trigger.choice]

    def _counts(self, act: Act) -> int:
        """By how much an act raises the word's count."""
        word, choice, command = self.trigger.word, self.trigger.choice, act.command
        if word in ("reset", "cycles"):
            wanted = "power" if word == "cycles" else choice
            return act.reset is not None and (wanted == "any" or act.reset is Reset(wanted))
        if word == "taken":
            return act.kind is Kind.TAKEN
        if word == "left":
            return act.kind is Kind.LEFT
        if word == "wrote":
            return act.writes
        if word == "worn":
            return act.end - act.start if act.writes else 0
        if word == "count":
            if choice == "commands":
                return command is not None
            return act.reads * ((act.end - act.start) >> 10 if choice == "kilobytes" else 1)
        if command is None:
            return False
        if word == "command":
            return _is_command(act, choice)
        if word == "namespace":
            opcode, select = _SELECTED[choice]
            return act.is_admin(opcode) and command.cdw10 & 0xF == select
        if word == "feature":
            if not act.is_admin(AdminOp.SET_FEATURES):
                return False
            if choice == "saved":
                return bool(command.cdw10 >> 31)
            return command.cdw10 & 0xFF == _FEATURES[choice]
        if word == "vendor":
            return act.opcode >= 0xC0 and command.cdw13 == self.trigger.number
        return False

    # What a word answers

    def _reached(self, act: Act, page: int) -> bool:
        wanted = 1 if self.trigger.word == "vendor" else self.trigger.number
        return self._count >= wanted

    def _order(self, act: Act, page: int) -> bool:
        return act.reads and self._streak >= self.trigger.number

    def _size(self, act: Act, page: int) -> bool:
        length = act.end - act.start
        blocks = length // act.block
        return (
            act.reads
            and {
                "block": blocks == 1,
                "small": length < CHUNK,
                "page": length == CHUNK,
                "large": length > self._scene.largest // 2,
                "odd": blocks & (blocks - 1) != 0,
            }[self.trigger.choice]
        )

    def _alignment(self, act: Act, page: int) -> bool:
        if not act.reads or act.command is None:
            return False
        at = act.start if self.trigger.choice == "block" else act.command.prp1
        return at % CHUNK != 0

    def _path(self, act: Act, page: int) -> bool:
        command = act.command
        if not act.reads or command is None:
            return False
        return {
            "fua": bool(command.cdw12 & _FUA),
            "limited-retry": bool(command.cdw12 & _LIMITED_RETRY),
            "hinted": bool(command.cdw13 & 0xFF),
            "metadata": command.mptr != 0,
            "compare": act.opcode == NvmOp.COMPARE,
        }[self.trigger.choice]

    def _queue(self, act: Act, page: int) -> bool:
        above = self.trigger.choice == "above"
        number = self.trigger.number
        return act.reads and (act.queue > number if above else act.queue == number)

    def _unasked(self, act: Act, page: int) -> bool:
        scene = self._scene
        return (
            act.reads
            and {
                "read": page not in scene.read,
                "written": page not in scene.written,
                "either": page not in scene.read and page not in scene.written,
            }[self.trigger.choice]
        )

    def _nth(self, act: Act, page: int) -> bool:
        return act.reads and self._pages.get(page, 0) >= self.trigger.number

    def _wrote(self, act: Act, page: int) -> bool:
        if self.trigger.choice == "anywhere":
            return self._count >= self.trigger.number
        if self.trigger.choice == "here":
            return self._pages.get(page, 0) >= self.trigger.number
        near, far = NEAR // CHUNK, FAR // CHUNK
        away = ((abs(one - page), count) for one, count in self._pages.items())
        if self.trigger.choice == "near":
            found = sum(count for pages, count in away if pages <= near)
        else:
            found = sum(count for pages, count in away if pages > far)
        return found >= self.trigger.number

    def _time(self, act: Act, page: int) -> bool:
        if self.trigger.choice == "idle":
            return self._longest >= self.trigger.number
        return self._scene.clock() - self._since >= self.trigger.number

    def _hours(self, act: Act, page: int) -> bool:
        return self._scene.clock() - self._since >= self.trigger.number * HOUR

    def _many_queues(self, act: Act, page: int) -> bool:
        return self._open >= self.trigger.number

    def _knock(self, act: Act, page: int) -> bool:
        return self._knocked == KNOCK_LENGTH

    def _date(self, act: Act, page: int) -> bool:
        return self._scene.year > self.trigger.number

    def _worn(self, act: Act, page: int) -> bool:
        return self._count >= self.trigger.number * self._scene.size


def _is_command(act: Act, choice: str) -> bool:
    command = act.command
    assert command is not None
    if choice in _IO:
        return act.is_io(_IO[choice])
    if choice in _ADMIN:
        return act.is_admin(_ADMIN[choice])
    if choice in _LOGS:
        return act.is_admin(AdminOp.GET_LOG_PAGE) and command.cdw10 & 0xFF == _LOGS[choice]
    if choice == "format":
        return act.is_admin(AdminOp.FORMAT_NVM) and command.cdw10 >> 9 & 7 == 0
    return act.is_io(NvmOp.WRITE) and bool(command.cdw12 & _FUA)


_HOLDS: dict[str, Callable[[Watch, Act, int], bool]] = {
    **dict.fromkeys(
        ("reset", "cycles", "taken", "left", "command", "namespace", "feature", "count", "vendor"),
        Watch._reached,
    ),
    "order": Watch._order,
    "size": Watch._size,
    "alignment": Watch._alignment,
    "path": Watch._path,
    "queue": Watch._queue,
    "unasked": Watch._unasked,
    "nth": Watch._nth,
    "wrote": Watch._wrote,
    "time": Watch._time,
    "hours": Watch._hours,
    "queues": Watch._many_queues,
    "knock": Watch._knock,
    "date": Watch._date,
    "worn": Watch._worn,
}
