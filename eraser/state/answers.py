"""What each slot's newest order was answered with, beside the order. Loads no cryptography.

A case's own files may be lost when it has ended: somebody makes room on the disk, a file system is
repaired, a backup is put back in part. The order would be one that was never carried out, and its
drive may be somebody's by then.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from eraser.errors import BadInputError
from eraser.protocol import codec
from eraser.state.case_dir import CaseEnding
from eraser.state.hostcard import order_file
from eraser.state.journal import remove_durably, replace_durably


@dataclass(frozen=True)
class OrderAnswer:
    """The broker took the report of this look of the order, which ended so."""

    order_id: str
    look: int
    ending: CaseEnding


def answer_file(state_dir: Path, address: str) -> Path:
    """Where it stands. Not ``.json``: an earlier release would take it for an order's copy."""
    return order_file(state_dir, address).with_suffix(".answered")


def answer(state_dir: Path, address: str, order_id: str) -> OrderAnswer | None:
    """What this order of the slot was answered with; None where it is in flight.

    Raises ``BadInputError`` and ``OSError`` where nobody can tell.
    """
    path = answer_file(state_dir, address)
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        found = codec.load_part(OrderAnswer, raw, str(path))
    except BadInputError as error:
        raise BadInputError(
            f"{error}; it says which order was answered already: hold and release the slot, for a "
            "newer order does not ask it"
        ) from error
    # Of the slot's order before this one, which nobody asks for any more.
    return found if found.order_id == order_id else None


def note(state_dir: Path, address: str, found: OrderAnswer) -> None:
    """Keeps it, durably. Raises ``OSError``."""
    replace_durably(answer_file(state_dir, address), codec.canonical(found))


def forget_damaged(state_dir: Path, address: str) -> None:
    """Removes it where it cannot be understood, and nothing else. Raises ``OSError``."""
    try:
        answer(state_dir, address, "")
    except BadInputError:
        forget(state_dir, address)


def forget(state_dir: Path, address: str) -> None:
    """The slot's order is in flight, durably. Raises ``OSError``."""
    remove_durably(answer_file(state_dir, address))
