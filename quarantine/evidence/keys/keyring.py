"""Which key may have signed which place of the chain. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import overload

from eraser.protocol.transport.signing import PublicKey
from quarantine.evidence.keys.rotation import Rotation


@dataclass(frozen=True)
class Span:
    """A key, and the positions that it signs; None for no end."""

    key: PublicKey
    first: int = 1
    last: int | None = None

    def problem(self, position: int) -> str:
        """Why it did not sign that place; empty where it may have."""
        if position < self.first:
            return f"signed by key {self.key.thumbprint}, whose first is {self.first}"
        if self.last is not None and position > self.last:
            return f"signed by key {self.key.thumbprint}, whose last is {self.last}"
        return ""


@dataclass(frozen=True)
class Keyring(Sequence[PublicKey]):
    """The keys that are believed, each for its places of the chain."""

    spans: dict[str, Span]
    """By thumbprint."""
    ends: dict[int, str] = field(default_factory=dict)
    """Digests of the certificates after which a key followed another, by position."""
    problems: tuple[str, ...] = ()
    """What is wrong with the rotations that were given."""
    disputed: frozenset[str] = frozenset()
    """Thumbprints of believed keys that several rotations say were replaced: none is believed, so
    nobody knows their last place."""

    def __len__(self) -> int:
        return len(self.spans)

    @overload
    def __getitem__(self, index: int) -> PublicKey: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[PublicKey]: ...
    def __getitem__(self, index: int | slice) -> PublicKey | Sequence[PublicKey]:
        return [span.key for span in self.spans.values()][index]


def misplaced(keys: Sequence[PublicKey], key: PublicKey, position: int, digest: str) -> str:
    """Why ``key``, one of ``keys``, did not sign that certificate; empty where it may have."""
    # A plain list of keys knows no places: each of them may have signed any.
    if not isinstance(keys, Keyring):
        return ""
    named = keys.ends.get(position, digest)
    other = f"expected to be {named}, after which the key was replaced" if named != digest else ""
    # Its place first; then whether it is the certificate that the rotation names there.
    return keys.spans[key.thumbprint].problem(position) or other


def misplaced_head(keys: Sequence[PublicKey], key: PublicKey, position: int) -> str:
    """Why ``key`` did not say that the chain ended there: it signs that place, or was to sign the
    next one, which a key does that was replaced before it signed any."""
    if not isinstance(keys, Keyring):
        return ""
    span = keys.spans[key.thumbprint]
    wider = replace(span, first=span.first - 1)
    return span.problem(position) if wider.problem(position) else ""


def replaced(keys: Sequence[PublicKey], thumbprint: str) -> int | None:
    """The last position that a key signed which another one followed; None for any other key."""
    return keys.spans[thumbprint].last if isinstance(keys, Keyring) else None


def disputed(keys: Sequence[PublicKey], thumbprint: str) -> bool:
    """Whether a key was replaced, and nobody knows after which position."""
    return isinstance(keys, Keyring) and thumbprint in keys.disputed


def problems(keys: Sequence[PublicKey]) -> tuple[str, ...]:
    """What is wrong with the rotations that were given."""
    return keys.problems if isinstance(keys, Keyring) else ()


def ends(keys: Sequence[PublicKey]) -> dict[int, str]:
    """The certificates that rotations name, by position."""
    return keys.ends if isinstance(keys, Keyring) else {}


def ring(trusted: Sequence[PublicKey], rotations: Sequence[Rotation] = ()) -> Keyring:
    """The trusted keys, those that they followed, and those that follow them.

    What a newer key says of the chain binds the older one, so it is walked backwards first. A
    rotation that was signed with a stolen old key is a second one from the same key: it is not
    believed where the true one leads to a trusted key, and neither is where none does.
    """
    # The same file given twice is no rival of itself.
    each = [found for n, found in enumerate(rotations) if found not in rotations[:n]]
    made = _Making({key.thumbprint: Span(key) for key in trusted}, each)
    # Each step drops a rotation, so this ends. Backwards first, each time: see above.
    while made.walk(backwards=True) or made.walk(backwards=False):
        pass
    made.problems += (
        f"the rotation from key {found.old_key.thumbprint} to {found.new_key.thumbprint} leads to "
        "no key that is believed"
        for found in made.left
    )
    # One that was followed all the same, backwards from a newer key, has its last place.
    unknown = frozenset(each for each in made.disputed if made.spans[each].last is None)
    return Keyring(made.spans, made.ends, tuple(made.problems), unknown)


@dataclass
class _Making:
    spans: dict[str, Span]
    left: list[Rotation]
    ends: dict[int, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    disputed: set[str] = field(default_factory=set)

    def walk(self, *, backwards: bool) -> bool:
        """One step along a rotation; False where none leads from a key that is believed."""
        for found in self.left:
            old, new = found.old_key.thumbprint, found.new_key.thumbprint
            if (new if backwards else old) not in self.spans:
                continue
            # Those that start, or end, with the key that is believed: one of them can be true.
            rivals = [
                other
                for other in self.left
                if (other.new == found.new if backwards else other.old == found.old)
            ]
            self.left = [other for other in self.left if other not in rivals]
            if len(rivals) > 1:
                self.problems.append(
                    f"{len(rivals)} rotations {'to' if backwards else 'from'} key "
                    f"{new if backwards else old}: none of them is believed"
                )
                if not backwards:
                    self.disputed.add(old)
            else:
                self._take(found, old, new)
            return True
        return False

    def _take(self, found: Rotation, old: str, new: str) -> None:
        before = self.spans.get(old, Span(found.old_key))
        after = self.spans.get(new, Span(found.new_key))
        # A key is followed once and follows once, and no place has two ends. It may be replaced
        # before it has signed anything: then it ends just before its first place.
        agrees = self.ends.get(found.position, found.digest) == found.digest
        if (
            not agrees
            or before.last is not None
            or after.first > 1
            or found.position < before.first - 1
        ):
            self.problems.append(
                f"the rotation from key {old} to {new} after position {found.position} does not "
                "fit the others: it is not believed"
            )
            return
        self.spans[old] = replace(before, last=found.position)
        self.spans[new] = replace(after, first=found.position + 1)
        self.ends[found.position] = found.digest
