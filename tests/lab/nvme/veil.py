"""What reads show in place of the media until the controller is reset: caches, honest and not.

Nothing here is in the backing file, so an audit from outside sees through it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.lab.nvme.fill import CHUNK, Fill

if TYPE_CHECKING:
    from tests.lab.nvme.media import Media


class Veil:
    """Content over parts of the media, in whole chunks; called with the drive's lock held."""

    def __init__(self, media: Media) -> None:
        self._media = media
        self._chunks: dict[int, bytes] = {}
        self._hidden: list[tuple[int, int, Fill]] = []

    @property
    def lies_open(self) -> bool:
        """Whether there is nothing, and the media itself answers."""
        return not self._chunks and not self._hidden

    def lift(self) -> None:
        """A controller reset: from now on the media answers."""
        self._chunks.clear()
        self._hidden.clear()

    def hide(self, start: int, end: int, fill: Fill) -> None:
        """Show [start, end) as erased."""
        self._chunks = {at: held for at, held in self._chunks.items() if not start <= at < end}
        self._hidden.append((start, end, fill))

    def remember(self, start: int, end: int) -> None:
        """Go on showing what [start, end) holds now, whatever happens to it."""
        for first, last in list(self._media.data(start, end)):
            for at in range(first // CHUNK * CHUNK, last, CHUNK):
                self._chunks.setdefault(at, self.read(at, CHUNK))

    def write(self, start: int, content: bytes) -> None:
        """Show what was written, over whatever is shown there."""
        end = start + len(content)
        for at in range(start // CHUNK * CHUNK, end, CHUNK):
            held = bytearray(self.read(at, CHUNK))
            first, last = max(start, at), min(end, at + CHUNK)
            held[first - at : last - at] = content[first - start : last - start]
            self._chunks[at] = bytes(held)

    def read(self, start: int, length: int) -> bytes:
        """``length`` bytes from ``start``, as the host sees them."""
        seen, end = bytearray(self._media.read(start, length)), start + length
        for first, last, fill in self._hidden:
            at, to = max(first, start), min(last, end)
            if to > at:
                seen[at - start : to - start] = fill.bytes_at(at, to - at)
        for chunk in range(start // CHUNK * CHUNK, end, CHUNK):
            if (held := self._chunks.get(chunk)) is not None:
                at, to = max(chunk, start), min(chunk + CHUNK, end)
                seen[at - start : to - start] = held[at - chunk : to - chunk]
        return bytes(seen)
