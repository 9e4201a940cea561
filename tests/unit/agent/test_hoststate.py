"""A host takes orders for itself, as it is now, newest first."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from eraser.agent import hoststate
from eraser.agent.hoststate import (
    CONTROLLER_FILE,
    KEY_FILE,
    TICKETS_FILE,
    HostState,
    OrderRefusedError,
    keygen,
)
from eraser.errors import BadInputError
from eraser.ownership import pending
from eraser.protocol import codec
from eraser.protocol.identity import Slot
from eraser.protocol.order import ORDER_TYPE, EraseOrder
from eraser.protocol.report import REPORT_TYPE
from eraser.protocol.ticket import Ticket
from eraser.protocol.transport.signing import PrivateKey
from eraser.protocol.verdict import Outcome, Verdict
from eraser.state import answers
from eraser.state.answers import OrderAnswer
from eraser.state.case_dir import CaseEnding
from eraser.state.hostcard import CARD_FILE, OrderHead, order_file
from tests.unit.ownership.parts import TICKET
from tests.unit.protocol.test_codec import ORDER

CONTROLLER = PrivateKey.generate()


@pytest.fixture
def state(tmp_path: Path) -> HostState:
    keygen(tmp_path / "s", "compute-1")
    (tmp_path / "s" / CONTROLLER_FILE).write_bytes(codec.canonical(CONTROLLER.public.jwk()))
    return HostState(tmp_path / "s")


def order(state: HostState, **changes: object) -> EraseOrder:
    return dataclasses.replace(ORDER, incarnation=state.card.incarnation, **changes)  # type: ignore[arg-type]


def token(order: EraseOrder, key: PrivateKey = CONTROLLER, typ: str = ORDER_TYPE) -> str:
    return key.sign(codec.canonical(order), typ)


def test_an_order_is_remembered_across_restarts(state: HostState) -> None:
    given = order(state)
    assert state.accept(token(given)) == given
    assert HostState(state.directory).accepted(given.slot.address) == given
    assert HostState(state.directory).orders() == (given,)


def test_the_same_order_twice_is_one(state: HostState) -> None:
    given = order(state)
    state.accept(token(given))
    assert state.accept(token(given)) == given


def test_of_one_case_the_newest_look_counts(state: HostState) -> None:
    first, second = order(state, look=1), order(state, look=2)
    for given, kept in ((first, first), (second, second), (first, second), (second, second)):
        assert state.accept(token(given)) == kept
        assert HostState(state.directory).orders() == (kept,)


def test_an_order_that_a_newer_release_took_keeps_no_later_one_away(state: HostState) -> None:
    """The host was set back; its order names what this release does not know."""
    taken = state.accept(token(order(state, generation=3)))
    path = order_file(state.directory, taken.slot.address)
    path.write_bytes(codec.canonical(json.loads(path.read_bytes()) | {"later": 1}))
    assert state.orders() == ()
    for generation in (2, 3):
        with pytest.raises(OrderRefusedError, match="a generation above 3"):
            state.accept(token(order(state, generation=generation, order_id="4" * 32)))
    newer = state.accept(token(order(state, generation=4, order_id="5" * 32)))
    assert state.orders() == (newer,)


def test_a_newer_generation_replaces_the_older(state: HostState) -> None:
    state.accept(token(order(state)))
    newer = order(state, generation=2, order_id="3" * 32)
    assert state.accept(token(newer)) == newer
    assert state.orders() == (newer,)


class Slower(HostState):
    """Another worker acts between its look at what is known and its writing."""

    def meet(self, act: Callable[[], object]) -> None:
        self.other = threading.Thread(target=act)

    def _known(self, address: str) -> EraseOrder | OrderHead | None:
        found = super()._known(address)
        self.other.start()
        self.other.join(0.2)
        return found


def test_two_workers_keep_the_newest(state: HostState) -> None:
    """The one that is being replaced still takes what it was sent."""
    slower = Slower(state.directory)
    newer = order(state, generation=order(state).generation + 1)
    slower.meet(lambda: state.accept(token(newer)))
    slower.accept(token(order(state)))
    slower.other.join()
    assert state.orders() == (newer,)


def test_two_workers_keep_the_newest_ticket(
    state: HostState, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = dataclasses.replace(TICKET, slot=order(state).slot)
    newer = dataclasses.replace(older, generation=older.generation + 1)
    other = threading.Thread(target=pending.put, args=(state.directory, newer))
    get = pending.get

    def slower(directory: Path, address: str) -> Ticket | None:
        found = get(directory, address)
        if threading.current_thread() is not other:
            monkeypatch.setattr(pending, "get", get)
            other.start()
            other.join(0.2)
        return found

    monkeypatch.setattr(pending, "get", slower)
    assert pending.put(state.directory, older)
    other.join()
    assert pending.get(state.directory, older.slot.address) == newer


def test_two_workers_use_no_number_twice(state: HostState, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two hellos with one number the control plane hears one."""
    found: list[int] = []
    other = threading.Thread(target=lambda: found.append(state.next_sequence("hello")))
    replace = hoststate.replace_durably

    def slower(path: Path, data: bytes) -> None:
        if threading.current_thread() is not other:
            other.start()
            other.join(0.2)
        replace(path, data)

    monkeypatch.setattr(hoststate, "replace_durably", slower)
    found.append(state.next_sequence("hello"))
    other.join()
    assert sorted(found) == [1, 2]


def test_orders_that_are_not_ours_are_refused(state: HostState) -> None:
    state.accept(token(order(state, generation=5)))
    slot = dataclasses.replace(ORDER.slot, host="compute-2")
    refused = [
        token(order(state, generation=6), key=PrivateKey.generate()),
        token(order(state, generation=6), typ=REPORT_TYPE),
        token(order(state, generation=6, slot=slot)),
        token(dataclasses.replace(order(state, generation=6), incarnation="9" * 32)),
        token(order(state, generation=5, order_id="4" * 32)),
        token(order(state, generation=4)),
        CONTROLLER.sign(b"{}", ORDER_TYPE),
        "rubbish",
    ]
    for wrong in refused:
        with pytest.raises(OrderRefusedError):
            state.accept(wrong)
    assert [known.generation for known in state.orders()] == [5]


def test_a_damaged_order_stops_no_other_slot(state: HostState) -> None:
    good = order(state)
    slot = dataclasses.replace(ORDER.slot, address="0000:7f:00.0")
    bad = order(state, slot=slot)
    state.accept(token(good))
    before = set((state.directory / "orders").iterdir())
    state.accept(token(bad))
    (damaged,) = set((state.directory / "orders").iterdir()) - before
    damaged.write_bytes(b'{"order_id": "of another release"}')
    assert state.orders() == (good,)
    with pytest.raises(OrderRefusedError, match="accepted order of 0000:7f"):
        state.accept(token(order(state, slot=slot, generation=9)))
    damaged.unlink()
    assert state.accept(token(bad)) == bad


def test_where_the_file_of_an_order_was_removed_no_case_is_repeated_that_has_a_ticket(
    state: HostState,
) -> None:
    taken = state.accept(token(order(state, generation=3)))
    ticket = dataclasses.replace(
        TICKET,
        slot=taken.slot,
        order_id=taken.order_id,
        generation=3,
        incarnation=taken.incarnation,
    )
    assert pending.put(state.directory, ticket)
    order_file(state.directory, taken.slot.address).unlink()
    older = order(state, generation=2, order_id="4" * 32)
    for given in (older, taken):
        with pytest.raises(OrderRefusedError, match="a generation above 3"):
            state.accept(token(given))
    newer = order(state, generation=4, order_id="5" * 32)
    assert state.accept(token(newer)) == newer


def test_a_newer_order_does_not_wait_for_a_damaged_mark_of_the_one_before(
    state: HostState,
) -> None:
    taken = state.accept(token(order(state)))
    mark = answers.answer_file(state.directory, taken.slot.address)
    mark.write_bytes(b"{")
    state.accept(token(taken))
    assert mark.exists()
    newer = state.accept(token(order(state, generation=2, order_id="3" * 32)))
    assert answers.answer(state.directory, newer.slot.address, newer.order_id) is None


def test_a_damaged_mark_keeps_no_newer_order_that_comes_twice_because_we_died(
    state: HostState, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = state.accept(token(order(state)))
    answers.answer_file(state.directory, taken.slot.address).write_bytes(b"{")
    newer = token(order(state, generation=2, order_id="3" * 32))

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as death:
        death.setattr(answers, "forget", dies)
        with pytest.raises(KeyboardInterrupt):
            state.accept(newer)
    again = state.accept(newer)
    assert answers.answer(state.directory, again.slot.address, again.order_id) is None


@pytest.mark.parametrize("damaged", [False, True])
def test_a_mark_stays_where_its_order_comes_again_and_the_ticket_is_of_an_older_one(
    state: HostState, damaged: bool
) -> None:
    """A person removed the order's file; nobody can tell that the order was not answered."""
    taken = state.accept(token(order(state, generation=5, look=1)))
    address = taken.slot.address
    ending = CaseEnding(Outcome.COMPLETED, Verdict.ERASED, True, taken.identity)
    mark = answers.answer_file(state.directory, address)
    answers.note(state.directory, address, OrderAnswer(taken.order_id, 1, ending))
    if damaged:
        mark.write_bytes(b"{")
    ticket = dataclasses.replace(
        TICKET, slot=taken.slot, order_id="7" * 32, generation=3, incarnation=taken.incarnation
    )
    assert pending.put(state.directory, ticket)
    order_file(state.directory, address).unlink()
    state.accept(token(taken))
    assert mark.exists()
    # The controller's greater look is another word.
    state.accept(token(dataclasses.replace(taken, look=2)))
    assert mark.exists() != damaged


def test_a_file_of_keys_that_cannot_be_looked_at_is_not_absent(
    state: HostState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or whoever signs orders would sign tickets, and a new card would void every order."""
    plain = os.stat, os.lstat

    def broken(number: int) -> Callable[..., os.stat_result]:
        def stat(path: Path | str, *rest: object, **options: object) -> os.stat_result:
            if os.path.basename(path) in (TICKETS_FILE, CARD_FILE):
                raise OSError(errno.EIO, "Input/output error", str(path))
            return plain[number](path, *rest, **options)  # type: ignore[arg-type]

        return stat

    monkeypatch.setattr(os, "stat", broken(0))
    monkeypatch.setattr(os, "lstat", broken(1))
    with pytest.raises(BadInputError, match="Input/output error"):
        HostState(state.directory)
    with pytest.raises(OSError, match="Input/output error"):
        keygen(state.directory, "compute-1")


def test_an_order_that_the_disk_does_not_give_stops_no_other_slot(
    state: HostState, caplog: pytest.LogCaptureFixture
) -> None:
    good = order(state)
    state.accept(token(good))
    broken = state.directory / "orders" / "0000-7f-00.0.json"
    broken.mkdir()
    for _ in range(3):
        assert state.orders() == (good,)
    assert list(state.unread) == [broken.name]
    assert caplog.text.count(broken.name) == 1, "not ten times a second"
    broken.rmdir()
    assert (state.orders(), state.unread) == ((good,), {})


def test_an_order_that_the_disk_does_not_give_for_once_is_no_other_releases(
    state: HostState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in flight: another one would be made, and the drive erased twice."""
    taken = state.accept(token(order(state)))
    read, failures = Path.read_bytes, [errno.EIO]

    def once(path: Path) -> bytes:
        if path == order_file(state.directory, taken.slot.address) and failures:
            raise OSError(failures.pop(), "Input/output error", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", once)
    assert not any(each.unread for each in state.newest())
    assert [(each.order_id, each.unread) for each in state.newest()] == [(taken.order_id, False)]


def test_a_second_keygen_would_void_every_order_and_is_refused(state: HostState) -> None:
    with pytest.raises(BadInputError, match="is a new incarnation"):
        keygen(state.directory, "compute-1")


def test_a_keygen_that_was_cut_off_before_its_card_is_made_good_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(*_words: object) -> bytes:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(hoststate.codec, "canonical", cut_off)
        with pytest.raises(OSError, match="No space"):
            keygen(tmp_path / "s", "h")
    key = (tmp_path / "s" / KEY_FILE).read_bytes()
    card = keygen(tmp_path / "s", "h")
    assert (tmp_path / "s" / KEY_FILE).read_bytes() == key
    assert card.key["x"] == PrivateKey.from_pem(key, "key").public.x
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / KEY_FILE).write_bytes(key[:40])
    with pytest.raises(BadInputError, match=KEY_FILE):
        keygen(tmp_path / "t", "h")


def test_two_states_are_two_incarnations(tmp_path: Path) -> None:
    assert keygen(tmp_path / "a", "h").incarnation != keygen(tmp_path / "b", "h").incarnation


def test_the_key_is_for_root_alone(state: HostState) -> None:
    assert os.stat(state.directory / KEY_FILE).st_mode & 0o077 == 0


def test_a_missing_or_foreign_file_is_named(state: HostState) -> None:
    (state.directory / CONTROLLER_FILE).unlink()
    with pytest.raises(BadInputError, match=r"controller\.jwk"):
        HostState(state.directory)


def test_a_key_that_is_not_the_cards_is_refused(state: HostState) -> None:
    (state.directory / KEY_FILE).write_bytes(PrivateKey.generate().pem())
    with pytest.raises(BadInputError, match="public half"):
        HostState(state.directory)


def test_sequences_only_grow(state: HostState) -> None:
    assert [state.next_sequence("hello") for _ in range(3)] == [1, 2, 3]
    assert HostState(state.directory).next_sequence("hello") == 4


@pytest.mark.parametrize("said", [b"", b"[]", b"1e999", b"null", b'"x"'])
def test_a_sequence_that_is_none_says_what_to_do(state: HostState, said: bytes) -> None:
    path = state.directory / "hello.sequence"
    path.write_bytes(said)
    with pytest.raises(BadInputError, match=r"hello\.sequence: expected a number.*date"):
        state.next_sequence("hello")
    assert path.read_bytes() == said


def test_a_copy_of_an_order_is_carried_out_by_nobody(state: HostState) -> None:
    """Somebody kept one beside the order's own file, before the slot had a newer order."""
    older = state.accept(token(order(state, generation=1)))
    own = order_file(state.directory, older.slot.address)
    copy = own.with_name(f"{own.stem}-1.json")
    copy.write_bytes(own.read_bytes())
    newer = state.accept(token(order(state, order_id="9" * 20, generation=2)))
    assert state.orders() == (newer,)
    assert list(state.unread) == [copy.name]


def test_orders_stand_in_the_order_in_which_they_came(state: HostState) -> None:
    came = []
    for second, n in enumerate((7, 1, 9, 3)):
        slot = Slot("compute-1", f"0000:0{n}:00.0")
        came.append(state.accept(token(order(state, order_id=f"{n}" * 20, slot=slot))))
        # Two files of one moment may have one time: the kernel counts in ticks.
        os.utime(order_file(state.directory, slot.address), (second, second))
    assert state.orders() == tuple(came)
    state.accept(token(came[0]))
    assert state.orders() == tuple(came), "the same order again is no newer one"
