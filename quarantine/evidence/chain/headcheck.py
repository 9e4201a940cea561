"""Heads that were kept against the chain that is shown today. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from eraser.protocol.transport.signing import PublicKey
from quarantine.errors import BadInputError
from quarantine.evidence.chain import head
from quarantine.evidence.chain.head import Head
from quarantine.evidence.checks import clocks


@dataclass(frozen=True)
class Issued:
    """What a head needs of a certificate."""

    position: int
    issued_at: str
    set_back: bool = False
    """It says that our clock was, since the one before it: no time of before is held against it."""


HeadFile = tuple[str, "bytes | BadInputError"]
"""A head's name and bytes, or why its file could not be read."""


def findings(
    files: Sequence[HeadFile], chain: Mapping[str, Issued], keys: Sequence[PublicKey]
) -> Iterator[tuple[str, str]]:
    """Names and problems. ``files`` of one record, by their names; ``chain`` by digest.

    A head whose own signature does not hold is told, and proves nothing.
    """
    at = {place.position: place for place in chain.values()}
    known, last = {head.digest(raw) for _name, raw in files if isinstance(raw, bytes)}, ""
    for name, raw in files:
        if isinstance(raw, BadInputError):
            yield name, f"not readable ({raw})"
            continue
        try:
            said = head.read(raw, keys, name)
        except BadInputError as error:
            yield name, f"forged or altered ({error})"
            continue
        # The first one given is not asked for its own predecessor: whoever kept heads may have
        # begun late. Among those after it a missing one shows.
        if last and said.previous not in known:
            yield name, f"the head before it, {said.previous or 'none'}, was not given: {last} is"
        last = name
        yield from ((name, line) for line in _against(said, chain, at))


def _against(said: Head, chain: Mapping[str, Issued], at: Mapping[int, Issued]) -> Iterator[str]:
    follower = at.get(said.position + 1)
    # The head was written between both, so on either side of that step: its time says nothing.
    timeless = follower is not None and follower.set_back
    if said.digest:
        place = chain.get(said.digest)
        if place is None:
            yield (
                f"expected the chain to contain certificate {said.digest}, its end on {said.day}, "
                "found no valid one of that name"
            )
            return
        if place.position != said.position:
            yield f"expected its certificate at position {said.position}, found {place.position}"
        if clocks.earlier(said.written_at, place.issued_at) and not timeless:
            yield f"written at {said.written_at}, before its certificate: {place.issued_at}"
    # The next certificate may claim no earlier time: the head says that it was not there yet.
    if follower is None or timeless:
        return
    if clocks.earlier(follower.issued_at, said.written_at):
        yield (
            f"the chain ended with {said.position} at {said.written_at}, yet {said.position + 1} "
            f"says that it was issued at {follower.issued_at}"
        )
