"""Where a slot's erase stands, from the files of orders and cases. Needs the slot's lock."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from eraser.errors import BadInputError
from eraser.ownership.facts import CaseSeen, CaseStanding
from eraser.protocol import codec
from eraser.protocol.identity import Slot
from eraser.protocol.verdict import Outcome, Verdict
from eraser.state import hostcard
from eraser.state.case_dir import CaseEnding, CasePlace, names
from eraser.state.hostcard import OrderHead


def read_case(state_dir: Path, address: str) -> CaseSeen:
    """The newest accepted order of the slot, or an erase by hand that has not ended.

    What cannot be read counts as open: it may be an erase that was interrupted.
    """
    try:
        order = hostcard.newest(state_dir, address)
        seen = CaseSeen()
        if order is not None:
            seen = _of_order(state_dir, address, order)
        # An open order keeps the slot closed already; an erase by hand is looked for only where it
        # matters.
        by_hand = "" if seen.standing is CaseStanding.OPEN else _by_hand(state_dir, address)
    except (BadInputError, OSError) as error:
        return CaseSeen(CaseStanding.OPEN, detail=str(error))
    if by_hand:
        return CaseSeen(CaseStanding.OPEN, seen.order_id, seen.generation, seen.identity, by_hand)
    return seen


def _of_order(state_dir: Path, address: str, order: OrderHead) -> CaseSeen:
    order_id, generation = order.order_id, order.generation
    ending = _ending(state_dir, address, order)
    if ending is None:
        return CaseSeen(CaseStanding.OPEN, order_id, generation, detail=f"order {order_id}")
    standing = CaseStanding.ENDED
    if ending.outcome is Outcome.IN_USE:
        standing = CaseStanding.IN_USE
    elif ending.outcome is Outcome.COMPLETED and ending.verdict is Verdict.ERASED and ending.fit:
        standing = CaseStanding.ERASED
    return CaseSeen(standing, order_id, generation, ending.identity)


def _ending(state_dir: Path, address: str, order: OrderHead) -> CaseEnding | None:
    """By its report; where that is lost, by what the order was answered with."""
    try:
        raw = CasePlace.of_order(state_dir, order.order_id).report_file.read_bytes()
    except FileNotFoundError:
        from eraser.state import answers  # seldom, and a start loads no more than it needs

        known = answers.answer(state_dir, address, order.order_id)
        # A greater look was asked for since: the case is to begin anew.
        return known.ending if known is not None and known.look >= order.look else None
    return codec.load_part(CaseEnding, raw, "report.json")


def _by_hand(state_dir: Path, address: str) -> str:
    """The directory of an interrupted stand-alone case of this slot; empty where there is none.

    Raises ``OSError`` where a case cannot be read that may be of this slot.
    """
    for name in names(state_dir / "cases"):
        place = CasePlace(state_dir, name)
        try:
            # Two looks for files decide it in most cases, without loading anything more.
            if not place.interrupted():
                continue
        except OSError:
            if _is_anothers(state_dir, name, address):
                continue
            raise
        from eraser.state.case_files import CaseFiles  # seldom, and much to load

        # Where its request cannot be read it was revoked before it began, which keeps guests away.
        with contextlib.suppress(BadInputError):
            request = CaseFiles(state_dir, name).request()
            if not request.order_id and request.slot.address == address:
                where = place.directory
                return f"begun by hand, in {where}; call 'nvme-eraser erase' again to end it"
    return ""


@dataclass(frozen=True)
class _Owner:
    """Whose case an order's is."""

    order_id: str
    slot: Slot


def _is_anothers(state_dir: Path, key: str, address: str) -> bool:
    """Whether the name of a case's directory, a digest, tells that it is of another slot."""
    for order_name in names(state_dir / "orders"):
        path = state_dir / "orders" / order_name
        with contextlib.suppress(BadInputError, OSError):
            order = codec.load_part(_Owner, path.read_bytes(), str(path))
            keys = (
                CasePlace.of_order(state_dir, order.order_id).key,
                CasePlace.of_slot(state_dir, order.slot).key,
            )
            if order.slot.address != address and key in keys:
                return True
    return False
