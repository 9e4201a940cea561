"""Certificates as a stranger checks them: in another language, from docs/certificates.md alone."""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eraser.protocol import codec
from eraser.protocol.identity import Slot
from eraser.protocol.report import REPORT_TYPE
from eraser.protocol.transport.signing import PublicKey
from quarantine.errors import BadInputError
from quarantine.evidence import certificate, testimony
from quarantine.evidence.keys import rotation
from quarantine.evidence.sheet import files as papers
from quarantine.evidence.testimony import TestimonyStanding
from tests.lab.guest.payload import REPOSITORY
from tests.unit.quarantine.evidence.test_certificate import SAMPLES, earlier, issue
from tests.unit.quarantine.evidence.test_kept_testimony import leaves
from tests.unit.quarantine.evidence.test_rotation import AT, CHAIN, FIRST, SECOND, THIEF, THIRD
from tests.unit.quarantine.service.inbound.plane import Plane, plane
from tests.unit.quarantine.testimony import IDENTITY

__all__ = ["plane"]

ENDS = (".order.jws", ".report.jws", ".host.jwk")
VERIFIER = REPOSITORY / "tests/verifier/verify.js"


def stranger(*argv: object) -> tuple[int, dict[str, Any]]:
    """The verifier's exit code and its answer."""
    done = subprocess.run(
        ["node", VERIFIER, *map(str, argv)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "NODE_PATH": "/usr/share/nodejs"},
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.fixture
def key(plane: Plane, tmp_path: Path) -> Path:
    """The controller's public key as a file."""
    path = tmp_path / "controller.jwk"
    path.write_text(json.dumps(plane.controller.public.jwk()))
    return path


@pytest.fixture
def files(plane: Plane) -> list[Path]:
    """Two certificates of the product, with their testimony, in the order of the chain."""
    plane.ordered()
    plane.inbox.report(plane.report())
    slot, identity = Slot("cmp1", "0000:02:00.0"), replace(IDENTITY, serial="PHLJ0000002")
    order = plane.ordered(slot, identity)
    report = replace(
        plane.answer(), slot=slot, identity=identity, order_id=order.order_id,
        nonce=order.nonce, generation=order.generation,
    )  # fmt: skip
    plane.inbox.report(plane.signed(report, REPORT_TYPE))
    found = sorted(
        plane.directory.glob("*.json"),
        key=lambda path: json.loads(path.read_bytes())["certificate"]["position"],
    )
    assert len(found) == 2
    return found


def test_a_chain_with_its_testimony(files: list[Path], key: Path) -> None:
    code, said = stranger("--key", key, *files, "--end", files[-1].stem)
    assert (code, said["problems"]) == (0, [])
    assert [(one["digest"], one["testimony"]) for one in said["results"]] == [
        (path.stem, "agrees") for path in files
    ]


def test_format_1_too() -> None:
    found, _key = earlier()
    code, said = stranger(
        "--key", SAMPLES / "controller.jwk", *(SAMPLES / name for name, _raw in found)
    )
    assert (code, said["problems"]) == (0, [])
    assert {one["testimony"] for one in said["results"]} == {"not given"}


def test_what_is_missing_or_another_s(files: list[Path], key: Path, plane: Plane) -> None:
    code, said = stranger("--key", key, files[1])
    assert code == 7
    assert any("expected position 1, found 2" in line for line in said["problems"])
    code, said = stranger("--key", key, *files, "--end", files[0].stem)
    assert (code, len(said["problems"])) == (7, 1)
    other = key.with_name("other.jwk")
    other.write_text(json.dumps(plane.host.public.jwk()))
    code, said = stranger("--key", other, files[0])
    assert (code, said["results"]) == (7, [])
    report = files[0].with_name(f"{files[0].stem}.report.jws")
    report.write_bytes(files[1].with_name(f"{files[1].stem}.report.jws").read_bytes())
    code, said = stranger("--key", key, *files)
    assert [line for line in said["problems"] if "another report than" in line]


def test_none_of_a_thousand_alterations_is_accepted(
    files: list[Path], key: Path, plane: Plane, tmp_path: Path
) -> None:
    """By the stranger, nor by the product: what was signed, or what stands beside it."""
    rng = random.Random(1)
    raw = files[0].read_bytes()
    beside = sorted(files[0].parent.glob(f"{files[0].stem}.*"))
    assert len(beside) == 5
    places = list(leaves(json.loads(raw)["certificate"]))
    altered: list[Path] = []
    for number in range(1000):
        directory = tmp_path / "altered" / f"{number:04}"
        directory.mkdir(parents=True)
        for path in beside:
            shutil.copy(path, directory)
        paths = {end: directory / f"{files[0].stem}{end}" for end in ENDS}
        document = directory / files[0].name
        how = number % 5
        if how < 3:
            document.write_text(json.dumps(_altered(json.loads(raw), places, how, rng)))
        elif how == 3:
            path = rng.choice((paths[".order.jws"], paths[".report.jws"]))
            path.write_text(_bent(path.read_text(), rng))
        else:
            jwk = json.loads(paths[".host.jwk"].read_text())
            jwk["x"] = _bent(jwk["x"], rng)
            paths[".host.jwk"].write_text(json.dumps(jwk))
        altered.append(document)
    _code, said = stranger("--key", key, *altered)
    assert said["results"] == []
    refused = {line.partition(".json: ")[0] for line in said["problems"]}
    assert {str(path.with_suffix("")) for path in altered} <= refused
    keys = [plane.controller.public]
    for path in altered:
        assert not _accepted(path, keys), path
    assert _accepted(files[0], keys)


def _accepted(path: Path, keys: list[PublicKey]) -> bool:
    """By the product, with the testimony beside it."""
    try:
        signed = certificate.read_document(path.read_bytes(), keys, path.name)
        given = papers.testimony_beside(path, signed.digest)
    except BadInputError:
        return False
    assert given is not None
    return testimony.weigh(signed.certificate, given, keys).standing is TestimonyStanding.AGREES


def _altered(
    document: dict[str, Any], places: list[tuple[str | int, ...]], how: int, rng: random.Random
) -> dict[str, Any]:
    """For readers, as signed, or the token's bytes."""
    if how == 0:
        _alter(document["certificate"], rng.choice(places), rng)
    elif how == 1:
        header, _payload, signature = document["jws"].split(".")
        _alter(document["certificate"], rng.choice(places), rng)
        payload = codec.canonical(document["certificate"])
        encoded = base64.urlsafe_b64encode(payload).decode().rstrip("=")
        document["jws"] = f"{header}.{encoded}.{signature}"
    else:
        document["jws"] = _bent(document["jws"], rng)
    return document


def _bent(text: str, rng: random.Random) -> str:
    """With one character another one, gone, or one more."""
    at, new = rng.randrange(len(text)), rng.choice("abcXYZ019-_.")
    kept = text[at + 1 :] if rng.random() < 0.8 else text[at:]
    bent = text[:at] + ("" if rng.random() < 0.1 else new) + kept
    return bent if bent != text else text[:-1]


def test_keys_that_followed_each_other(tmp_path: Path) -> None:
    """One that is trusted leads to all, each for its places; a stolen one to nothing."""

    def written(name: str, raw: bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(raw)
        return path

    links = [written(f"{one.digest}.json", certificate.document(one)) for one in CHAIN]
    turns = [
        written(f"{n}.rotation.jws", rotation.make(at.certificate.position, at.digest, old, new,
                                                   AT).encode())
        for n, at, old, new in ((2, CHAIN[1], FIRST, SECOND), (4, CHAIN[3], SECOND, THIRD))
    ]  # fmt: skip
    follow = ("--rotation", turns[1], "--rotation", turns[0])
    trusted = [
        written(f"{n}.jwk", json.dumps(key.public.jwk()).encode())
        for n, key in enumerate((FIRST, SECOND, THIRD))
    ]
    for key in trusted:
        code, said = stranger("--key", key, *follow, *links)
        assert (code, said["problems"]) == (0, []), key
    # The first key signs what comes after its last, and then its own past anew.
    late = issue(CHAIN[3].link, key=FIRST)
    forged = written(f"{late.digest}.json", certificate.document(late))
    _code, said = stranger("--key", trusted[2], *follow, *links[:4], forged)
    assert any("does not sign this place" in line for line in said["problems"])
    other = replace(CHAIN[0].certificate, issued_at="2026-11-20T13:00:00Z")
    past = certificate.sign(other, FIRST)
    anew = [past, issue(past.link, key=FIRST)]
    paths = [written(f"{one.digest}.json", certificate.document(one)) for one in anew]
    _code, said = stranger("--key", trusted[2], *follow, *paths)
    assert any("where the key was replaced" in line for line in said["problems"])
    # And it names an heir of its own.
    heir = rotation.make(1, CHAIN[0].digest, FIRST, THIEF, AT)
    code, said = stranger(
        "--key", trusted[0], *follow, "--rotation", written("x.jws", heir.encode()), *links[:2]
    )
    assert code == 7
    assert any("is not believed" in line for line in said["problems"])


def test_one_place_of_the_chain_has_one_end(tmp_path: Path) -> None:
    """A thief of two keys writes the last place of the first one anew, with a rotation there."""

    def written(name: str, raw: bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(raw)
        return path

    true = CHAIN[1]
    forged = certificate.sign(replace(true.certificate, residues=("x",)), FIRST)
    third = written("third.jwk", json.dumps(THIRD.public.jwk()).encode())
    turns = {
        name: written(name, rotation.make(2, at, old, new, AT).encode())
        for name, at, old, new in (
            ("true", true.digest, FIRST, SECOND),
            ("theirs", forged.digest, FIRST, SECOND),
            ("newer", true.digest, SECOND, THIRD),
        )
    }
    links = [written(f"{one.digest}.json", certificate.document(one)) for one in CHAIN[:2]]
    other = written(f"{forged.digest}.json", certificate.document(forged))
    ours = ("--rotation", turns["true"], "--rotation", turns["newer"])
    code, said = stranger("--key", third, *ours, *links)
    assert (code, said["problems"]) == (0, [])
    _code, said = stranger("--key", third, *ours, links[0], other)
    assert any("does not sign this place" in line for line in said["problems"])
    theirs = ("--rotation", turns["theirs"], "--rotation", turns["newer"])
    _code, said = stranger("--key", third, *theirs, links[0], other)
    assert any("is not believed" in line for line in said["problems"])
    assert any(f"expected certificate {true.digest}" in line for line in said["problems"])


def _alter(value: Any, path: tuple[str | int, ...], rng: random.Random) -> None:
    for name in path[:-1]:
        value = value[name]
    held = value[path[-1]]
    if isinstance(held, bool) or held is None:
        value[path[-1]] = not held
    elif isinstance(held, int | float):
        value[path[-1]] = held + rng.choice((1, -1, 1000))
    else:
        value[path[-1]] = held[:-1] if held and rng.random() < 0.5 else f"{held}x"
