"""Operations: what skins call. Threads share a plane, and each call has its own connections."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

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
from quarantine.record.words.facts import SlotChanges
from quarantine.record.words.states import State
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
        assert len(slots.find(plane, host="cmp1")) == len(SLOTS)
        retired = decisions.retire(plane, slot, reason="worn")
        return held.slot.state, retired.slot.state

    with ThreadPoolExecutor(len(SLOTS)) as pool:
        assert list(pool.map(work, SLOTS)) == [("held", "retired")] * len(SLOTS)
    assert {one.state for one in slots.find(plane)} == {State.RETIRED}
    assert [row.reason for row in slots.history(plane, SLOTS[3])][-2:] == [
        f"because of {SLOTS[3]}",
        "worn (no drive is known in the slot: none is given up)",
    ]


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
    names = "the drive that its host names there: serial S1" if given_up else "none is given up"
    assert done.slot.reason.startswith("smoke (")
    assert names in done.slot.reason
    store.close()


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
    slots.find(plane)
    decisions.hold(plane, SLOTS[0], reason="x")
    hosts.find(plane)
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
    assert slots.find(plane)[0].unsold == held.slot.unsold
