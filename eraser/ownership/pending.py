"""Tickets that came to this host, verified, one file per slot: the newest."""

from __future__ import annotations

import logging
import re
from pathlib import Path

from eraser.errors import BadInputError
from eraser.ownership import store
from eraser.protocol import codec
from eraser.protocol.ticket import Ticket
from eraser.state.case_dir import is_there, names
from eraser.state.journal import alone, make_directory, replace_durably, sync_directory

LOG = logging.getLogger(__name__)


def _directory(state_dir: Path) -> Path:
    return store.directory(state_dir) / "tickets"


def _file(state_dir: Path, address: str) -> Path:
    return _directory(state_dir) / f"{codec.digest(address)[:32]}.json"


def put(state_dir: Path, ticket: Ticket) -> bool:
    """Keeps a ticket, durably, unless a newer one of its slot is there; whether it is kept now."""
    if not _directory(state_dir).is_dir():
        make_directory(_directory(state_dir))
    # A worker that is being replaced may take an older one meanwhile.
    with alone(_directory(state_dir)):
        known = get(state_dir, ticket.slot.address)
        # Messages may come late or twice: a higher generation is of a later custody of the slot.
        if known is not None and known.generation > ticket.generation:
            return False
        # The same ticket comes again until its receipt is seen: no write and no sync for that.
        if known != ticket:
            replace_durably(_file(state_dir, ticket.slot.address), codec.canonical(ticket))
        return True


def get(state_dir: Path, address: str) -> Ticket | None:
    """The slot's newest ticket; None where none came, or its file is damaged."""
    return _load(_file(state_dir, address))


def everything(state_dir: Path) -> tuple[Ticket, ...]:
    """The newest ticket of every slot. Raises ``OSError`` where they cannot be listed."""
    directory = _directory(state_dir)
    # Not one that is just being written, whose name begins with a dot.
    listed = (name for name in names(directory) if re.match(r"[0-9a-f].*\.json\Z", name))
    found = (_load(directory / name) for name in listed)
    return tuple(ticket for ticket in found if ticket is not None)


def forget(state_dir: Path) -> None:
    """Removes them all, durably. Raises ``OSError``."""
    directory = _directory(state_dir)
    if not is_there(directory):
        return
    for name in names(directory):
        (directory / name).unlink()
    sync_directory(directory)


def _load(path: Path) -> Ticket | None:
    try:
        return codec.load(Ticket, path.read_bytes(), str(path))
    except FileNotFoundError:
        return None
    except (BadInputError, OSError) as error:
        LOG.error("damaged: %s; the ticket comes again", error)
        return None
