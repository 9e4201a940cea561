"""From the namespaces that a tenant left to those of the profile: which commands. Without I/O.

Always decided from what is there now, so a run that was killed half way is followed by one that
does the rest. Numbers: NVM Express Base 2.0, 5.22 and 5.23 (Namespace Attachment, Management);
NVM Command Set 1.0, 5.8 (Namespace Management).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, replace

from eraser.protocol.profile import NVM_COMMAND_SET, NamespaceLayout

CREATE_BYTES = 4096
PLACEHOLDER_BYTES = 64 << 10
"""Drives round up to what they can give."""
MAX_PLACEHOLDERS = 32
"""Each is two commands; a profile with wider gaps was made by other means, and is a person's."""

_FORMAT_MEMBERS = frozenset(
    {"lba_format", "block_bytes", "metadata_bytes", "protection", "extended_metadata"}
)
"""What Format NVM changes. Sizes in blocks follow from it."""
_SIZE_MEMBERS = frozenset({"blocks", "capacity"})


class LayoutCommand(enum.StrEnum):
    """One kind of command."""

    DELETE = "delete"
    PLACE = "place"
    """Create a small namespace under a number that the profile does not have: a drive gives a new
    one the lowest number that is free. It is deleted again when the others stand."""
    CREATE = "create"
    ATTACH = "attach"
    REFORMAT = "reformat"
    """Format NVM with SES 000b: another LBA format. Never an erase, and never counted as one."""


@dataclass(frozen=True)
class LayoutStep:
    """One command. ``layout`` is what is to come of it; None for a namespace that is to go."""

    act: LayoutCommand
    nsid: int
    layout: NamespaceLayout | None = None


def layout_steps(
    wanted: tuple[NamespaceLayout, ...],
    active: tuple[NamespaceLayout, ...],
    detached: tuple[NamespaceLayout, ...],
    *,
    can_manage: bool,
    can_format: bool,
    tolerance: int = 0,
) -> tuple[LayoutStep, ...]:
    """In the order in which they are sent; empty where all is well, or where nothing can be done.
    What has up to ``tolerance`` bytes less than is wanted is well.

    What Format can set right is not deleted. Namespaces go first, because a new one may need
    their room. What a placeholder leaves is another run's to delete, as any that is not wanted.
    """
    expected = {namespace.nsid: namespace for namespace in wanted}
    found = {namespace.nsid: namespace for namespace in (*active, *detached)}
    loose = {namespace.nsid for namespace in detached}
    gone: list[LayoutStep] = []
    made: list[LayoutStep] = []
    mended: list[LayoutStep] = []
    # Ascending: a drive gives a new namespace the lowest free number.
    for nsid in sorted(expected.keys() | found.keys()):
        layout, other = expected.get(nsid), found.get(nsid)
        if layout is not None and other is not None:
            differs = frozenset(layout.differences(other, tolerance))
            if not differs or (can_format and _formats(layout, other, differs, can_manage)):
                if nsid in loose and can_manage:
                    # It is attached before it is formatted.
                    made.append(LayoutStep(LayoutCommand.ATTACH, nsid, layout))
                if differs:
                    mended.append(LayoutStep(LayoutCommand.REFORMAT, nsid, layout))
                continue
        # Without Namespace Management nothing else can be done; the profile's comparison names the
        # rest.
        if not can_manage:
            continue
        if other is not None:
            gone.append(LayoutStep(LayoutCommand.DELETE, nsid))
        if layout is not None:
            made.append(LayoutStep(LayoutCommand.CREATE, nsid, layout))
    # Deletions give room and numbers, creations need both, and a reformat needs what stands.
    return (*gone, *_in_place(made, frozenset(expected)), *mended)


def _in_place(made: list[LayoutStep], expected: frozenset[int]) -> Iterator[LayoutStep]:
    """With placeholders under the numbers that nobody wants, as far as a new one is above them."""
    # Numbers above the last new one need no placeholder.
    last = max((step.nsid for step in made if step.act is LayoutCommand.CREATE), default=0)
    gaps = last - sum(nsid <= last for nsid in expected)
    # With too many gaps no placeholder is sent; a namespace under a wrong number is then a
    # person's.
    below = 0 if gaps <= MAX_PLACEHOLDERS else last
    for step in made:
        if step.act is LayoutCommand.CREATE:
            for nsid in range(below + 1, step.nsid):
                if nsid not in expected:
                    yield LayoutStep(LayoutCommand.PLACE, nsid, placeholder(step.layout))
            below = max(below, step.nsid)
        yield step


def placeholder(layout: NamespaceLayout | None) -> NamespaceLayout | None:
    """The smallest namespace worth asking for, in the format of the one that it is for."""
    if layout is None:
        return None
    blocks = PLACEHOLDER_BYTES // layout.block_bytes
    # Of the NVM command set: any other may have sizes of its own, as whole zones are.
    return replace(
        layout, blocks=blocks, capacity=blocks, protection=0, command_set=NVM_COMMAND_SET
    )


def smaller(layout: NamespaceLayout, tolerance: int) -> NamespaceLayout | None:
    """The smallest that does in its place; None where none does."""
    less = tolerance // layout.block_bytes
    # A thinly provisioned one may have less than that altogether.
    if not less or (layout.capacity is not None and layout.capacity <= less):
        return None
    capacity = None if layout.capacity is None else layout.capacity - less
    return replace(layout, blocks=layout.blocks - less, capacity=capacity)


def _formats(
    layout: NamespaceLayout, other: NamespaceLayout, differs: frozenset[str], can_manage: bool
) -> bool:
    """Whether Format alone makes ``layout`` of ``other``.

    Only where they have the same bytes, or nothing better is offered.
    """
    # A difference in size alone, or in anything else, is not Format's to set right.
    if not differs & _FORMAT_MEMBERS or differs - _FORMAT_MEMBERS - _SIZE_MEMBERS:
        return False
    return not can_manage or layout.size == other.size


def create_data(layout: NamespaceLayout) -> bytes:
    """The data of Namespace Management, create (NVM 5.8, figure 91): NSZE, NCAP, FLBAS, DPS, NMIC.

    Raises ``ValueError`` for an LBA format that the field does not hold.
    """
    if not 0 <= layout.lba_format <= 63:
        raise ValueError(f"expected an LBA format of 0 to 63, found {layout.lba_format}")
    data = bytearray(CREATE_BYTES)
    data[0:8] = layout.blocks.to_bytes(8, "little")
    # A profile that is older than this fact means a fully provisioned namespace.
    capacity = layout.blocks if layout.capacity is None else layout.capacity
    data[8:16] = capacity.to_bytes(8, "little")
    data[26] = flbas(layout)
    data[29] = layout.protection
    data[30] = layout.sharing or 0
    return bytes(data)


def create_cdw11(layout: NamespaceLayout) -> int:
    """Namespace Management, create, command dword 11: CSI 31:24 (Base 2.0, 5.23)."""
    return layout.command_set << 24


def flbas(layout: NamespaceLayout) -> int:
    """FLBAS (NVM 4.1.5.1): index bits 3:0, metadata with the data in 4, index bits 5:4 in 6:5."""
    high = (layout.lba_format >> 4) << 5
    return layout.lba_format & 0xF | int(bool(layout.extended_metadata)) << 4 | high


def reformat_cdw10(layout: NamespaceLayout) -> int:
    """Format NVM command dword 10 with SES 000b, the LBA format and protection given explicitly."""
    return (
        layout.lba_format & 0xF
        | int(bool(layout.extended_metadata)) << 4
        | (layout.protection & 0b111) << 5
        | (layout.protection >> 3 & 1) << 8
        | (layout.lba_format >> 4) << 12
    )


def controller_list(controller_id: int) -> bytes:
    """A controller list of one (Base 2.0, 4.5.1), as Namespace Attachment takes it."""
    return ((1).to_bytes(2, "little") + controller_id.to_bytes(2, "little")).ljust(4096, b"\0")
