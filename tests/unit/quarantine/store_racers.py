"""What each of several processes does to one database at the same time.

Forked from a server that has imported this and nothing else: nothing of the tests is in them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from typing import Any

from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.transport.signing import PublicKey
from quarantine.errors import ConflictError, IllegalTransitionError
from quarantine.record.store import Store
from quarantine.record.words.facts import NewCertificate, SlotChanges
from quarantine.record.words.states import Event

PROCESSES = 8
ROUNDS = 10


def slot(number: int) -> Slot:
    """A slot that nothing else uses."""
    return Slot("race", f"0000:{number:02x}:00.0")


def identity(serial: str) -> ControllerIdentity:
    """A controller with this serial."""
    return ControllerIdentity(0x1AF4, 0x10, 0x1AF4, 0x1100, serial, "Model", "nqn.2026-11.test:1")


def enrol(store: Store, place: Slot) -> None:
    """As ``released``, with a drive in it."""
    record = store.enrol(
        place, provider="rp", resource_class="RC", in_use=False, profile="p", policy="purge"
    )
    store.amend(record, SlotChanges(identity=identity(place.address)))


def run(work: Callable[[str, int], Any], url: str) -> list[Any]:
    """``work(url, number)`` in :data:`PROCESSES` new processes at once; their answers."""
    context = get_context("forkserver")
    # What is imported takes longer than the race: once is enough.
    context.set_forkserver_preload([__name__])
    with context.Pool(PROCESSES) as pool:
        return pool.starmap(work, [(url, number) for number in range(PROCESSES)], chunksize=1)


def count_up(url: str, number: int) -> int:
    """Adds 1 to slot 0's attempts, :data:`ROUNDS` times, each by compare-and-set with a note."""
    store = Store.open(url)
    lost = 0
    for turn in range(ROUNDS):
        while True:
            record = store.slot(slot(0))
            assert record is not None
            try:
                store.amend(
                    record,
                    SlotChanges(attempts=record.attempts + 1),
                    note=f"process {number} turn {turn}",
                )
                break
            except ConflictError:
                lost += 1
    store.close()
    return lost


def take_custody(url: str, number: int) -> Sequence[int]:
    """Tries to open a case on every slot; the numbers of those where it won."""
    store = Store.open(url)
    won = []
    for candidate in range(ROUNDS):
        record = store.slot(slot(candidate))
        assert record is not None
        try:
            store.transition(record, Event.CUSTODY_TAKEN, reason=f"process {number}")
            won.append(candidate)
        except (ConflictError, IllegalTransitionError):
            continue  # somebody else was quicker: that is the point
    store.close()
    return won


def certify(url: str, number: int) -> int:
    """Three cases of its own slot, each to its certificate on the common chain."""
    store = Store.open(url)
    record = store.slot(slot(number))
    assert record is not None
    for case in range(3):
        record = store.transition(record, Event.CUSTODY_TAKEN)
        order_id = f"order-{number:04d}-{case:08d}"
        record = store.transition(record, Event.ORDERED, changes=SlotChanges(order_id=order_id))
        while True:
            last = store.last_certificate()
            digest = hashlib.sha256(order_id.encode()).hexdigest()
            certificate = NewCertificate("token", digest, "" if last is None else last.digest)
            try:
                record = store.transition(record, Event.CERTIFIED, certificate=certificate)
                break
            except ConflictError:
                continue
        record = store.transition(record, Event.RETURNED)
        record = store.transition(record, Event.RELEASE_SEEN)
    store.close()
    return record.generation


def migrate(url: str, number: int) -> str:
    """Opens a database that may not exist yet, and makes its tables."""
    store = Store.open(url)
    revision = store.migrate()
    store.register_host(f"host{number}", PublicKey(bytes([number]) * 32), "incarnation-00000001")
    store.close()
    return revision
