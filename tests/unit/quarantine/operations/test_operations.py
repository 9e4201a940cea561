"""Operations: what skins call. Threads share a plane, and each call has its own connections."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import threading
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import sqlalchemy as sa

from eraser.protocol import codec
from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.report import Hello, SeenDrive
from eraser.protocol.transport.signing import PrivateKey
from quarantine import operations
from quarantine.doors import utc_now
from quarantine.errors import BadInputError, IllegalTransitionError
from quarantine.operations import decisions, hosts, slots
from quarantine.operations.overview import capacity
from quarantine.operations.papers import keys, ledger
from quarantine.operations.plane import Plane
from quarantine.operations.setup import schema
from quarantine.record.store import Store
from quarantine.record.words.facts import NewCertificate, SlotChanges
from quarantine.record.words.states import Event, State
from quarantine.service.issue import drive_inventory
from tests.unit.quarantine.totals_suite import Site

MODULES = tuple(
    importlib.import_module(f"{operations.__name__}.{found.name}")
    for found in pkgutil.iter_modules(operations.__path__)
    if found.name not in ("names", "plane")  # what is said of an act, and what all act on
)
SLOTS = [Slot("cmp1", f"0000:{bus:02x}:00.0") for bus in range(1, 9)]


@pytest.fixture
def plane(tmp_path: Path) -> Plane:
    """A control plane with eight slots that wait for their erase."""
    conf = tmp_path / "nvme-quarantine.conf"
    conf.write_text(
        f"[database]\nurl = sqlite:///{tmp_path}/record.db\n"
        f"[evidence]\nsigning_key = {tmp_path}/controller.pem\n"
        f"certificates_dir = {tmp_path}/certificates\nheads_dir = {tmp_path}/heads\n"
        "[placement]\ncloud = no-such-cloud\n"
    )
    plane = Plane([conf])
    keys.create(plane)
    schema.upgrade(plane)
    store = Store.open(f"sqlite:///{tmp_path}/record.db")
    for slot in SLOTS:
        store.enrol(
            slot, provider=f"p{slot}", resource_class="C", in_use=False, profile="x", policy="purge"
        )
    store.close()
    return plane


def test_threads_share_a_plane(plane: Plane) -> None:
    """Every decision of each thread is there, and nobody sees a half of one."""
    gate = threading.Barrier(len(SLOTS))

    def work(slot: Slot) -> tuple[str, str]:
        gate.wait(20)
        held = decisions.hold(plane, slot, reason=f"because of {slot}")
        assert len(list(slots.find(plane, host="cmp1"))) == len(SLOTS)
        retired = decisions.retire(plane, slot, reason="worn")
        return held.slot.state, retired.slot.state

    with ThreadPoolExecutor(len(SLOTS)) as pool:
        assert list(pool.map(work, SLOTS)) == [("held", "retired")] * len(SLOTS)
    assert {one.state for one in slots.find(plane)} == {State.RETIRED}
    assert [row.reason for row in slots.history(plane, SLOTS[3])][-2:] == [
        f"because of {SLOTS[3]}",
        "worn (no drive is known in the slot: none is given up)",
    ]


def test_lists_are_read_some_at_a_time_and_whole(
    plane: Plane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"cmp{number}" for number in range(1, 6)]
    store = Store.open(f"sqlite:///{tmp_path}/record.db")
    for name in names:
        store.register_host(name, PrivateKey.generate().public, f"incarnation-of-{name}")
    store.close()
    read: list[int] = []
    for kind in ("every_slot", "every_host"):
        whole = getattr(Store, kind)

        def reads(store: Store, which: Collection[Any], whole: Any = whole) -> Any:
            read.append(len(which))
            return whole(store, which)

        monkeypatch.setattr(Store, kind, reads)
    monkeypatch.setattr(slots, "_SLOTS_AT_ONCE", 3)
    monkeypatch.setattr(hosts, "_HOSTS_AT_ONCE", 2)
    assert [one.slot for one in slots.find(plane)] == SLOTS
    assert [one.slot for one in slots.find(plane, limit=4)] == SLOTS[:4]
    assert [one.host for one in hosts.find(plane)] == names
    assert [one.host for one in hosts.find(plane, limit=3)] == names[:3]
    assert read == [3, 3, 2, 3, 1, 2, 2, 1, 2, 1]


HERE = ControllerIdentity(0x144D, 0xA824, 0x144D, 0xA801, "S1", "M", "nqn.2014.org:x")


@pytest.mark.parametrize(
    ("named", "elsewhere", "given_up"),
    [
        ([HERE], None, True),
        ([HERE, HERE], None, False),
        ([dataclasses.replace(HERE, serial=" ")], None, False),
        ([HERE], HERE, False),
        ([None], None, False),
        ([], None, False),
    ],
)
def test_the_drive_that_a_host_names_is_given_up_though_the_record_has_not_learned_it(
    plane: Plane,
    tmp_path: Path,
    named: list[ControllerIdentity | None],
    elsewhere: ControllerIdentity | None,
    given_up: bool,
) -> None:
    """Else it would be handed out once the slot is enrolled again."""
    store = Store.open(f"sqlite:///{tmp_path}/record.db")
    store.register_host("cmp1", PrivateKey.generate().public, "incarnation-of-cmp1")
    drives = tuple(
        SeenDrive(slot.address, "nvme", drive) for slot, drive in zip(SLOTS, named, strict=False)
    )
    hello = Hello("cmp1", "incarnation-of-cmp1", 1, "1", drives, ())
    store.host_seen("cmp1", 1, hello)
    other = store.slot(SLOTS[5])
    assert other is not None
    if elsewhere is not None:
        store.amend(other, SlotChanges(identity=elsewhere))
    done = decisions.retire(plane, SLOTS[0], reason="smoke")
    assert done.slot.state is State.RETIRED
    found = store.drive(HERE.digest)
    assert (found is not None and found.retired) is given_up
    is_named = f"the drive that its host names in {SLOTS[0]}: serial S1"
    names = is_named if given_up else "none is given up"
    assert done.slot.reason.startswith("smoke (")
    assert names in done.slot.reason
    store.close()


THERE = Slot("cmp2", "0000:01:00.0")
"""Of another host."""


@pytest.fixture
def two_hosts(plane: Plane, tmp_path: Path) -> Iterator[Store]:
    """The record of two hosts; a person holds the slot that is to be retired, so it learns no
    drive."""
    store = Store.open(f"sqlite:///{tmp_path}/record.db")
    for host in ("cmp1", "cmp2"):
        store.register_host(host, PrivateKey.generate().public, f"incarnation-of-{host}")
    decisions.hold(plane, SLOTS[0], reason="bad host")
    yield store
    store.close()


def names(store: Store, slot: Slot, drive: ControllerIdentity | None, number: int) -> None:
    """The slot's host says what is in it."""
    seen = SeenDrive(slot.address, "nvme", drive)
    hello = Hello(slot.host, f"incarnation-of-{slot.host}", number, "1", (seen,), ())
    store.host_seen(slot.host, number, hello)
    drive_inventory.take(store, hello, utc_now)


def retired(store: Store, plane: Plane) -> tuple[bool, str]:
    """Whether the drive that is named there was given up with the slot, and the slot's reason."""
    done = decisions.retire(plane, SLOTS[0], reason="bad host")
    assert done.slot.state is State.RETIRED
    found = store.drive(HERE.digest)
    return found is not None and found.retired, done.slot.reason


@pytest.mark.parametrize(
    "said", [(THERE, SLOTS[0]), (SLOTS[0], THERE), (SLOTS[0], THERE, SLOTS[0])]
)
def test_no_host_has_another_ones_drive_given_up_by_naming_it(
    plane: Plane, two_hosts: Store, said: tuple[Slot, ...]
) -> None:
    """A rooted one does. The other's slot was in use when it was enrolled, so no slot expects the
    drive: the record learns it when its server lets go of it."""
    two_hosts.enrol(
        THERE, provider="p", resource_class="C", in_use=True, profile="x", policy="purge"
    )
    for number, slot in enumerate(said, 1):
        names(two_hosts, slot, HERE, number)
    given_up, reason = retired(two_hosts, plane)
    assert not given_up
    assert reason.startswith(
        "bad host (expected a drive that is in this slot alone, found serial S1, which is also "
        f"named in {THERE}: none is given up; "
    )
    honest = two_hosts.slot(THERE)
    assert honest is not None
    two_hosts.transition(honest, Event.RELEASE_SEEN, reason="its server is gone")
    names(two_hosts, THERE, HERE, 9)
    honest = two_hosts.slot(THERE)
    assert honest is not None
    assert (honest.state, honest.identity) == (State.RELEASED, HERE)


def was_seen(store: Store) -> None:
    names(store, SLOTS[0], HERE, 1)
    names(store, THERE, HERE, 1)
    names(store, THERE, None, 2)


def was_used(store: Store) -> None:
    store.note_drive(HERE, THERE, dirty=True, reason="served there")
    names(store, SLOTS[0], HERE, 1)


def was_certified(store: Store) -> None:
    """And the other host's slot has another drive since."""
    store.note_drive(HERE, SLOTS[0], dirty=True, reason="served here")
    slot = {"provider": "p", "resource_class": "C", "profile": "x", "policy": "purge"}
    record = store.enrol(THERE, in_use=False, **slot)
    record = store.amend(record, SlotChanges(identity=HERE))
    record = store.transition(record, Event.CUSTODY_TAKEN)
    record = store.transition(record, Event.ORDERED, changes=SlotChanges(order_id="order"))
    record = store.transition(record, Event.CERTIFIED, certificate=NewCertificate("t", "t", ""))
    store.amend(record, SlotChanges(identity=None))
    names(store, SLOTS[0], HERE, 1)


@pytest.mark.parametrize("past", [was_seen, was_used, was_certified])
def test_a_drive_that_another_host_had_is_given_up_on_no_word_of_this_one(
    plane: Plane, two_hosts: Store, past: Callable[[Store], None]
) -> None:
    past(two_hosts)
    given_up, reason = retired(two_hosts, plane)
    assert not given_up
    assert f"which was in {THERE}: none is given up" in reason


def test_a_drive_that_moved_to_this_host_is_given_up_once_the_record_has_it(
    plane: Plane, two_hosts: Store
) -> None:
    """As the reason tells a person."""
    was_used(two_hosts)
    _given_up, reason = retired(two_hosts, plane)
    assert reason.endswith("enrol the slot anew, and retire it when its record has that drive)")
    slot = {"provider": "p", "resource_class": "C", "profile": "x", "policy": "purge"}
    two_hosts.enrol(SLOTS[0], in_use=False, **slot)
    names(two_hosts, SLOTS[0], HERE, 2)
    assert retired(two_hosts, plane) == (True, "bad host")


def test_a_drive_that_moved_within_its_host_is_given_up(plane: Plane, two_hosts: Store) -> None:
    names(two_hosts, Slot("cmp1", "0000:20:00.0"), HERE, 1)
    names(two_hosts, SLOTS[0], HERE, 2)
    assert retired(two_hosts, plane)[0]


def test_a_drive_that_was_given_up_before_keeps_its_reason(plane: Plane, two_hosts: Store) -> None:
    slot = {"provider": "p", "resource_class": "C", "profile": "x", "policy": "purge"}
    record = two_hosts.amend(
        two_hosts.enrol(THERE, in_use=False, **slot), SlotChanges(identity=HERE)
    )
    two_hosts.transition(record, Event.RETIRED, reason="burned")
    names(two_hosts, SLOTS[0], HERE, 1)
    assert retired(two_hosts, plane) == (
        True,
        f"bad host (the drive that its host names in {SLOTS[0]} was given up before: serial S1)",
    )
    found = two_hosts.drive(HERE.digest)
    assert found is not None
    assert found.reason == "burned"


@pytest.mark.parametrize(
    "damage",
    ["UPDATE hosts SET hello = '{' WHERE name = 'cmp2'", "UPDATE drives SET identity = '{'"],
)
def test_where_the_record_cannot_tell_whose_a_drive_is_none_is_given_up(
    plane: Plane, two_hosts: Store, damage: str
) -> None:
    names(two_hosts, THERE, None, 1)
    names(two_hosts, SLOTS[0], HERE, 1)
    with two_hosts._engine.begin() as db:
        db.execute(sa.text(damage))
    reason = decisions.retire(plane, SLOTS[0], reason="bad host").slot.reason
    assert "(expected to read whose drive is named there, found " in reason
    assert ": none is given up; " in reason
    with two_hosts._engine.begin() as db:
        assert not db.execute(sa.text("SELECT retired FROM drives")).scalar_one()


def test_a_decision_is_taken_once(plane: Plane) -> None:
    """Of two people who retire a slot at one moment the second is told."""
    gate = threading.Barrier(2)

    def work(name: str) -> str:
        gate.wait(20)
        try:
            decisions.retire(plane, SLOTS[0], reason=name)
        except IllegalTransitionError as error:
            return str(error)
        except Exception as error:
            return type(error).__name__
        return "done"

    with ThreadPoolExecutor(2) as pool:
        said = sorted(pool.map(work, ("Ada", "Grace")))
    assert "done" in said
    assert said != ["done", "done"]
    assert len([r for r in slots.history(plane, SLOTS[0]) if r.event == "retired"]) == 1


def test_a_call_leaves_no_connection_open(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    open_now: list[Store] = []
    opened, closed = Store.open, Store.close

    def opens(url: str, **words: Any) -> Store:
        open_now.append(opened(url, **words))
        return open_now[-1]

    def closes(store: Store) -> None:
        open_now.remove(store)
        closed(store)

    monkeypatch.setattr(Store, "open", opens)
    monkeypatch.setattr(Store, "close", closes)
    list(slots.find(plane))
    decisions.hold(plane, SLOTS[0], reason="x")
    list(hosts.find(plane))
    schema.upgrade(plane)
    card = {"host": "cmp1", "incarnation": "x" * 16, "key": PrivateKey.generate().public.jwk()}
    hosts.register(plane, codec.canonical(card), "card")
    ledger.write_head(plane)
    with pytest.raises(IllegalTransitionError):
        decisions.release(plane, SLOTS[1], reason="x", new_drive=True)
    assert open_now == []


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_operations_are_typed_and_keep_nothing(module: ModuleType) -> None:
    """Whoever writes a skin finds arguments and a result with names, and no state to share."""
    for name, value in vars(module).items():
        if getattr(value, "__module__", "") != module.__name__ or name.startswith("_"):
            continue
        if inspect.isfunction(value):
            assert value.__annotations__.get("return") not in (None, "Any", "object"), name
        if dataclasses.is_dataclass(value):
            assert value.__dataclass_params__.frozen, name  # type: ignore[attr-defined]
    held = [n for n, v in vars(module).items() if isinstance(v, list | dict) and n[:2] != "__"]
    assert [n for n in held if not n.isupper()] == []


def test_capacity_by_flavor_and_by_host(plane: Plane) -> None:
    """From the record as it is: each host by itself, and what a model's own cases tell."""
    url = f"sqlite:///{plane.files[0].parent}/record.db"
    (everywhere, *_others) = capacity.show(plane)
    assert (everywhere.flavor, everywhere.host, everywhere.coming) == ("i1-45", "", len(SLOTS))
    assert everywhere.says == (
        "No drive is free. Nothing is heard of cmp1. 8 drives in quarantine for which there is no "
        "time. cmp1/0000:01:00.0 waits longest: The drive was let go and waits to be taken into "
        "quarantine; its host is not registered."
    )
    site = Site(Store.open(url), utc_now())
    site.store.register_host("cmp2", PrivateKey.generate().public, "incarnation-0001")
    site.store._clock = lambda: site.now
    for number in (1, 2):
        site.available(f"cmp2/0000:0{number}:00.0")
    site.now = utc_now()
    site.erasing("cmp2/0000:03:00.0")
    site.store.close()
    with pytest.raises(BadInputError, match=r"found C, CUSTOM_NVME_I1 enrolled"):
        capacity.show(plane)
    with pytest.raises(BadInputError, match="i1-45, i1-90, i1-180"):
        capacity.show(plane, flavor="i1-46")
    with pytest.raises(BadInputError, match="with enrolled slots"):
        capacity.show(plane, host="cmp3")
    small, pair, big = capacity.show(plane, host="cmp2")
    assert (small.sellable, pair.sellable, big.sellable, big.missing) == (2, 1, 0, 2)
    assert small.next_at is not None
    assert 0 < (small.next_at - utc_now()).total_seconds() <= 80
    plane.files[0].write_text(
        plane.files[0].read_text() + "[capacity]\nflavors = a:2:CUSTOM_NVME_I1, b:1:C\n"
    )
    found = capacity.show(plane, flavor="a")
    assert [(one.host, one.sellable) for one in found] == [("", 1), ("cmp2", 1)]


def test_a_slot_says_why_it_is_not_sold(plane: Plane) -> None:
    assert slots.show(plane, SLOTS[0]).unsold == (
        "The drive was let go and waits to be taken into quarantine; its host is not registered."
    )
    held = decisions.hold(plane, SLOTS[0], reason="smells")
    assert held.slot.unsold.startswith("Held (by-person): smells. To return it: ")
    assert next(slots.find(plane)).unsold == held.slot.unsold
