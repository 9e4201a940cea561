"""The host's card, and the orders that it accepted, as they are on disk. Loads no cryptography."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eraser.errors import BadInputError
from eraser.protocol import codec
from eraser.protocol.hostcard import HostCard

if TYPE_CHECKING:
    from eraser.protocol.order import EraseOrder

CARD_FILE = "host.json"


def card(state_dir: Path) -> HostCard | None:
    """The card; None on a machine that was never made a host. Raises :class:`BadInputError`."""
    try:
        raw = (state_dir / CARD_FILE).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadInputError(
            f"expected to read {state_dir / CARD_FILE}, found {error.strerror}; run as root"
        ) from error
    return codec.load(HostCard, raw, CARD_FILE)


def incarnation(state_dir: Path) -> str:
    """The host's incarnation; empty where it has no card. Raises :class:`BadInputError`."""
    found = card(state_dir)
    return "" if found is None else found.incarnation


def order_file(state_dir: Path, address: str) -> Path:
    """Where the newest accepted order of a slot stands."""
    return state_dir / "orders" / f"{codec.digest(address)[:32]}.json"


@dataclass(frozen=True)
class OrderHead:
    """Which order it is, and which of its looks was asked for last."""

    order_id: str
    generation: int
    look: int = 0


def newest(state_dir: Path, address: str) -> OrderHead | None:
    """Which order was accepted last for the slot, done or not; without a look at the rest of it.

    Raises :class:`BadInputError` where its file is damaged.
    """
    raw = _order(state_dir, address)
    return None if raw is None else codec.load_part(OrderHead, raw, f"accepted order of {address}")


def accepted(state_dir: Path, address: str) -> EraseOrder | None:
    """The whole of that order. Raises :class:`BadInputError` where its file is damaged."""
    from eraser.protocol.order import (
        EraseOrder,  # policies and profiles: too much for the last gate
    )

    raw = _order(state_dir, address)
    return None if raw is None else codec.load(EraseOrder, raw, f"accepted order of {address}")


def _order(state_dir: Path, address: str) -> bytes | None:
    try:
        return order_file(state_dir, address).read_bytes()
    except FileNotFoundError:
        return None
