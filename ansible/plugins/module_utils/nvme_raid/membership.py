"""Whether drives are one array, all of it and nothing else, by what their superblocks say."""

from __future__ import annotations

from collections.abc import Sequence

from . import obstacles
from .errors import Refusal
from .model import Drive, Member, Wish

_RAID0 = 0


def mixed(wish: Wish, ours: Sequence[Drive], others: Sequence[Drive]) -> Refusal:
    """What to say where some drives are members of our array and the others are free."""
    members = [drive.member for drive in ours if drive.member is not None]
    rest = ", ".join(drive.title for drive in ours)
    blank = ", ".join(drive.title for drive in others)
    if len({member.uuid for member in members}) == 1 and _whole(members):
        more = "1 drive is" if len(others) == 1 else f"{len(others)} drives are"
        return Refusal(
            (
                f"expected {wish.drives} drives of the array {wish.name}, found that the array "
                f"{wish.name} is whole ({rest}), and {more} more than it has: {blank}; an array is "
                f"not made larger: ask for {len(ours)} drives, these by only, or give an array of "
                f"the others another name",
            )
        )
    anew = obstacles.emptying("each remaining member")
    return Refusal(
        (
            f"expected all drives of the array {wish.name}, found only {rest}: {blank} hold "
            f"nothing; without the missing members it cannot be read; to make it anew {anew} and "
            f"call this again",
        )
    )


def consistent(wish: Wish, drives: list[Drive]) -> list[Member]:
    """The members, in one array as it is wanted. Raises :class:`Refusal`."""
    members = [drive.member for drive in drives if drive.member is not None]
    if len({member.uuid for member in members}) > 1:
        raise Refusal(
            tuple(
                f"expected one array {wish.name}: {drive.title} belongs to UUID {member.uuid}"
                for drive, member in zip(drives, members)
            )
        )
    first = members[0]
    wrong = []
    if not _whole(members):
        places = ", ".join(f"{drive.path} place {m.role}" for drive, m in zip(drives, members))
        wrong.append(
            f"expected the {first.devices} members of {obstacles.described(first)}, found {places}"
        )
    if first.level != _RAID0:
        wrong.append(f"expected {wish.name} to be RAID 0, found RAID {first.level}")
    if first.chunk != wish.chunk:
        wrong.append(
            f"expected {wish.name} to have chunks of {wish.chunk // 1024} KiB, found "
            f"{first.chunk // 1024} KiB; ask for that, or remove the array by hand"
        )
    if wrong:
        raise Refusal(tuple(wrong))
    return members


def _whole(members: Sequence[Member]) -> bool:
    """Whether all members of one array are there, each once."""
    places = sorted(member.role for member in members)
    return places == list(range(len(members))) and {m.devices for m in members} == {len(members)}
