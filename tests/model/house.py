"""The gate of one host with several slots: who starts on which drives, and when one is taken back.

Real code: ``rules``, ``revocation`` and ``adoption``. What the control plane does is one step here:
it has a slot erased that it believes to be free, at any time, and rightly or not; the ticket of the
case is in the book at once. Starts are let in one after the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from eraser.controller.spec import SanitizeState
from eraser.gate import adoption
from eraser.ownership import model
from eraser.ownership.facts import (
    CaseSeen,
    CaseStanding,
    DriveSeen,
    HostSeen,
    NewErase,
    SlotFacts,
    Starting,
)
from tests.model import papers, rooms
from tests.model.books import domain
from tests.model.parts import Parts
from tests.model.rooms import ANYBODY, BOOT, Room, Rooms, address, entry_of
from tests.model.search import Slip, Step
from tests.model.system import REFUSED, System
from tests.model.world import CLEAN, GONE

Steps = Iterator[tuple[str, Rooms]]


@dataclass(frozen=True)
class Config:
    """What is searched."""

    name: str
    kinds: frozenset[str] = frozenset()
    """Misfortunes: ``attach``, ``by hand``, ``reboot``, ``unseen``, ``word``."""
    budget: int = 0
    guests: int = 1
    slots: int = 2
    adopted: bool = False
    """The gate came to a host whose first guest ran already, on all of its drives."""


class House(System[Rooms]):
    """One configuration with one version of the product's decisions."""

    def __init__(self, config: Config, parts: Parts) -> None:
        super().__init__(parts.switch)
        self.config, self.name = config, config.name
        self._rules, self._revocation = parts.rules, parts.revocation

    def start(self) -> int:
        """All slots on offer; or all with the guest that was there before the gate."""
        slots = self.config.slots
        each = tuple(rooms.erased(Room(r), r, slots) for r in range(slots))
        house = Rooms(each, (rooms.Guest(),) * self.config.guests, self.config.budget)
        if self.config.adopted:
            house = self._adopted(house).guest(1, "on")
        return self._worlds.number(rooms.canonical(house))

    def _adopted(self, house: Rooms) -> Rooms:
        """As ``gate adopt`` leaves a guest that runs: its drives cannot be read."""
        slots = range(len(house.rooms))
        named = frozenset(map(address, slots))
        having = adoption.DomainDrives(domain(1), domain(1), named, running=True)
        seen = {
            address(r): adoption.SlotNow(
                None, model.PciIds.of(rooms.identity(r, len(slots))), CaseSeen()
            )
            for r in slots
        }
        found = adoption.adopt(model.Book(papers.incarnation(True)), [having], seen, "", {})
        house = house._replace(rooms=tuple(Room(r, data=1, has=1) for r in slots))
        return rooms.written_down(house, found.book)

    def budget(self, number: int) -> int:
        """How many misfortunes may still happen."""
        return self.world(number).budget

    def good(self, number: int) -> bool:
        """Every slot is on offer."""
        return all(rooms.offered(room, r) for r, room in enumerate(self.world(number).rooms))

    def broken(self, before: int, name: str, after: int) -> str:
        """What is wrong with a step, besides what was noticed within it."""
        calm = self.budget(before) == self.config.budget
        if name.startswith(REFUSED) and calm:
            return "an honest guest is refused although nothing went wrong"
        return ""

    def _all_steps(self, number: int) -> tuple[Step[int], ...]:
        found: dict[Step[int], None] = {}
        for name, after in self._steps(self.world(number)):
            following = self._worlds.number(rooms.canonical(after))
            if following != number or name.startswith(REFUSED):
                found[name, following] = None
        return tuple(found)

    def _steps(self, house: Rooms) -> Steps:
        for d in range(1, len(house.guests) + 1):
            yield from self._guest(house, d)
        for r in range(len(house.rooms)):
            yield from self._erase(house, r)
        if house.budget:
            for name, after in self._misfortunes(house):
                yield name, after._replace(budget=house.budget - 1)

    # Guests

    def _guest(self, house: Rooms, d: int) -> Steps:
        guest = house.guests[d - 1]
        if guest.how == "":
            free = [r for r, room in enumerate(house.rooms) if rooms.offered(room, r)]
            yield from self._claims(house, d, free, "")
        if guest.how in ("new", "off") and all(each.how != "let in" for each in house.guests):
            yield self._start(house, d)
        if guest.how == "let in":
            yield f"domain {d} runs", _wrote(house, d, house.given(d)).guest(d, "on")
        if guest.how in ("let in", "on"):
            yield f"domain {d} is shut off", house.guest(d, "off")
        if guest.how == "on" and rooms.came_at_once(house, d):
            # Nova detaches what it gave; with anything else libvirt does not save a guest.
            yield f"domain {d} is suspended", house.guest(d, "suspended")
        if guest.how == "suspended":
            yield f"domain {d} is resumed, past the hook", house.guest(d, "coming back")
        if guest.how == "coming back":
            for r in sorted({*house.given(d)} - guest.back):
                back = guest.back | {r}
                after = _wrote(house, d, (r,)).guest(d, "coming back", back)
                if back == frozenset(house.given(d)):
                    after = after.guest(d, "on")
                yield f"drive {r} of domain {d} comes back", after
        if guest.how in ("on", "off", "suspended"):
            # Its uuid stays its own, wherever it is unshelved.
            yield f"domain {d} is shelved", house.left(d)

    def _claims(self, house: Rooms, d: int, free: list[int], how: str) -> Steps:
        for size in range(1, len(free) + 1):
            for chosen in itertools.combinations(free, size):
                after = house.guest(d, "new")
                for r in chosen:
                    after = after.room(r, has=d)
                yield f"domain {d} is given {_list(chosen)}{how}", after

    def _start(self, house: Rooms, d: int) -> tuple[str, Rooms]:
        """All of its drives or none."""
        chosen, starting = house.given(d), Starting(domain(d), domain(d))
        found = [self._rules.admit(self._facts(house, r), starting) for r in chosen]
        if not all(isinstance(each, self._rules.StartAdmission) for each in found):
            after = house.left(d) if house.guests[d - 1].how == "new" else house
            if any(house.rooms[r].proved for r in chosen):
                return f"domain {d} does not start while a case has its slot's lock", after
            return f"{REFUSED} domain {d} on {_list(chosen)}", after
        before = rooms.book_of(house)
        book = self._rules.consume(before, found, starting, rooms.now(house, later=True), "")
        after = rooms.written_down(house, book).guest(d, "let in")
        used = [each.address for each in book.used_allowances]
        for r in chosen:
            after = _by_word(house, after, d, r, used.count(address(r)))
        return f"the gate lets domain {d} start on {_list(chosen)}", after

    def _facts(self, house: Rooms, r: int) -> SlotFacts:
        """What the gate sees of a slot whose drive no guest has now."""
        room, slots = house.rooms[r], len(house.rooms)
        entry, case, counters = entry_of(room, r), CaseSeen(), None
        if entry.ticket is not None:
            paper, counters = entry.ticket.ticket, entry.ticket.counters
            standing = CaseStanding.ERASED
            case = CaseSeen(standing, paper.order_id, paper.generation, paper.identity)
        who = rooms.identity(room.drive, slots)
        drive = DriveSeen("nvme", who, counters, SanitizeState.NEVER)
        locked = "a case" if room.proved else ""
        return SlotFacts(address(r), entry, drive, case, papers.incarnation(True), locked=locked)

    # Erases

    def _erase(self, house: Rooms, r: int) -> Steps:
        """The control plane may be wrong about who has a slot: the host must not."""
        room = house.rooms[r]
        how = house.guests[room.has - 1].how if room.has else ""
        if rooms.offered(room, r) or how == "new":
            return  # it would be clean, with a ticket, once more
        if not room.proved:
            if any(r in house.named(d) for d in range(1, len(house.guests) + 1)):
                return
            if "attach" in self.config.kinds:
                yield f"a case of slot {r} sees that no file names it", house.room(r, proved=True)
                return
        domains = {
            domain(d): "/etc/libvirt/qemu"
            for d, guest in enumerate(house.guests, 1)
            if guest.how not in ("", "new", "let in")
        }
        running = {
            domain(d): frozenset(map(address, house.named(d)))
            for d, guest in enumerate(house.guests, 1)
            if guest.how in ("on", "coming back")
        }
        now = rooms.now(house, later=all(each.how != "let in" for each in house.guests))
        book, who = rooms.book_of(house), rooms.identity(room.drive, len(house.rooms))
        found = self._revocation.revoke(
            book, NewErase(address(r), who, ""), HostSeen(now, domains, running)
        )
        if isinstance(found, self._revocation.StillOwned):
            _goes_on(house, r)
            if room.proved:
                yield f"slot {r} is in use", house.room(r, proved=False)
            return
        if room.has:
            raise Slip(f"drive {r} is erased, which domain {room.has} has, that is {how}")
        after = rooms.written_down(house, found.book)
        if entry_of(after.rooms[r], r).allowance is not None:
            raise Slip(f"a person's word for a start on slot {r} outlives the erase of its drive")
        each = list(after.rooms)
        each[r] = rooms.erased(each[r], r, len(each))
        yield f"slot {r} is erased, and its ticket taken in", after._replace(rooms=tuple(each))

    # Misfortunes

    def _misfortunes(self, house: Rooms) -> Steps:
        kinds = self.config.kinds
        if "reboot" in kinds:
            yield "the host loses its power", rooms.rebooted(house)
        for d, guest in enumerate(house.guests, 1):
            if "by hand" in kinds and guest.how == "":
                free = [
                    r
                    for r, room in enumerate(house.rooms)
                    if not room.has and not rooms.offered(room, r)
                ]
                yield from self._claims(house, d, free, ", which somebody freed by hand")
            if "attach" in kinds and guest.how == "on":
                for r, room in enumerate(house.rooms):
                    if not room.has and room.data == d:
                        after = house.room(r, has=d)
                        yield f"somebody attaches drive {r} to domain {d} again, by hand", after
        for r, room in enumerate(house.rooms):
            if "word" in kinds and not room.proved:
                for whom in (ANYBODY, *range(1, len(house.guests) + 1)):
                    name = "anybody" if whom == ANYBODY else f"domain {whom}"
                    yield f"a person allows {name} slot {r} once", rooms.allowed(house, r, whom)
            off = not room.has or house.guests[room.has - 1].how == "off"
            if "unseen" in kinds and off and room.drive < len(house.rooms):
                after = house.room(r, drive=room.drive + len(house.rooms), data=GONE)
                yield f"slot {r} gets another drive while nobody looks", after


def _list(chosen: tuple[int, ...]) -> str:
    return " and ".join(map(str, chosen))


def _wrote(house: Rooms, d: int, chosen: tuple[int, ...]) -> Rooms:
    """A guest that runs writes to its drives."""
    for r in chosen:
        data = house.rooms[r].data
        if data not in (CLEAN, d):
            raise Slip(f"domain {d} runs with drive {r}, which has the data of domain {data}")
        house = house.room(r, data=d)
    return house


def _by_word(house: Rooms, after: Rooms, d: int, r: int, used: int) -> Rooms:
    """Promise 1 with people in it: what a word is for, and how long it stands, from outside.

    It lets the one that it names start on what is there, once, and stands in the account. With
    anybody else's start it is over, but for one by which the drive's owner only comes back.
    """
    room, owner = house.rooms[r], entry_of(house.rooms[r], r).owner
    meant = room.word in (ANYBODY, d)
    strange = room.data not in (CLEAN, d)
    if strange and not meant:
        raise Slip(f"domain {d} is let in on slot {r} with the data of domain {room.data}")
    if used and not meant:
        raise Slip(f"the account has a person's word for domain {d}, which nobody gave")
    if strange and not used:
        raise Slip(f"a person's word let domain {d} in on slot {r}, and no account has it")
    comes_back = owner is not None and owner.domain == domain(d)
    stands = room.word if not meant and comes_back else 0
    if (entry_of(after.rooms[r], r).allowance is not None) != bool(stands):
        what = "is lost before" if stands else "is left over after"
        raise Slip(f"a person's word {what} the start on slot {r} that it was for")
    return after.room(r, word=stands, data=d if strange else room.data)


def _goes_on(house: Rooms, r: int) -> None:
    """A guest that was started without a drive does not keep it for as long as it lives."""
    owner = entry_of(house.rooms[r], r).owner
    for d, guest in enumerate(house.guests, 1):
        if owner is None or owner.domain != domain(d) or guest.how != "on":
            continue
        chosen = house.given(d)
        begun = [entry_of(house.rooms[other], other).owner for other in chosen]
        here = any(
            each is not None and each.let_in is not None and each.let_in.boot == BOOT
            for each in begun
        )
        if here and r not in chosen:
            raise Slip(f"drive {r} is in use for ever: domain {d} goes on without it")
