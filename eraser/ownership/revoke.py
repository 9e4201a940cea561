"""A slot is taken from whoever had it: before an erase, and when its drive may have been away.

Loaded by every case, so it needs little: no looking at drives, none of the rules of a start.
"""

from __future__ import annotations

from pathlib import Path

from eraser.errors import EraserError, InUseError
from eraser.host import domains
from eraser.host.sysfs import Host, PciFunction
from eraser.ownership import atrest, revocation
from eraser.ownership import store as books
from eraser.ownership.cases import read_case
from eraser.ownership.facts import CaseStanding, HostSeen, NewErase, is_untouched
from eraser.ownership.model import SteadyTime
from eraser.protocol.identity import ControllerIdentity
from eraser.protocol.ticket import LastOwner
from eraser.state import hostcard


def vanished(state_dir: Path, address: str, reason: str, place: str = "") -> bool:
    """The slot's drive may have been away: its ticket is void, one that has not come yet as well,
    and its owner's record says so.

    Whoever works on the slot. ``place`` is where the drive is, if it vanished and came back: where
    its newest erase found it at that very place, it was away before that and not since. Returns
    whether there was a valid ticket. Raises ``EraserError`` and ``OSError``: the ticket may then
    still be valid, and the gate's own look at the drive is what is left.
    """
    standing = read_case(state_dir, address).standing
    # A machine without a gate gets no book by this; a report that waits for its ticket needs one.
    if not books.exists(state_dir) and standing is not CaseStanding.ERASED:
        return False
    with books.opened(state_dir) as book:
        before = book.book
        entry = before.entry(address)
        # The erase began after the vanish, so what it certifies is what is there.
        if place and entry.place == place:
            return False
        found = revocation.gone(before, address, standing, reason)
        # The drive of an owner adopted unread, at the place where it was, has not been away.
        if entry.owner is None or not is_untouched(entry.owner, place):
            found = atrest.left(found, address, reason)
        book.write(found)
    return before.entry(address).ticket != found.entry(address).ticket


def revoke(
    state_dir: Path,
    host: Host,
    address: str,
    identity: ControllerIdentity,
    *,
    by_hand: bool = False,
    again: bool = False,
) -> LastOwner | None:
    """Takes the slot from its owner and voids what would let another in, before an erase.

    Needs the slot's lock. Returns who had this drive last. An erase by hand brings no ticket, and
    an older one's that has not come yet says nothing of the drive any more. ``again``: an earlier
    run of the same case did this, and its journal says so. Raises
    :class:`InUseError` where the owner's domain still exists, and where the gate's book cannot say.
    """
    try:
        # No gate and no order was ever here: an erase by hand on a machine that is no host.
        if not books.exists(state_dir) and hostcard.newest(state_dir, address) is None:
            return None
        listed = domains.listed(host)
        known = {each.named.uuid: each.file for each in listed}
        # A domain may have several definitions; an address that any of them names counts as its
        # own.
        running = {
            one.named.uuid: frozenset[str]().union(
                *(each.named.addresses for each in listed if each.named.uuid == one.named.uuid)
            )
            for one in listed
            if one.running
        }
        with books.opened(state_dir) as book:
            seen = HostSeen(
                SteadyTime.now(host),
                known,
                running,
                {
                    entry.address: PciFunction(host, entry.address).place
                    for entry in book.book.entries
                    if entry.owner is not None and entry.owner.identity is None
                },
            )
            erase = NewErase(
                address,
                identity,
                host.clock.utc(),
                place=PciFunction(host, address).place,
                away="it was erased by hand since" if by_hand else "",
                again=again,
                by_hand=by_hand,
            )
            found = revocation.revoke(book.book, erase, seen)
            if isinstance(found, revocation.StillOwned):
                owner = found.owner
                if found.unread:
                    raise InUseError(
                        f"{address}: expected a drive that nobody owns, found that it may be the "
                        f"one of domain {owner.name!r} ({owner.domain}), which was adopted with a "
                        f"drive of this kind at {found.address} that nobody has read since: "
                        f"{found.found}; start the domain once, or remove it, or if its drive is "
                        "gone for good see 'nvme-eraser gate forget'; nothing is sent to the drive"
                    )
                moved = "" if found.address == address else f", which got it at {found.address}"
                raise InUseError(
                    f"{address}: expected a drive that nobody owns, found it owned by domain "
                    f"{owner.name!r} ({owner.domain}) since {owner.since}{moved}: {found.found}; "
                    "remove the domain first; nothing is sent to the drive"
                )
            book.write(found.book)
            return found.last_owner
    # InUseError is an EraserError, and its words must stay as they are.
    except InUseError:
        raise
    except EraserError as error:
        raise InUseError(f"{address}: cannot prove that nobody owns the drive: {error}") from error
