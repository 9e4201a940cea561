"""Certificates as a stranger checks them: in another language, from docs/certificates.md alone."""

from __future__ import annotations

import base64
import json
import os
import random
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eraser.wire import codec
from eraser.wire.identity import Slot
from eraser.wire.report import REPORT_TYPE
from quarantine.errors import BadInputError
from quarantine.evidence import certificate
from tests.lab.guest.payload import REPOSITORY
from tests.unit.quarantine.test_certificate import SAMPLES, earlier
from tests.unit.quarantine.test_inbox import Plane, plane
from tests.unit.quarantine.test_kept_testimony import leaves
from tests.unit.quarantine.testimony import IDENTITY

__all__ = ["plane"]

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
    rng, raw = random.Random(1), files[0].read_bytes()
    places = list(leaves(json.loads(raw)["certificate"]))
    directory = tmp_path / "altered"
    directory.mkdir()
    for number in range(1000):
        document = json.loads(raw)
        how = number % 3
        if how == 0:
            _alter(document["certificate"], rng.choice(places), rng)
        elif how == 1:
            header, _payload, signature = document["jws"].split(".")
            _alter(document["certificate"], rng.choice(places), rng)
            payload = codec.canonical(document["certificate"])
            encoded = base64.urlsafe_b64encode(payload).decode().rstrip("=")
            document["jws"] = f"{header}.{encoded}.{signature}"
        else:
            token = document["jws"]
            at = rng.randrange(len(token))
            document["jws"] = token[:at] + rng.choice("abcXYZ019-_.") + token[at + 1 :]
            if document["jws"] == token:
                document["jws"] = token[:-1]
        (directory / f"{number}.json").write_text(json.dumps(document))
    altered = sorted(directory.iterdir())
    _code, said = stranger("--key", key, *altered)
    assert said["results"] == []
    for path in altered:
        with pytest.raises(BadInputError):
            certificate.read_document(path.read_bytes(), [plane.controller.public], path.name)


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
