"""Composing: a seed says which drive. The same seed gives the same drive for ever."""

from __future__ import annotations

import random

from tests.lab.nvme.composed.description import (
    Abilities,
    Buffer,
    Description,
    Layout,
    Lie,
    formats,
    sanitizes,
)
from tests.lab.nvme.composed.kept import STRIPES, Kept, What
from tests.lab.nvme.composed.oddities import ODDITIES, Odd
from tests.lab.nvme.composed.triggers import JOINTS, Trigger
from tests.lab.nvme.composed.words import WORDS, Word
from tests.lab.nvme.nature import Method
from tests.lab.nvme.presetkind import Expected

_HONEST = 0.2
"""Part of the seeds that give an honest drive."""
_TWO_LIES = 0.2
_PLAIN = 0.04
"""Part of the lies that hide nothing."""
_UNDETECTABLE = 0.08
"""Part of the words that no eraser can be asked to find."""
_DEPTHS = (1, 1, 1, 1, 2, 2, 2, 3)

_METHODS = (
    tuple(Method),
    tuple(Method),
    tuple(Method)[:3],
    (Method.SANITIZE_CRYPTO, Method.FORMAT_CRYPTO, Method.FORMAT_USER),
    (Method.SANITIZE_BLOCK, Method.FORMAT_USER),
    (Method.SANITIZE_CRYPTO, Method.SANITIZE_BLOCK, Method.FORMAT_CRYPTO, Method.FORMAT_USER),
    (Method.FORMAT_CRYPTO, Method.FORMAT_USER),
    (Method.FORMAT_USER,),
)
"""What drives erase by that are sold, and those without Sanitize."""


def compose(seed: int) -> Description:
    """The drive of a seed."""
    rng = random.Random(f"composed drive {seed}")
    abilities = _abilities(rng)
    lies: list[Lie] = []
    if rng.random() >= _HONEST:
        for _ in range(2 if rng.random() < _TWO_LIES else 1):
            lies.append(_lie(rng, abilities))
    found = Description(f"seed {seed}", abilities, tuple(lies), ())
    found = Description(found.name, abilities, found.lies, _odd(rng, abilities, found.honest))
    found.check()
    return found


def _abilities(rng: random.Random) -> Abilities:
    layout = rng.choice((Layout.ONE, Layout.ONE, *Layout))
    methods = rng.choice(_METHODS)
    return Abilities(
        methods=methods,
        layout=layout,
        management=layout in (Layout.ROOMY, Layout.ASIDE) or rng.random() < 0.5,
        metadata=formats(methods) and rng.random() < 0.5,
        buffer=rng.choice((Buffer.NONE, Buffer.NONE, Buffer.CMB, Buffer.PMR)),
        subsystem_reset=rng.random() < 0.5,
        verify=rng.random() < 0.5,
    )


def _lie(rng: random.Random, able: Abilities) -> Lie:
    survives = tuple(m for m in able.methods if rng.random() < 0.75) or (rng.choice(able.methods),)
    kept = _kept(rng, able, survives)
    happens = kept.what is What.BUFFER
    trigger = Trigger()
    if rng.random() >= _PLAIN:
        trigger = _trigger(rng, able, rng.choice(_DEPTHS), happens=happens)
    return Lie(kept, survives, trigger, stays=trigger.needs_read and rng.random() < 0.3)


def _kept(rng: random.Random, able: Abilities, survives: tuple[Method, ...]) -> Kept:
    cannot = {
        What.METADATA: not able.metadata,
        What.BUFFER: able.buffer is Buffer.NONE or not sanitizes(survives),
        What.NAMESPACE: able.layout is not Layout.TWO,
        What.DETACHED: able.layout is not Layout.ASIDE,
        What.UNALLOCATED: not able.management,
    }
    what = rng.choice([one for one in What if not cannot.get(one, False)])
    if what is What.STRIPE:
        return Kept(what, rng.choice((2, 3, 7, 16, 61)), rng.choice(STRIPES))
    if what is What.SCATTERED:
        return Kept(what, rng.choice((2, 10, 100, 1000)))
    if what in (What.HEAD, What.TAIL):
        return Kept(what, unit=rng.choice((4096, 65536, 1 << 20)))
    if what is What.SECTORS:
        return Kept(what, rng.choice((2, 4, 8)))
    if what in (What.RECENT, What.OLD):
        return Kept(what, rng.choice((1, 8, 64, 1024)))
    return Kept(what)


def _trigger(rng: random.Random, able: Abilities, depth: int, *, happens: bool) -> Trigger:
    if depth > 1:
        joint = rng.choice(JOINTS)
        first = _trigger(rng, able, rng.randint(1, depth - 1), happens=happens)
        then = first
        while then == first:
            then = _trigger(rng, able, depth - 1, happens=happens)
        return Trigger(joint, parts=(first, then))
    hidden = rng.random() < _UNDETECTABLE
    words = [
        word
        for word in WORDS
        if bool(word.undetectable) == hidden and not (happens and word.of_read)
        if _choices(able, word)
    ]
    # A word with many choices is drawn more often, but not as often as it has choices.
    word = rng.choices(words, [len(word.choices) ** 0.5 for word in words])[0]
    choice = rng.choice(_choices(able, word))
    numbered = "{n}" in word.says[choice]
    return Trigger(word.name, choice, rng.choice(word.numbers) if numbered else 1)


def _choices(able: Abilities, word: Word) -> list[str]:
    return [one for one in word.choices if _can(able, word, one)]


def _can(able: Abilities, word: Word, choice: str) -> bool:
    """Whether a host can do it to a drive with these abilities."""
    needs = {
        ("reset", "subsystem"): able.subsystem_reset,
        ("command", "verify"): able.verify,
        ("path", "metadata"): able.metadata,
    }
    if word.name == "namespace":
        return able.management
    return needs.get((word.name, choice), True)


def _odd(rng: random.Random, able: Abilities, honest: bool) -> tuple[Odd, ...]:
    count = rng.choice((1, 1, 2, 3)) if honest else rng.choice((0, 0, 0, 1, 2))
    found: list[Odd] = []
    groups: set[str] = set()
    for oddity in rng.sample(ODDITIES, len(ODDITIES)):
        if len(found) == count:
            break
        clashes = oddity.group and oddity.group in groups
        # What is held in any case would hide whether the lie was found.
        spoils = not honest and oddity.expected is Expected.HELD
        unable = oddity.needs_sanitize and not sanitizes(able.methods)
        managed = oddity.name == "capacity-unreported" and able.management
        if clashes or spoils or unable or managed:
            continue
        groups.add(oddity.group)
        found.append(Odd(oddity.name, rng.choice(oddity.numbers)))
    return tuple(found)
