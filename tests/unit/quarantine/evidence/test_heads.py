"""Signed heads: written once a day, told to syslog, and held against the chain of later."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from jwcrypto import jwk, jws

from eraser.protocol.transport.signing import PrivateKey
from quarantine.errors import (
    BadInputError,
    TimeStampError,
    UnavailableError,
    UnreadableError,
)
from quarantine.evidence import certificate
from quarantine.evidence.certificate import Link, SignedCertificate
from quarantine.evidence.chain import head, headcheck, ledger
from quarantine.evidence.chain.head import Head
from quarantine.evidence.chain.headcheck import HeadFile
from quarantine.evidence.checks import clocks
from quarantine.record.certificates import NewestLink
from quarantine.record.store import Store
from quarantine.service.issue.heads import HeadDirectory
from tests.unit.quarantine.cli.test_cli import Cli, certified, conf, enrolled, ready, run
from tests.unit.quarantine.evidence.test_certificate import (
    ISSUER,
    KEY,
    OTHER,
    chain,
    evidence_of,
    issue,
)
from tests.unit.quarantine.testimony import REPORT

__all__ = ["conf", "ready", "run"]

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


@dataclass
class Record:
    """A chain that grows, in a record that may be away."""

    links: list[SignedCertificate] = field(default_factory=list)
    away: bool = False
    damaged: NewestLink | None = None
    """Of its last row, where that says something else than it was given."""

    def certificate(self, digest: str) -> SignedCertificate | None:
        return next((one for one in self.links if one.digest == digest), None)

    def chain_end(self) -> NewestLink | None:
        if self.away:
            raise UnavailableError("database: away")
        if not self.links:
            return None
        last = self.links[-1]
        return self.damaged or NewestLink(last.certificate.position, last.digest, last.token)


@dataclass
class Desk:
    """Heads with a clock and a syslog of the test's."""

    record: Record
    heads: HeadDirectory
    told: list[str]
    now: datetime = NOON

    def day(self, number: int) -> bool:
        self.now = NOON + timedelta(days=number)
        return self.heads.turn()

    def files(self) -> list[Path]:
        return sorted(self.heads.directory.glob("*"))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    record, told = Record(), list[str]()
    heads = HeadDirectory(
        cast(Store, record), KEY, tmp_path / "heads", "Example Cloud", told.append
    )
    desk = Desk(record, heads, told)
    heads.clock = lambda: desk.now
    return desk


def read(path: Path) -> Head:
    return head.read(path.read_bytes(), [KEY.public], str(path))


def test_one_each_day_each_naming_the_one_before_it(desk: Desk) -> None:
    assert desk.day(0)
    desk.record.links = chain(3)
    for _ in range(3):
        assert desk.day(0)
        assert desk.day(1)
    one, two = desk.files()
    assert [one.name, two.name] == ["2026-11-20.head.jws", "2026-11-21.head.jws"]
    assert read(one) == Head(
        1, "2026-11-20", "2026-11-20T12:00:00.000Z", 0, "", "", "Example Cloud"
    )
    last = desk.record.links[-1].digest
    assert (read(two).position, read(two).digest) == (3, last)
    assert read(two).previous == hashlib.sha256(one.read_bytes()).hexdigest()
    assert len(desk.told) == 2
    assert desk.told[1].startswith(f"signed head 2026-11-21: certificate 3 {last}; eyJ")
    assert desk.told[1].endswith(two.read_text())


def test_a_record_that_was_set_back_alarms_with_the_next_head(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    """Restored from a backup, or shortened: nobody may have to run ``ledger`` to learn of it."""
    whole = chain(3)
    desk.record.links = whole
    assert desk.day(0)
    assert desk.day(1)
    assert "ALARM" not in caplog.text
    desk.record.links = whole[:2]
    for _ in range(2):
        assert desk.day(2)
        assert desk.day(3)
    assert caplog.text.count("ALARM") == 1
    assert f"without certificate 3 {whole[2].digest}, its end on 2026-11-21" in caplog.text
    assert read(desk.files()[-1]).position == 2


def test_a_head_of_a_clock_that_was_ahead_hides_none_that_is_missing(desk: Desk) -> None:
    for number in (0, 30, 1, 2, 3):
        assert desk.day(number)
    files = [(file.name, file.read_bytes()) for file in desk.files()]
    assert [name[:10] for name, _raw in files][-2:] == ["2026-11-23", "2026-12-20"]
    assert list(headcheck.findings(files, {}, [KEY.public])) == []
    del files[1]
    ((name, text),) = headcheck.findings(files, {}, [KEY.public])
    assert name == "2026-11-22.head.jws"
    assert "was not given" in text


def test_a_library_of_another_hand_verifies_it(desk: Desk) -> None:
    desk.day(0)
    message = jws.JWS()
    message.deserialize(desk.files()[0].read_text())
    message.allowed_algs = ["EdDSA"]
    message.verify(jwk.JWK(**KEY.public.jwk()))
    assert message.jose_header["typ"] == "nvme-quarantine.head+json"
    assert json.loads(message.payload)["day"] == "2026-11-20"


def test_what_cannot_be_written_alarms_once_and_comes_later(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    desk.heads.directory.write_text("a file where the directory should be")
    assert [desk.day(0) for _ in range(3)] == [False] * 3
    assert desk.told == []
    assert [line.getMessage()[:48] for line in caplog.records] == [
        "ALARM head-missing the signed head of today: mis"
    ]
    desk.heads.directory.unlink()
    assert desk.day(0)
    assert (
        caplog.records[-1].getMessage()
        == "over: head-missing the signed head of today: it is there"
    )
    assert [path.name for path in desk.files()] == ["2026-11-20.head.jws"]


def test_a_record_that_is_away_has_its_alarm_elsewhere(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.record.away = True
    assert not desk.day(0)
    assert "ALARM" not in caplog.text
    assert "database: away" in caplog.text
    desk.record.away = False
    assert desk.day(0)


@pytest.mark.parametrize("change", [{"digest": "0" * 64}, {"number": 9}, {"token": "no.token."}])
def test_a_damaged_end_of_the_chain_is_not_signed(
    desk: Desk, caplog: pytest.LogCaptureFixture, change: dict[str, Any]
) -> None:
    desk.record.links = chain(2)
    end = desk.record.chain_end()
    assert end is not None
    desk.record.damaged = replace(end, **change)
    assert [desk.day(0) for _ in range(2)] == [False, False]
    assert (desk.files(), desk.told) == ([], [])
    assert caplog.text.count("ALARM head-missing") == 1
    assert "expected what its token says" in caplog.text
    desk.record.damaged = None
    assert desk.day(0)


def test_syslog_gets_it(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the C library hands it over; the test's machine may have no syslog at all."""
    sent: list[tuple[int, str]] = []
    monkeypatch.setattr("syslog.syslog", lambda level, text: sent.append((level, text)))
    heads = HeadDirectory(cast(Store, desk.record), KEY, tmp_path / "other")
    assert heads.turn()
    ((level, text),) = sent
    assert level == 5  # LOG_NOTICE
    (path,) = (tmp_path / "other").iterdir()
    day, token = path.name.removesuffix(".head.jws"), path.read_text()
    assert text == f"signed head {day}: no certificate yet; {token}", "and no name of this machine"


def test_stamps_are_asked_for_again_the_newest_first(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[bytes] = []

    def away(data: bytes) -> bytes:
        asked.append(data)
        raise TimeStampError("authority: away")

    def there(data: bytes) -> bytes:
        asked.append(data)
        return b"stamp of " + data

    caplog.set_level(logging.WARNING)
    desk.heads.stamp = away
    assert [desk.day(number) for number in range(4)] == [False] * 4
    assert len(desk.told) == len(desk.files()) == 4, "heads are written all the same"
    assert len(asked) == 4, "one question a pass to an authority that is away"
    assert (
        caplog.text.count("ALARM head-missing the time stamp of a head: missing: authority: away")
        == 1
    )
    desk.heads.stamp = there
    for _ in range(3):
        assert desk.day(3)
    stamped = [path for path in desk.files() if path.suffix == ".tsr"]
    assert [path.name for path in stamped] == [f"2026-11-2{n}.head.tsr" for n in range(4)]
    newest = desk.files()[-2]
    assert asked[4] == newest.read_bytes()
    assert stamped[-1].read_bytes() == b"stamp of " + newest.read_bytes()
    assert len(asked) == 8
    assert "over: head-missing the time stamp of a head: it is there" in caplog.text


def heads_of(
    *said: tuple[int, SignedCertificate | None], written: str = "2026-11-20T12:00:00Z"
) -> list[HeadFile]:
    """Heads that each name the one before them, by day and certificate."""
    files: list[HeadFile] = []
    before = ""
    for day, end in said:
        one = Head(
            1, f"2026-11-{day:02}", written, end.certificate.position if end else 0,
            end.digest if end else "", before, "Example Cloud",
        )  # fmt: skip
        raw = head.sign(one, KEY).encode()
        files.append((f"day {day}", raw))
        before = head.digest(raw)
    return files


def problems(links: list[SignedCertificate], heads: list[HeadFile]) -> list[str]:
    given = [(one.digest, one.token.encode()) for one in links]
    found = ledger.audit(given, [KEY.public], heads=heads)
    return [str(finding) for finding in found.findings]


def test_a_chain_that_grew_holds_every_head() -> None:
    links = chain(4)
    assert problems(links, heads_of((1, None), (2, links[1]), (3, links[1]), (4, links[3]))) == []


def test_a_chain_that_was_cut_off_is_found() -> None:
    links = chain(4)
    (gone,) = problems(links[:2], heads_of((1, links[1]), (2, links[3])))
    assert gone.startswith(f"day 2: expected the chain to contain certificate {links[3].digest}")


def test_a_chain_that_was_written_anew_with_the_same_key_is_found() -> None:
    links = chain(3)
    heads = heads_of((1, links[0]), (2, links[2]))
    again = [links[0]]
    for _ in range(3):
        body = replace(issue(again[-1].link).certificate, residues=("something",))
        again.append(certificate.sign(body, KEY))
    assert ledger.audit([(a.digest, a.token.encode()) for a in again], [KEY.public]).intact
    (found,) = problems(again, heads)
    assert found.startswith("day 2: expected the chain to contain certificate")


def test_a_certificate_that_was_dated_back_behind_a_head_is_found() -> None:
    links = chain(2)
    (found,) = problems(links, heads_of((1, links[0]), written="2026-11-21T12:00:00Z"))
    assert found == (
        "day 1: the chain ended with 1 at 2026-11-21T12:00:00Z, yet 2 says that it was issued at "
        "2026-11-20T12:00:00Z"
    )
    (found,) = problems(links, heads_of((1, None), written="2026-11-21T12:00:00Z"))
    assert "the chain ended with 0" in found
    (found,) = problems(links, heads_of((1, links[1]), written="2026-11-19T12:00:00Z"))
    assert "before its certificate" in found


@pytest.mark.parametrize("written", ["2026-11-20T12:00:00Z", "2026-11-25T12:00:00Z"])
def test_a_head_from_around_a_clock_that_was_set_back_speaks_against_no_honest_chain(
    written: str,
) -> None:
    """A certificate of five days too late, a head with that clock or a right one, then the next."""
    late = certificate.sign(
        replace(issue(Link()).certificate, issued_at="2026-11-25T11:00:00Z"), KEY
    )
    after = certificate.build(evidence_of(REPORT, 2), ISSUER, late.link, "2026-11-20T13:00:00Z")
    assert clocks.OURS_SET_BACK in after.exceptions
    links = [late, certificate.sign(after, KEY)]
    assert problems(links, heads_of((2, late), (3, late), written=written)) == []
    assert problems(links[:1], heads_of((2, late), written="2026-11-20T12:00:00Z")) != []


def test_heads_that_are_none_are_named_and_the_others_go_on() -> None:
    links = chain(2)
    one, two, three = heads_of((1, links[0]), (2, links[0]), (3, links[1]))
    assert problems(links, [one, three]) == [
        f"day 3: the head before it, {head.digest(cast(bytes, two[1]))}, was not given: day 1 is"
    ]
    forged = head.sign(Head(1, "2026-11-02", "x", 0, "", "", "x"), OTHER).encode()
    no_head = links[0].token.encode()
    gone = BadInputError("gone")
    bad: list[HeadFile] = [("a", forged), ("b", no_head), ("c", b"\xff"), ("d", b""), ("e", gone)]
    found = problems(links, [one, *bad, two, three])
    assert [line[:24] for line in found] == [
        "a: forged or altered (a:",
        "b: forged or altered (b:",
        "c: forged or altered (c:",
        "d: forged or altered (d:",
        "e: not readable (gone)",
    ]
    wrong = replace(head.read(cast(bytes, three[1]), [KEY.public], "x"), position=1)
    (found_there,) = problems(links[:2], [("p", head.sign(wrong, KEY).encode())])
    assert found_there == "p: expected its certificate at position 1, found 2"


def test_a_head_of_another_form_is_refused() -> None:
    good = Head(1, "2026-11-20", "x", 0, "", "", "x")
    for bad in ({"format": 2}, {"position": 1}, {"digest": "0" * 64}, {"position": -1}):
        with pytest.raises(ValueError, match="expected"):
            replace(good, **bad)  # type: ignore[arg-type]
    with pytest.raises(BadInputError, match="expected a public key"):
        head.read(head.sign(good, KEY).encode(), [], "x")


def test_with_the_program(ready: Cli, conf: Path, tmp_path: Path) -> None:
    key = PrivateKey.from_pem((tmp_path / "controller.pem").read_bytes(), "key")
    store = enrolled(conf)
    link = certified(store, Link(), key, "server")
    code, out, _err = ready("ledger", "head", "-f", "json")
    shown = json.loads(out)
    assert (code, shown["position"], shown["digest"]) == (0, 1, link.digest)
    assert Path(shown["file"]).parent == tmp_path / "heads"
    assert ready("ledger", "verify", "--heads", tmp_path / "heads")[0] == 0
    assert ready("ledger", "head")[0] == 0
    (file,) = (tmp_path / "heads").iterdir()
    assert ready("ledger", "verify", "--heads", file, "--heads", tmp_path / "gone")[0] == 7
    (tmp_path / "empty").mkdir()
    assert "found none" in ready("ledger", "verify", "--heads", tmp_path / "empty")[1]
    certified(store, link, key, "server")  # dated 2026-11-20, whatever the day is
    code, out, _err = ready("ledger", "verify", "--heads", file)
    assert (code, "yet 2 says that it was issued at 2026-11-20" in out) == (7, True)


def test_a_damaged_row_of_the_last_head_is_no_record_that_was_set_back(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    desk.record.links += chain(1)
    assert desk.day(0)

    def damaged(_digest: str) -> None:
        raise UnreadableError("certificate: expected what can be read, found a damaged row")

    monkeypatch.setattr(desk.record, "certificate", damaged)
    assert desk.day(1)
    assert "ALARM" not in caplog.text
