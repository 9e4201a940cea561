"""Time stamps of heads by an authority of OpenSSL's, and OpenSSL's own word on them."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from quarantine import cli
from quarantine.errors import BadInputError, TimeStampError
from quarantine.evidence.chain import stamps
from quarantine.record.store import Store
from quarantine.service.assembly import Assembly
from quarantine.service.issue.heads import STAMPS_A_PASS, HeadDirectory, stamp_of
from quarantine.service.issue.tsa import TimeStampAuthority
from tests.lab.record import migrated_file
from tests.lab.services.tsa import Tsa, verified
from tests.unit.quarantine.evidence.test_certificate import KEY

pytestmark = pytest.mark.services

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tsa]:
    with Tsa(tmp_path_factory.mktemp("tsa")) as made:
        yield made


@pytest.fixture
def tsa(authority: Tsa) -> Iterator[Tsa]:
    yield authority
    authority.spoil = bytes


@pytest.fixture
def heads(tmp_path: Path, tsa: Tsa) -> Iterator[HeadDirectory]:
    store = Store.open(migrated_file(tmp_path / "record.db"))
    made = HeadDirectory(store, KEY, tmp_path / "heads", tell=lambda text: None, clock=lambda: NOON)
    made.stamp = TimeStampAuthority(tsa.url, stamps.roots_of(tsa.ca.read_bytes(), "ca")).stamp
    yield made
    store.close()


def files(heads: HeadDirectory) -> list[str]:
    return sorted(path.name for path in heads.directory.iterdir())


def test_openssl_verifies_the_stamp_of_a_head(
    heads: HeadDirectory, tsa: Tsa, tmp_path: Path
) -> None:
    asked = tsa.asked
    assert heads.turn()
    assert heads.turn()
    assert tsa.asked == asked + 1
    assert files(heads) == ["2026-11-20.head.jws", "2026-11-20.head.tsr"]
    one = heads.newest()
    assert one is not None
    assert verified(tsa.ca, one, stamp_of(one))
    other = tmp_path / "other"
    other.write_bytes(one.read_bytes() + b"\n")
    assert not verified(tsa.ca, other, stamp_of(one)), "a stamp is over the very bytes"


def test_an_authority_that_is_away_loses_nothing(
    heads: HeadDirectory, tsa: Tsa, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    there = heads.stamp
    heads.stamp = TimeStampAuthority("http://127.0.0.1:9/").stamp  # discard: nobody listens
    for day in range(5):
        now = NOON + timedelta(days=day)
        heads.clock = lambda now=now: now  # type: ignore[misc]
        assert not heads.turn()
    assert len(files(heads)) == 5
    (alarm,) = [line.getMessage() for line in caplog.records]
    assert alarm.startswith(
        "ALARM head-missing the time stamp of a head: missing: http://127.0.0.1:9/: expe"
    )
    heads.stamp = there
    assert heads.turn()
    assert (
        caplog.records[-1].getMessage()
        == "over: head-missing the time stamp of a head: it is there"
    )
    stamped = [name for name in files(heads) if name.endswith(".tsr")]
    assert stamped == [f"2026-11-2{day}.head.tsr" for day in (2, 3, 4)]
    assert len(stamped) == STAMPS_A_PASS
    assert heads.turn()
    assert len(files(heads)) == 10


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda answer: b"", "expected one that holds"),
        (lambda answer: b"<html>no</html>", "expected one that holds"),
        (lambda answer: answer[: len(answer) // 2], "expected one that holds"),
        (lambda answer: answer[:-1] + bytes([answer[-1] ^ 1]), "expected one that holds"),
        (lambda answer: bytes.fromhex("3005300302010230"), "expected one that"),
        (lambda answer: bytes.fromhex("30053003020102"), "status 2"),
    ],
)
def test_an_answer_that_does_not_hold_is_refused_and_asked_for_again(
    heads: HeadDirectory, tsa: Tsa, spoil: Callable[[bytes], bytes], words: str
) -> None:
    tsa.spoil = spoil  # type: ignore[assignment]
    assert heads.stamp is not None
    with pytest.raises(TimeStampError, match=words):
        heads.stamp(b"data")
    assert not heads.turn()
    assert files(heads) == ["2026-11-20.head.jws"]
    tsa.spoil = bytes
    assert heads.turn()


def _changed(answer: bytes) -> bytes:
    """As an authority says that it granted a stamp with changes."""
    granted = bytes.fromhex("3003020100")
    assert answer.count(granted) == 1
    return answer.replace(granted, bytes.fromhex("3003020101"))


def test_a_stamp_that_was_granted_with_changes_is_one(
    heads: HeadDirectory, tsa: Tsa, tmp_path: Path
) -> None:
    """RFC 3161, 2.4.2; it is kept as it came, and OpenSSL takes it too."""
    tsa.spoil = _changed  # type: ignore[assignment]
    assert heads.turn()
    one = heads.newest()
    assert one is not None
    kept = stamp_of(one).read_bytes()
    assert bytes.fromhex("3003020101") in kept
    assert verified(tsa.ca, one, stamp_of(one))
    roots = stamps.roots_of(tsa.ca.read_bytes(), "ca")
    assert stamps.check(kept, one.read_bytes(), roots)
    with pytest.raises(BadInputError, match="over these bytes"):
        stamps.check(kept, b"other", roots)
    other = Tsa(tmp_path)
    with pytest.raises(BadInputError, match="one that holds"):
        stamps.check(kept, one.read_bytes(), stamps.roots_of(other.ca.read_bytes(), "ca"))


def test_an_answer_to_another_question_is_refused(heads: HeadDirectory, tsa: Tsa) -> None:
    assert heads.stamp is not None
    for data in (b"other", b"data"):  # another digest; the digest, and another nonce
        old = tsa.answer(stamps.ask(data).der)
        tsa.spoil = lambda _answer, old=old: old  # type: ignore[assignment, misc]
        with pytest.raises(TimeStampError, match=r"over these bytes|the nonce of the question"):
            heads.stamp(b"data")


def test_another_authority_is_refused(heads: HeadDirectory, tsa: Tsa, tmp_path: Path) -> None:
    other = Tsa(tmp_path)
    heads.stamp = TimeStampAuthority(tsa.url, stamps.roots_of(other.ca.read_bytes(), "ca")).stamp
    assert not heads.turn()
    assert files(heads) == ["2026-11-20.head.jws"]
    heads.stamp = TimeStampAuthority(tsa.url).stamp  # without roots it is taken as it is
    assert heads.turn()


def test_with_the_program(tsa: Tsa, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf, directory = tmp_path / "conf", tmp_path / "heads"
    conf.write_text(
        f"[database]\nurl = sqlite:///{tmp_path}/record.db\n"
        f"[evidence]\nsigning_key = {tmp_path}/controller.pem\nheads_dir = {directory}\n"
        f"tsa_url = {tsa.url}\ntsa_ca = {tsa.ca}\n"
    )

    def run(*words: object) -> tuple[int, Any]:
        code = cli.main(["--config-file", str(conf), *map(str, words), "-f", "json"])
        out = capsys.readouterr().out
        return code, json.loads(out) if out else None

    assert run("db", "upgrade")[0] == 0
    (tmp_path / "controller.pem").write_bytes(KEY.pem())
    code, shown = run("ledger", "head")
    assert code == 0
    asked = ("ledger", "verify", "--heads", directory, "--tsa-ca", tsa.ca)
    code, found = run(*asked)
    assert (code, list(found["stamped"])) == (0, [shown["file"]])
    stamp = stamp_of(Path(shown["file"]))
    good = stamp.read_bytes()
    stamp.write_bytes(good[:-1])
    code, found = run(*asked)
    assert (code, found["stamped"], found["findings"][0]["name"]) == (7, {}, str(stamp))
    Path(shown["file"]).write_bytes(Path(shown["file"]).read_bytes() + b"\n")
    stamp.write_bytes(good)
    assert "over these bytes" in run(*asked)[1]["findings"][0]["problem"]


def test_a_stamp_that_is_older_than_its_head_is_told(
    heads: HeadDirectory, tsa: Tsa, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Either clock is wrong, or somebody's word is; both names of a time cannot hold."""
    key = tmp_path / "controller.jwk"
    key.write_text(json.dumps(KEY.public.jwk()))
    words = ["ledger", "verify", str(tmp_path / "none.json"), "--key", str(key), "--heads",
             str(heads.directory), "--tsa-ca", str(tsa.ca), "-f", "json"]  # fmt: skip
    for ahead, told in ((timedelta(), False), (timedelta(days=2), True)):
        heads.clock = lambda ahead=ahead: datetime.now(UTC) + ahead  # type: ignore[misc]
        assert heads.turn()
        cli.main(words)
        found = json.loads(capsys.readouterr().out)["findings"]
        assert any("before its head was written" in one["problem"] for one in found) == told


def test_what_cannot_work_is_said_at_the_start(tsa: Tsa, tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    (tmp_path / "controller.pem").write_bytes(KEY.pem())
    start = (
        f"[database]\nurl = sqlite:///{tmp_path}/record.db\n"
        f"[evidence]\nsigning_key = {tmp_path}/controller.pem\n"
    )
    conf.write_text(start)
    migrated_file(tmp_path / "record.db")
    assert Assembly([conf]).heads.stamp is None
    for line, words in (
        ("tsa_url = ftp://x\n", "http"),
        (f"tsa_url = {tsa.url}\ntsa_ca = {conf}\n", "in PEM"),
        (f"tsa_url = {tsa.url}\ntsa_ca = {tmp_path}/gone\n", "tsa_ca"),
    ):
        conf.write_text(start + line)
        with pytest.raises(BadInputError, match=words):
            _ = Assembly([conf]).heads


def test_a_certificate_of_no_version_is_a_stamp_that_does_not_hold(tsa: Tsa) -> None:
    """Nobody signed the certificates beside a stamp; the library reads them with another error."""
    version = bytes.fromhex("a003020102")  # [0] INTEGER 2: X.509 v3 (RFC 5280, 4.1)
    answer = tsa.answer(stamps.ask(b"head").der)
    places = [found.start() for found in re.finditer(version, answer)]
    assert len(places) > 1
    for place in places:
        spoilt = answer[: place + 4] + b"\x58" + answer[place + 5 :]
        with pytest.raises(BadInputError, match="expected one that holds"):
            stamps.check(spoilt, b"head", stamps.roots_of(tsa.ca.read_bytes(), "ca"))
