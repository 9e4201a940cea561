"""One signing key after another: who may have signed what, whoever has which key."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eraser.protocol import codec
from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.identity import Slot
from eraser.protocol.report import REPORT_TYPE
from eraser.protocol.transport.signing import PrivateKey, PublicKey
from quarantine import cli
from quarantine.errors import BadInputError, ConflictError, UnavailableError
from quarantine.evidence import certificate
from quarantine.evidence.certificate import Link, SignedCertificate
from quarantine.evidence.chain import head, ledger
from quarantine.evidence.chain.head import Head
from quarantine.evidence.keys import keyring, rotation
from quarantine.evidence.keys.rotation import Rotation
from quarantine.evidence.sheet import files
from tests.unit.quarantine.cli.test_cli import Cli, certified, conf, enrolled, ready, refused, run
from tests.unit.quarantine.evidence.test_certificate import issue
from tests.unit.quarantine.service.inbound.plane import Plane, plane
from tests.unit.quarantine.testimony import IDENTITY

__all__ = ["conf", "plane", "ready", "run"]

FIRST, SECOND, THIRD, THIEF = (PrivateKey.generate() for _ in range(4))
AT = "2026-11-24T03:00:00.000Z"


def signed_by(*keys: PrivateKey) -> list[SignedCertificate]:
    """A chain, a certificate by each."""
    links: list[SignedCertificate] = []
    for key in keys:
        links.append(issue(links[-1].link if links else Link(), key=key))
    return links


def turned(at: SignedCertificate | None, old: PrivateKey, new: PrivateKey) -> Rotation:
    """A rotation after a certificate, through its file."""
    position, digest = (0, "") if at is None else (at.certificate.position, at.digest)
    return rotation.read(rotation.make(position, digest, old, new, AT).encode(), "file")


CHAIN = signed_by(FIRST, FIRST, SECOND, SECOND, THIRD)
ONE, TWO = turned(CHAIN[1], FIRST, SECOND), turned(CHAIN[3], SECOND, THIRD)


def problems(
    links: list[SignedCertificate], trusted: list[PrivateKey], *rotations: Rotation
) -> list[str]:
    ring = keyring.ring([key.public for key in trusted], rotations)
    named = [(link.digest, certificate.document(link)) for link in links]
    return [str(found) for found in ledger.audit(named, ring).findings]


@pytest.mark.parametrize("order", [(ONE, TWO), (TWO, ONE)])
@pytest.mark.parametrize("trusted", [FIRST, SECOND, THIRD])
def test_one_key_leads_to_all_of_them(trusted: PrivateKey, order: tuple[Rotation, ...]) -> None:
    assert problems(CHAIN, [trusted], *order) == []
    ring = keyring.ring([trusted.public], order)
    spans = [(ring.spans[k.public.thumbprint].first, ring.spans[k.public.thumbprint].last)
             for k in (FIRST, SECOND, THIRD)]  # fmt: skip
    assert spans == [(1, 2), (3, 4), (5, None)]


def test_a_key_signs_nothing_beyond_its_last() -> None:
    late = [*CHAIN[:4], issue(CHAIN[3].link, key=FIRST)]
    (problem,) = problems(late, [THIRD], ONE, TWO)
    assert f"key {FIRST.public.thumbprint}, whose last is 2" in problem
    early = [issue(Link(), key=THIRD)]
    assert any("whose first is 5" in line for line in problems(early, [THIRD], ONE, TWO))


def test_a_stolen_old_key_writes_no_past() -> None:
    """Whoever has it signs all of its places anew; the newer key bears the true end of them."""
    forged = signed_by(FIRST, FIRST)
    other = replace(forged[0].certificate, issued_at="2026-11-20T13:00:00Z")
    one = certificate.sign(other, FIRST)
    two = issue(one.link, key=FIRST)
    found = problems([one, two], [THIRD], ONE, TWO)
    assert any(f"expected certificate {CHAIN[1].digest} at position 2" in line for line in found)


@pytest.mark.parametrize("order", [0, 1])
def test_a_stolen_old_key_names_no_heir_of_its_own(order: int) -> None:
    theirs = turned(CHAIN[0], FIRST, THIEF)
    given = [ONE, theirs] if order else [theirs, ONE]
    ring = keyring.ring([THIRD.public], [*given, TWO])
    assert THIEF.public.thumbprint not in ring.spans
    assert any("does not fit the others" in line or "leads to no key" in line or "none of them" in
               line for line in ring.problems)  # fmt: skip
    # Who knows the old key alone cannot tell which is true, and believes neither.
    blind = keyring.ring([FIRST.public], given)
    assert set(blind.spans) == {FIRST.public.thumbprint}
    assert blind.problems == (
        f"2 rotations from key {FIRST.public.thumbprint}: none of them is believed",
    )


def test_a_stolen_key_is_not_spelt_in_two_ways() -> None:
    """Its rotation would be no rival of the true one, and the first that is read would count."""
    old = {"kty": "OKP", "crv": "Ed25519", "x": FIRST.public.x, "kid": "another spelling"}
    said = codec.plain(turned(CHAIN[0], FIRST, THIEF)) | {"old": old}
    payload = codec.canonical(said)
    text = "\n".join(key.sign(payload, rotation.ROTATION_TYPE) for key in (FIRST, THIEF))
    with pytest.raises(BadInputError, match="kty, crv and x alone"):
        rotation.read(text.encode(), "file")


def test_rotations_after_one_place_name_one_certificate() -> None:
    """A key that signed nothing before the next one came: the newer one's word is not undone by
    whoever has both former ones."""
    true = turned(CHAIN[1], SECOND, THIRD)
    assert problems(CHAIN[:2], [THIRD], turned(CHAIN[1], FIRST, SECOND), true) == []
    anew = signed_by(FIRST)
    anew.append(certificate.sign(replace(CHAIN[1].certificate, residues=("x",),
                                         previous=anew[0].digest), FIRST))  # fmt: skip
    found = problems(anew, [THIRD], turned(anew[1], FIRST, SECOND), true)
    assert any("does not fit the others" in line for line in found)
    assert any(f"expected certificate {CHAIN[1].digest} at position 2" in line for line in found)


def test_rotations_after_one_place_are_files_of_their_own(tmp_path: Path) -> None:
    texts = [
        rotation.make(2, CHAIN[1].digest, old, new, AT)
        for old, new in ((FIRST, SECOND), (SECOND, THIRD))
    ]
    paths = files.write_rotations(tmp_path, texts)
    assert [path.read_text() for path in paths] == texts
    assert [path.name for path in paths] == [
        f"2.{key.public.thumbprint}.rotation.jws" for key in (SECOND, THIRD)
    ]


def test_the_certificate_after_which_a_key_was_replaced_is_the_named_one_by_itself_too() -> None:
    forged = certificate.sign(replace(CHAIN[1].certificate, residues=("x",)), FIRST)
    ring = keyring.ring([THIRD.public], [ONE, TWO])
    with pytest.raises(BadInputError, match=f"position 2 is expected to be {CHAIN[1].digest}"):
        certificate.verify(forged.token, ring, "x")


@pytest.mark.parametrize(
    ("key", "end", "words"),
    [(FIRST, 5, "whose last is 2"), (SECOND, 5, "whose last is 4"), (THIRD, 2, "whose first is 5"),
     (FIRST, 2, ""), (SECOND, 2, ""), (SECOND, 4, ""), (THIRD, 4, ""), (THIRD, 5, "")],
)  # fmt: skip
def test_a_head_is_of_the_key_that_signs_there(key: PrivateKey, end: int, words: str) -> None:
    """A new key may say where the chain ended before it signed anything."""
    said = Head(1, "2026-11-24", AT, end, CHAIN[end - 1].digest, "", "Example Cloud")
    ring = keyring.ring([THIRD.public], [ONE, TWO])
    named = [(link.digest, certificate.document(link)) for link in CHAIN[:end]]
    named += [(link.digest, certificate.document(link)) for link in CHAIN[end:4]]
    audit = ledger.audit(named, ring, heads=[("head", head.sign(said, key).encode())])
    found = [str(one) for one in audit.findings if "issued" not in one.problem]
    assert len(found) == bool(words), found
    assert all(words in line for line in found)


def test_a_head_may_be_of_a_key_that_was_replaced_before_it_signed_a_certificate() -> None:
    """A quiet weekend between two rotations, with a head at midnight."""
    links = signed_by(FIRST, FIRST, THIRD)
    one, two = turned(links[1], FIRST, SECOND), turned(links[1], SECOND, THIRD)
    ring = keyring.ring([THIRD.public], [one, two])
    said = Head(1, "2026-11-24", AT, 2, links[1].digest, "", "Example Cloud")
    assert head.read(head.sign(said, SECOND).encode(), ring, "head") == said
    for position in (1, 3):
        other = replace(said, position=position)
        with pytest.raises(BadInputError, match="its place"):
            head.read(head.sign(other, SECOND).encode(), ring, "head")


def test_keys_in_a_circle_end() -> None:
    ring = keyring.ring([FIRST.public], [ONE, turned(CHAIN[3], SECOND, FIRST)])
    assert ring.problems


def test_a_key_that_signed_nothing_is_followed_too() -> None:
    assert problems(signed_by(SECOND), [SECOND], turned(None, FIRST, SECOND)) == []
    assert problems(signed_by(SECOND), [FIRST], turned(None, FIRST, SECOND)) == []


def test_a_rotation_of_nobody_s_is_named() -> None:
    (problem,) = problems(CHAIN[:2], [FIRST], TWO)
    assert "leads to no key that is believed" in problem


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "found 0"),
        ("a.b.c", "found 1"),
        ("a.b.c d.e.f", "file:"),
        (
            "\n".join(
                (
                    rotation.make(2, "ab" * 32, FIRST, SECOND, AT).split()[0],
                    rotation.make(2, "ab" * 32, FIRST, THIEF, AT).split()[1],
                )
            ),
            "expected a signature by key",
        ),
        (
            "\n".join(
                (
                    rotation.make(2, "ab" * 32, FIRST, SECOND, AT).split()[0],
                    rotation.make(1, "cd" * 32, FIRST, SECOND, AT).split()[1],
                )
            ),
            "one and the same",
        ),
        (rotation.make(2, "ab" * 32, FIRST, SECOND, AT).replace(".", ".A", 1), "file:"),
    ],
)
def test_what_is_no_rotation(text: str, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        rotation.read(text.encode(), "file")


def test_a_rotation_of_another_format_is_not_followed() -> None:
    """What a later one says of keys is not guessed at."""
    said = codec.plain(turned(CHAIN[0], FIRST, SECOND)) | {"format": 2}
    with pytest.raises(BadWireError, match="expected a rotation of format 1, found 2"):
        codec.decode(Rotation, said, "file")


def test_the_record_takes_no_certificate_of_a_key_that_was_replaced(plane: Plane) -> None:
    plane.ordered()
    old, new = plane.controller.public.thumbprint, SECOND.public.thumbprint

    def make(position: int, digest: str, _token: str) -> str:
        return rotation.make(position, digest, plane.controller, SECOND, AT)

    stored = plane.store.rotate(old, new, make)
    assert plane.store.rotations() == [stored]
    with pytest.raises(UnavailableError, match="expected the signing key"):
        plane.inbox.report(plane.report())
    assert plane.store.last_certificate() is None
    assert plane.record().certificate is None
    with pytest.raises(ConflictError, match="expected the key that signs"):
        plane.store.rotate(old, new, make)


def second_report(plane: Plane) -> str:
    """Of another drive, for the second place of the chain."""
    slot, identity = Slot("cmp1", "0000:02:00.0"), replace(IDENTITY, serial="PHLJ0000002")
    order = plane.ordered(slot, identity)
    report = replace(
        plane.answer(), slot=slot, identity=identity, order_id=order.order_id,
        nonce=order.nonce, generation=order.generation,
    )  # fmt: skip
    return plane.signed(report, REPORT_TYPE)


def test_a_key_that_nobody_announced_certifies_nothing(plane: Plane) -> None:
    """Its file was replaced by hand, or restored: all before it would be called forged."""
    plane.ordered()
    plane.inbox.report(plane.report())
    token = second_report(plane)
    registrar = plane.inbox.registrar
    registrar.key = SECOND
    with pytest.raises(UnavailableError, match=r"key rotate.*former_keys"):
        plane.inbox.report(token)
    assert len(plane.store.certificates()) == 1
    registrar.former = (plane.controller.public.thumbprint,)
    plane.inbox.report(token)
    assert len(plane.store.certificates()) == 2


def test_a_key_that_was_lost_is_followed_by_the_operator_s_word(plane: Plane) -> None:
    """Nobody can have it sign who comes next; without this nothing would be certified again."""
    plane.ordered()
    plane.inbox.report(plane.report())
    old, lost = plane.controller, SECOND

    def make(position: int, digest: str, _token: str) -> str:
        return rotation.make(position, digest, old, lost, AT)

    plane.store.rotate(old.public.thumbprint, lost.public.thumbprint, make)
    token, registrar = second_report(plane), plane.inbox.registrar
    registrar.key = THIRD
    with pytest.raises(UnavailableError, match="expected the signing key"):
        plane.inbox.report(token)
    registrar.former = (lost.public.thumbprint,)
    plane.inbox.report(token)
    assert len(plane.store.certificates()) == 2
    given = [(one.digest, one.token.encode()) for one in plane.store.certificates()]
    turns = [rotation.read(one.document.encode(), "x") for one in plane.store.rotations()]
    assert ledger.audit(given, keyring.ring([THIRD.public, lost.public], turns)).intact
    third = THIRD.public.thumbprint
    with pytest.raises(ConflictError):
        plane.store.rotate(third, "next", make)
    plane.store.rotate(third, "next", make, former=registrar.former)


def test_a_rotation_that_is_not_written_is_not_said_to_be(
    conf: Path, ready: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = tmp_path / "second.pem"
    assert ready("key", "create", "--output", str(new))[0] == 0

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "write_rotations", full)
    code, _out, err = ready("key", "rotate", "--to", str(new))
    assert code == 0
    assert "not written" in err
    assert "it stands in the record; nothing is certified until" in err


def test_by_hand(conf: Path, ready: Cli, tmp_path: Path) -> None:
    """The procedure of docs/operators.md: two keys, the option, the ledger, the files."""
    run, new = ready, tmp_path / "second.pem"
    key = PrivateKey.from_pem((tmp_path / "controller.pem").read_bytes(), "key")
    store = enrolled(conf)
    certified(store, Link(), key, "a server")
    store.close()
    assert run("key", "create", "--output", str(new))[0] == 0
    first_key, second_key = tmp_path / "first.jwk", tmp_path / "second.jwk"
    first_key.write_text(run("key", "show")[1])
    assert run("key", "rotate", "--to", str(new))[0] == 0
    refused(run("key", "rotate", "--to", str(new)), 2, "stands in the record already")
    conf.write_text(conf.read_text().replace("controller.pem", "second.pem"))
    refused(run("key", "rotate", "--to", str(new)), 2, "found the same")
    assert run("ledger", "verify")[0] == 0, "the former key needs no option"
    second_key.write_text(run("key", "show")[1])
    directory = tmp_path / "auditor"
    code, out, _err = run("certificate", "export", "--directory", str(directory), "-f", "json")
    assert code == 0
    name = f"/1.{json.loads(second_key.read_text())['kid']}.rotation.jws"
    assert any(one["file"].endswith(name) for one in json.loads(out))
    for file in (first_key, second_key):
        offline = ("ledger", "verify", str(directory), "--key", str(file))
        assert run(*offline, "--rotations", str(directory))[0] == 0
    assert run("ledger", "verify", str(directory), "--key", str(second_key))[0] == 7
    (file,) = directory.glob("*.json")
    verify = ("certificate", "verify", str(file), "--key", str(second_key), "-f", "json")
    code, out, _err = run(*verify, "--rotations", str(directory))
    (said,) = json.loads(out)
    assert (code, said["valid"], said["remarks"]) == (0, True, [])


def test_no_key_comes_back(conf: Path, ready: Cli, tmp_path: Path) -> None:
    """It would have two beginnings: all that it signs from then on would be called forged."""
    run = ready
    for old, new in (("controller", "second"), ("second", "third")):
        assert run("key", "create", "--output", tmp_path / f"{new}.pem")[0] == 0
        assert run("key", "rotate", "--to", tmp_path / f"{new}.pem")[0] == 0
        conf.write_text(conf.read_text().replace(f"{old}.pem", f"{new}.pem"))
    for former in ("controller", "second"):
        answer = run("key", "rotate", "--to", tmp_path / f"{former}.pem")
        refused(answer, 2, "expected a key that never signed")
    assert run("ledger", "verify")[0] == 0


@pytest.mark.parametrize(("column", "value"), [("digest", "0" * 64), ("number", 0), ("number", 9)])
def test_no_rotation_names_a_damaged_end_of_the_chain(
    conf: Path, ready: Cli, tmp_path: Path, column: str, value: object
) -> None:
    """Signed by both keys, it would stay when the record is restored."""
    run, new = ready, tmp_path / "second.pem"
    store = enrolled(conf)
    key = PrivateKey.from_pem((tmp_path / "controller.pem").read_bytes(), "key")
    certified(store, Link(), key, "a server")
    store.close()
    assert run("key", "create", "--output", new)[0] == 0
    with sqlite3.connect(tmp_path / "record.db") as db:
        db.execute(f"UPDATE certificates SET {column} = ?", (value,))  # noqa: S608
    code, _out, err = run("key", "rotate", "--to", new)
    assert code != 0
    assert "the newest certificate: expected what its token says" in err
    assert len(err.splitlines()) == 1
    with sqlite3.connect(tmp_path / "record.db") as db:
        assert db.execute("SELECT count(*) FROM rotations").fetchone() == (0,)


def test_a_rotation_that_ended_before_its_file_was_there_is_written_by_export(
    conf: Path, ready: Cli, tmp_path: Path
) -> None:
    """The record is what counts: after a crash there the same command says so."""
    run, new = ready, tmp_path / "second.pem"
    assert run("key", "create", "--output", new)[0] == 0
    directory = tmp_path / "certificates"
    directory.write_text("a file where the directory should be")
    code, _out, err = run("key", "rotate", "--to", new)
    assert (code, "certificate export does it" in err) == (0, True)
    directory.unlink()
    refused(run("key", "rotate", "--to", new), 2, "this rotation stands in the record already")
    assert run("certificate", "export")[0] == 0
    assert len(list(directory.glob("*.rotation.jws"))) == 1


def test_a_certificate_of_a_key_that_was_replaced_is_told_from_its_chain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A thief's has a good signature and a place that the key signed: the answer says so."""
    past = certificate.sign(replace(CHAIN[0].certificate, residues=("x",)), FIRST)
    key, file = tmp_path / "third.jwk", tmp_path / f"{past.digest}.json"
    key.write_text(json.dumps(THIRD.public.jwk()))
    file.write_bytes(certificate.document(past))
    rotations = files.write_rotations(
        tmp_path,
        (
            rotation.make(at.certificate.position, at.digest, old, new, AT)
            for at, old, new in ((CHAIN[1], FIRST, SECOND), (CHAIN[3], SECOND, THIRD))
        ),
    )
    words = ["certificate", "verify", str(file), "--key", str(key), "-f", "json"]
    assert cli.main([*words, *(w for path in rotations for w in ("--rotations", str(path)))]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert [line[:40] for line in found["remarks"]] == ["its key was replaced after position 2: w"]
    assert f"ledger verify --contains {past.digest}" in found["remarks"][0]


def test_a_certificate_of_a_key_whose_end_is_disputed_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A thief of the old key lays a rotation to a key of theirs beside the true one: neither is
    believed, and what they sign behind its end passed without a word among its remarks."""
    late = issue(CHAIN[4].link, key=FIRST)
    key, file = tmp_path / "first.jwk", tmp_path / f"{late.digest}.json"
    key.write_text(json.dumps(FIRST.public.jwk()))
    file.write_bytes(certificate.document(late))
    texts = [
        rotation.make(at.certificate.position, at.digest, FIRST, new, AT)
        for at, new in ((CHAIN[1], SECOND), (CHAIN[0], THIEF))
    ]
    files.write_rotations(tmp_path, texts)
    words = ["certificate", "verify", str(file), "--key", str(key), "-f", "json"]
    assert cli.main([*words, "--rotations", str(tmp_path)]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["remarks"][0].startswith("its key was replaced, by rotations that contradict")
    ring = keyring.ring([THIRD.public], [ONE, TWO, rotation.read(texts[1].encode(), "theirs")])
    assert not keyring.disputed(ring, FIRST.public.thumbprint)


@pytest.mark.parametrize("damage", [b"", b"a.b.c", b"\xff\n\xfe", None])
def test_a_damaged_rotation_is_named_and_hides_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: bytes | None
) -> None:
    """None: a pipe, which a stranger packed and nobody writes into."""
    key = tmp_path / "third.jwk"
    key.write_text(json.dumps(THIRD.public.jwk()))
    for one in CHAIN:
        (tmp_path / f"{one.digest}.json").write_bytes(certificate.document(one))
    files.write_rotations(
        tmp_path,
        (rotation.make(2, CHAIN[1].digest, FIRST, SECOND, AT),
         rotation.make(4, CHAIN[3].digest, SECOND, THIRD, AT)),
    )  # fmt: skip
    bad = tmp_path / "0.rotation.jws"
    if damage is None:
        os.mkfifo(bad)
    else:
        bad.write_bytes(damage)
    words = ["--key", str(key), "--rotations", str(tmp_path), "-f", "json"]
    assert cli.main(["ledger", "verify", str(tmp_path), *words]) == 7
    found = json.loads(capsys.readouterr().out)
    assert (found["count"], len(found["findings"])) == (5, 1)
    assert str(bad) in found["findings"][0]["problem"]
    file = tmp_path / f"{CHAIN[0].digest}.json"
    assert cli.main(["certificate", "verify", str(file), *words]) == 0
    assert str(bad) in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["", "a.b.c", "\N{LATIN SMALL LETTER E WITH ACUTE} x"])
def test_a_damaged_row_of_the_record_is_named_and_the_others_go_on(
    conf: Path, ready: Cli, tmp_path: Path, damage: str
) -> None:
    """The whole of ``ledger`` and ``certificate export`` ended with 2, and said nothing else."""
    run, store, end, names = ready, enrolled(conf), Link(), ["controller", "second", "third"]
    for name in names:
        pem = tmp_path / f"{name}.pem"
        if name != "controller":
            assert run("key", "create", "--output", pem)[0] == 0
            assert run("key", "rotate", "--to", pem)[0] == 0
            former = names[names.index(name) - 1]
            conf.write_text(conf.read_text().replace(f"{former}.pem", pem.name))
        end = certified(store, end, PrivateKey.from_pem(pem.read_bytes(), name), "a server")
    store.close()
    assert run("ledger", "head")[0] == run("ledger", "verify")[0] == 0
    with sqlite3.connect(tmp_path / "record.db") as db:
        db.execute("UPDATE rotations SET document = ? WHERE number = 1", (damage,))
    code, out, err = run("ledger", "verify", "-f", "json")
    assert code == 7, err
    found = json.loads(out)
    assert found["count"] == 2
    # The first certificate's key is known by that row alone, and the second one follows it.
    named = [one["name"] for one in found["findings"] if one["name"] != "a rotation"]
    assert named == digests(tmp_path)[:2]
    assert "rotation 1 of the record" in out
    code, out, err = run("certificate", "export", "--directory", tmp_path / "files", "-f", "json")
    assert (code, err.count("not exported: ")) == (7, 2)
    assert "rotation 1 of the record" in err
    kinds = [row["file"].partition(".")[2] for row in json.loads(out)]
    assert [kinds.count(kind) for kind in ("json", "html")] == [2, 2]
    assert sum(kind.endswith("rotation.jws") for kind in kinds) == 1
    for words in (
        ("certificate", "for-server", "00000000-0000-4000-8000-000000000000"),
        ("ledger", "head"),
    ):
        code, out, err = run(*words)
        assert (code, "rotation 1 of the record" in err, out != "") == (7, True, True)
    # Nobody can tell whether a key is new where a former one cannot be read.
    assert run("key", "create", "--output", tmp_path / "fourth.pem")[0] == 0
    refused(run("key", "rotate", "--to", tmp_path / "fourth.pem"), 2, "rotation 1 of the record")


def digests(directory: Path) -> list[str]:
    with sqlite3.connect(directory / "record.db") as db:
        return [row for (row,) in db.execute("SELECT digest FROM certificates ORDER BY number")]


def test_a_public_key_is_believed_as_before_where_nothing_is_said_of_it() -> None:
    keys: list[PublicKey] = [FIRST.public, SECOND.public, THIRD.public]
    named = [(link.digest, certificate.document(link)) for link in CHAIN]
    assert ledger.audit(named, keys).intact
