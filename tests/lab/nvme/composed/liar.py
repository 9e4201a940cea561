"""The nature of a composed drive: it keeps what it should erase, and hides it until it may show."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.lab.nvme.acts import Act, Kind, Reset
from tests.lab.nvme.composed import mask
from tests.lab.nvme.composed.description import Description, Lie
from tests.lab.nvme.composed.kept import SECTOR, WHOLE, Choice, Past, What
from tests.lab.nvme.composed.manners import Manners
from tests.lab.nvme.composed.mask import Mask
from tests.lab.nvme.composed.watch import Scene, Watch
from tests.lab.nvme.drive import Drive
from tests.lab.nvme.fill import CHUNK, Fill
from tests.lab.nvme.media import Media
from tests.lab.nvme.nature import Method, Nature, Store, Truth
from tests.lab.nvme.profile import METADATA_SHIFT
from tests.lab.nvme.spec import PAGE, Command, Fid, NvmOp, Reply

_CUSTODY = frozenset({Reset.FUNCTION, Reset.BUS, Reset.POWER})
"""Resets that come with another host: what was asked before them was another's."""

_FUA = 1 << 30
_MS_PER_YEAR = 365.2425 * 86400 * 1000


class Lying:
    """One lie of a drive: what it kept, and what it listens to."""

    def __init__(self, lie: Lie, path: Path, size: int, scene: Scene) -> None:
        self.lie = lie
        self.held = Mask(path, size)
        self.watch = Watch(lie.trigger, scene)
        self.opened = False
        self._scene = scene

    def copy(self) -> Lying:
        """One that listens on its own and looks at the same mask."""
        other = object.__new__(Lying)
        other.lie, other.held, other.opened = self.lie, self.held, self.opened
        other.watch, other._scene = self.watch.copy(self._scene), self._scene
        return other

    def begin(self) -> None:
        """An erase ended: what counts begins now."""
        self.watch.begin()
        self.opened = False

    def hear(self, act: Act) -> None:
        """The host did something."""
        self.watch.hear(act)
        if self.lie.stays and not self.opened:
            self.opened = self.watch.held(act)

    def shows(self, act: Act, page: int) -> bool:
        """Whether a read of this page gets what was kept."""
        return self.opened or self.watch.holds(act, page)


class Composed(Nature):
    """What makes a drive the one that a description tells of."""

    plain = False

    def __init__(self, description: Description, clock: Callable[[], float]) -> None:
        self.description = description
        self._clock = clock
        self._manners = Manners(description.odd, clock)
        self._past = Past()
        self._lies: list[Lying] = []
        self._act = Act(Kind.LEFT)
        self._read: set[int] = set()
        self._written: set[int] = set()
        self._listening = False

    def joins(self, drive: Drive) -> None:
        """The drive is there."""
        profile = drive.profile
        largest = PAGE << profile.mdts if profile.mdts else 1 << 20
        self._drive = drive
        self._scene = Scene(largest, profile.size, self._clock)
        sizes = {
            Store.DATA: profile.size,
            Store.METADATA: profile.size,
            Store.BUFFER: profile.buffer.size if profile.buffer else 0,
        }
        for number, lie in enumerate(self.description.lies):
            path = drive.backing.with_name(f"{drive.backing.name}.kept{number}")
            self._lies.append(Lying(lie, path, sizes[lie.kept.store], self._scene))
        # A killed server is a power cut: what the drive kept is in its masks, what it was asked
        # is forgotten.
        self._listening = drive.state.erases > 0

    def close(self) -> None:
        """The files are about to be closed."""
        for one in self._lies:
            one.held.close()

    # What the host does

    def hears(self, act: Act) -> None:
        """The host did something."""
        before, self._act = self._act, act
        self._manners.hears(act)
        if act.kind is Kind.RESET and act.reset in _CUSTODY:
            self._read.clear()
            self._written.clear()
        self._remember(act)
        # I/O tells no time, and there is far more of it than of anything else.
        if before.kind is not Kind.IO:
            self._hear_year()
        if self._listening:
            for one in self._lies:
                one.hear(act)

    def _hear_year(self) -> None:
        """What the host last said that the time is."""
        raw = bytes.fromhex(self._drive.features.current_data(Fid.TIMESTAMP))
        milliseconds = int.from_bytes(raw[:6], "little")
        self._scene.year = max(self._scene.year, 1970 + int(milliseconds / _MS_PER_YEAR))

    def answers(self, act: Act) -> Reply | None:
        """What a command gets in place of being executed."""
        return self._manners.answers(act)

    def _remember(self, act: Act) -> None:
        if not (act.reads or act.writes):
            return
        pages = range(act.start // CHUNK, -(-act.end // CHUNK))
        if act.writes:
            self._written.update(pages)
            fua = act.command is not None and bool(act.command.cdw12 & _FUA)
            self._past.wrote(act.start, act.end, fua=fua)
        else:
            self._read.update(pages)

    # Erasing

    def survives(self, method: Method) -> bool:
        """Whether anything outlives it."""
        return any(method in one.lie.survives for one in self._lies)

    def erases(self, method: Method, start: int, end: int, fill: Fill) -> bool:
        """Erase but for what is kept."""
        drive = self._drive
        liars: list[tuple[Lying, Choice]] = []
        for one in self._lies:
            if one.lie.kept.store is Store.BUFFER:
                continue
            if method not in one.lie.survives:
                one.held.clear(start, end)
            else:
                liars.append((one, Choice(one.lie.kept, drive.state, self._past)))

        def keep(offset: int) -> int:
            """Sectors of a page that stay; their lies are told."""
            page, stay = offset // CHUNK, 0
            for one, choice in liars:
                if one.lie.kept.store is Store.DATA:
                    one.held.add(page, choice.sectors(offset))
                    stay |= one.held[page]
            return stay

        drive.media.empty_except(start, end, fill, keep)
        if drive.metadata:
            keepers = [one for one, _ in liars if one.lie.kept.store is Store.METADATA]
            if keepers:
                self._put_aside(keepers, drive.metadata, start, end)
            else:
                drive.metadata.empty(start >> METADATA_SHIFT, end >> METADATA_SHIFT)
        return True

    def keeps_buffer(self) -> bool:
        """Whether the sanitize that is ending spares the CMB or PMR."""
        drive, kept = self._drive, False
        method = _SANITIZES[drive.state.sanitize.cdw10 & 7]
        for one in self._lies:
            if one.lie.kept.store is not Store.BUFFER or drive.buffer is None:
                continue
            if method in one.lie.survives:
                kept = True
                for start, end in list(drive.buffer.data(0, drive.buffer.size)):
                    for page in range(start // CHUNK, -(-end // CHUNK)):
                        one.held.add(page, WHOLE)
            else:
                one.held.clear(0, drive.buffer.size)
        return kept

    def erased(self, method: Method) -> None:
        """An erase ended with success: what no Format reaches is put aside too."""
        for one in self._lies:
            kept = one.lie.kept
            if method in one.lie.survives and kept.what in (What.UNALLOCATED, What.DETACHED):
                choice = Choice(kept, self._drive.state, self._past)
                for start, end in list(self._drive.media.data(0, self._drive.media.size)):
                    for offset in range(start // CHUNK * CHUNK, end, CHUNK):
                        one.held.add(offset // CHUNK, choice.sectors(offset))
            one.begin()
        self._scene.read, self._scene.written = set(self._read), set(self._written)
        self._listening = True

    def creates(self, start: int, end: int, fill: Fill) -> bool:
        """A new namespace is empty, but for what is hidden there."""
        drive = self._drive
        drive.media.empty_except(start, end, fill, self._hidden)
        if drive.metadata and not self._kept(Store.METADATA, start, end):
            drive.metadata.empty(start >> METADATA_SHIFT, end >> METADATA_SHIFT)
        return True

    def deallocates(self, start: int, end: int, fill: Fill) -> bool | None:
        """A deallocate drops nothing that is hidden; a lie may hide what was there."""
        hoards = [one for one in self._lies if one.lie.kept.what is What.DEALLOCATED]

        def keep(offset: int) -> int:
            """Sectors that stay."""
            for one in hoards:
                one.held.add(offset // CHUNK, WHOLE)
            return self._hidden(offset)

        return self._drive.media.empty_except(start, end, fill, keep)

    def written(self, store: Store, start: int, end: int) -> None:
        """The host put something of its own there."""
        for one in self._lies:
            if one.lie.kept.store is not store or not one.held.any(start, end):
                continue
            if store is Store.BUFFER and self._drive.buffer:
                # Of a sector the host may write a part: the rest goes on looking blank.
                first, last = start // SECTOR * SECTOR, -(-end // SECTOR) * SECTOR
                seen = self.shows(store, first, self._drive.buffer.read(first, last - first))
                self._drive.buffer.write_from(first, [memoryview(bytearray(seen))])
            one.held.clear(start, end)

    # Looking

    def shows(self, store: Store, start: int, content: bytes) -> bytes:
        """What the host gets to see."""
        lies = [one for one in self._lies if one.lie.kept.store is store]
        shift = METADATA_SHIFT if store is Store.METADATA else 0
        end = start + (len(content) << shift)
        if not any(one.held.any(start, end) for one in lies):
            return content
        seen = bytearray(content)
        media = self._media(store)
        for at, to in self._disguised(lies, self._act, start, end):
            blank = media.blank(at >> shift, to - at >> shift)
            seen[at - start >> shift : to - start >> shift] = blank
        return bytes(seen)

    def deallocated(self, start: int, end: int) -> bool:
        """Whether what it hides looks deallocated."""
        lies = [one for one in self._lies if one.lie.kept.store is Store.DATA]
        return any(
            part.fill.deallocated
            for at, to in self._disguised(lies, self._act, start, end)
            for part in self._drive.media.fills.between(at, to)
        )

    def progress(self, sprog: int) -> int:
        """SPROG of a running sanitize."""
        return self._manners.progress(sprog)

    def truth(self) -> Truth:
        """What is kept, and what of it a host would get that read every page once, upwards."""
        kept: dict[str, list[tuple[int, int]]] = {}
        shown: dict[str, list[tuple[int, int]]] = {}
        for store in Store:
            lies = [one.copy() for one in self._lies if one.lie.kept.store is store]
            held: dict[int, int] = {}
            for one in lies:
                for page, bits in one.held.pages():
                    held[page] = held.get(page, 0) | bits
            if not held:
                continue
            seen: list[int] = []
            for page, bits in sorted(held.items()):
                act = self._act if store is Store.BUFFER else _look(page)
                if store is not Store.BUFFER:
                    for one in lies:
                        one.hear(act)
                open_bits = sum(
                    1 << bit
                    for bit in range(8)
                    if any(one.held[page] >> bit & 1 and one.shows(act, page) for one in lies)
                )
                seen += mask.sectors(page, bits & open_bits)
            every = (s for page, bits in sorted(held.items()) for s in mask.sectors(page, bits))
            kept[store.value] = mask.ranges(every)
            shown[store.value] = mask.ranges(seen)
        return Truth(kept, shown)

    def _disguised(
        self, lies: list[Lying], act: Act, start: int, end: int
    ) -> list[tuple[int, int]]:
        """The ranges of [start, end) that a read does not get, though they are there."""
        hidden: list[int] = []
        for page in range(start // CHUNK, -(-end // CHUNK)):
            held = shown = 0
            for one in lies:
                bits = one.held[page]
                held |= bits
                if bits and self._listening and one.shows(act, page):
                    shown |= bits
            if held & ~shown:
                hidden += mask.sectors(page, held & ~shown)
        clipped = ((max(start, at), min(end, to)) for at, to in mask.ranges(hidden))
        return [(at, to) for at, to in clipped if at < to]

    def _media(self, store: Store) -> Media:
        drive = self._drive
        media = {Store.METADATA: drive.metadata, Store.BUFFER: drive.buffer}.get(store, drive.media)
        assert media is not None
        return media

    def _hidden(self, offset: int) -> int:
        """Sectors of a page of blocks that any lie keeps."""
        bits = 0
        for one in self._lies:
            if one.lie.kept.store is Store.DATA:
                bits |= one.held[offset // CHUNK]
        return bits

    def _kept(self, store: Store, start: int, end: int) -> bool:
        return any(one.lie.kept.store is store and one.held.any(start, end) for one in self._lies)

    def _put_aside(self, keepers: list[Lying], store: Media, start: int, end: int) -> None:
        """Mark what metadata there is; its unit in the mask is the block it belongs to."""
        for first, last in list(store.data(start >> METADATA_SHIFT, end >> METADATA_SHIFT)):
            for page in range(
                (first << METADATA_SHIFT) // CHUNK, -(-(last << METADATA_SHIFT) // CHUNK)
            ):
                if start <= page * CHUNK < end:
                    for one in keepers:
                        one.held.add(page, WHOLE)


_SANITIZES = {
    2: Method.SANITIZE_BLOCK,
    3: Method.SANITIZE_OVERWRITE,
    4: Method.SANITIZE_CRYPTO,
}
_READ = Command.parse(struct.pack("<B63x", NvmOp.READ))


def _look(page: int) -> Act:
    """A plain read of one page, as an auditor imagines it."""
    command = replace(_READ, cdw10=page * 8, cdw12=7)
    return Act(Kind.IO, command, 1, None, page * CHUNK, (page + 1) * CHUNK)
