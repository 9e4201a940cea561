"""What a chain of well signed certificates shows of itself: lies of whoever has the key."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eraser.protocol import codec
from eraser.protocol.policy import Label, Method, VerificationMode
from eraser.protocol.report import EraseReport
from quarantine import cli
from quarantine.evidence import certificate
from quarantine.evidence.certificate import Link, SignedCertificate
from quarantine.evidence.chain import ledger
from quarantine.evidence.checks import clocks, consistency
from quarantine.evidence.sections import Certificate, HistoryLine
from tests.unit.quarantine.evidence.test_certificate import KEY, chain, issue
from tests.unit.quarantine.testimony import (
    COUNTS,
    CRYPTO,
    FACTS,
    FORMAT,
    REPORT,
    SAMPLED,
    VERIFICATION,
    command,
    log81,
)


def audit(links: list[SignedCertificate], **options: Any) -> ledger.Audit:
    given = [(one.digest, one.token.encode()) for one in links]
    return ledger.audit(given, [KEY.public], **options)


def problems(*bodies: Certificate) -> list[str]:
    """Of a chain of these, signed with the true key."""
    return [finding.problem for finding in audit(linked(*bodies)).findings]


def linked(*bodies: Certificate) -> list[SignedCertificate]:
    links: list[SignedCertificate] = []
    for body in bodies:
        end = links[-1].link if links else Link()
        again = replace(body, position=end.position + 1, previous=end.digest)
        links.append(certificate.sign(again, KEY))
    return links


ONE, TWO = (one.certificate for one in chain(2))


def sanitization(**changes: Any) -> Certificate:
    return replace(ONE, sanitization=replace(ONE.sanitization, **changes))


def verification(**changes: Any) -> Certificate:
    return replace(ONE, verification=replace(ONE.verification, **changes))


def techniques(**changes: Any) -> Certificate:
    return sanitization(
        techniques=tuple(replace(t, **changes) for t in ONE.sanitization.techniques)
    )


def namespace(**changes: Any) -> Certificate:
    return verification(namespaces=(replace(COUNTS, **changes),))


SENTENCE = ONE.verification.sentence
WHOLE = "All 250,000 blocks of 4 KiB were read, and none of them holds data."

LIES: dict[str, tuple[Certificate, str]] = {
    "finished before it started": (
        sanitization(finished_at="2026-11-20T10:00:00Z"),
        "the sanitization finished at 2026-11-20T10:00:00Z, before it started",
    ),
    "no time": (sanitization(started_at="yesterday"), "expected a time with its zone"),
    "no time in UTC": (
        sanitization(started_at="0001-01-01T00:00:00+14:00"),
        "expected a time with its zone (ISO 8601), found '0001-01-01T00:00:00+14:00'",
    ),
    "issued before the case began": (
        replace(ONE, issued_at="2026-11-20T09:00:00Z"),
        "it was issued at 2026-11-20T09:00:00Z, before its history's end",
    ),
    "a history that runs backwards": (
        replace(ONE, case=replace(ONE.case, history=(
            HistoryLine("2026-11-20T10:59:00Z", "a", "b", ""),
            HistoryLine("2026-11-20T10:09:00Z", "a", "b", ""),
        ))),
        "the history goes on",
    ),
    "another drive's digest": (
        replace(ONE, drive=replace(ONE.drive, identity_digest="0" * 64)),
        "expected the identity digest",
    ),
    "Purge without log 81h": (
        techniques(log_after=log81(0, 0)), "expected a sanitize whose success",
    ),
    "Purge with another command's log": (
        techniques(log_after=log81(1, 0xA)), "expected a sanitize whose success",
    ),
    "no log at all": (techniques(log_after=""), "expected 512 bytes of log 81h"),
    "Purge by Format": (
        techniques(command=Method.FORMAT_USER_DATA), "is no part of the method Purge",
    ),
    "another opcode": (techniques(opcode=0x80), "expected opcode 0x84, found 0x80"),
    "a sentence over a log that says otherwise": (
        techniques(reported="Log 81h after: success (SSTAT 3)."),
        "expected a sentence with (SSTAT 1)",
    ),
    "Clear for Purge that is no downgrade": (
        sanitization(method=Label.CLEAR), "expected downgraded to be True",
    ),
    "a decision that its reasons belie": (
        replace(ONE, withheld=("worn",)), "expected reasons for withholding where",
    ),
    "a headline over what failed": (
        techniques(log_after=log81(3, 4)), "expected a headline with the success of none",
    ),
    "a word for cryptographic erase alone that was not alone": (
        sanitization(attestation="AES-256"), "expected an attestation where",
    ),
    "techniques that ran backwards": (
        sanitization(techniques=(
            replace(ONE.sanitization.techniques[0], ended_at="2026-11-20T11:05:00Z"),
            ONE.sanitization.techniques[1],
        )),
        "a technique ended at 2026-11-20T11:00:10Z, before the one before it",
    ),
    "a verification before the end of what it verifies": (
        verification(finished_at="2026-11-20T10:00:00Z"), "the verification finished at",
    ),
    "more canaries in the sentence": (
        verification(probes=ONE.verification.probes.replace("1,024", "1,025")),
        "in the sentence on probes",
    ),
    "a negative remainder": (verification(residual_shown=-0.1), "between 0 and 1"),
    "no remainder at all": (verification(residual_shown=0.0), "to be left open by these counts"),
    "certainty": (verification(confidence=1.0), "between 0 and 1"),
    "more blocks in the sentence": (
        verification(sentence=SENTENCE.replace("69,075", "99,075")), "is the 99,075 of its",
    ),
    "a better share in the sentence": (
        verification(sentence=SENTENCE.replace("0.010000 %", "0.000010 %")),
        "the sentence excludes more than 1e-05 %",
    ),
    "a better probability in the sentence": (
        verification(sentence=SENTENCE.replace("of 0.999", "of 0.99999")), "is the 0.99999 of its",
    ),
    "another seed in the sentence": (
        verification(sentence=SENTENCE.replace("5eed5", "6eed5")), "to name the seed beside it",
    ),
    "all blocks in the sentence": (
        verification(sentence=WHOLE),
        "says that all blocks were read",
    ),
    "no data over noise": (
        namespace(zeros=0, random=SAMPLED), "the sentence says that no block holds data",
    ),
    "more sampled than read": (verification(sampled=SAMPLED + 1), "sampled blocks at most"),
    "another size": (verification(blocks=1), "blocks as in its namespaces, found 1"),
    "a canary that is still there": (namespace(canaries=1), "still hold a canary"),
    "classes that do not add up": (namespace(zeros=1), "blocks in the classes together"),
    "a canary that nobody looked for": (verification(canaries_checked=1), "canaries to be checked"),
    "a negative count": (verification(fingerprints_taken=-1), "found a negative one"),
}  # fmt: skip


@pytest.mark.parametrize("kind", LIES)
def test_what_cannot_be_true_together_is_named(kind: str) -> None:
    body, words = LIES[kind]
    found = problems(body)
    assert any(words in line for line in found), found
    assert all(line.startswith("contradicts itself: ") for line in found)


def test_the_end_of_time_is_a_time() -> None:
    (late,) = problems(sanitization(finished_at="9999-12-31T23:59:59Z"))
    assert "before the sanitization at 9999-12-31T23:59:59Z" in late
    assert clocks.earlier("2026-11-20T12:00:00Z", "9999-12-31T23:59:59Z")


def test_times_that_run_backwards_are_named_and_a_corrected_clock_is_not() -> None:
    late = replace(ONE, issued_at="2026-11-20T12:00:59Z")
    assert problems(late, TWO) == []
    (backwards,) = problems(replace(ONE, issued_at="2026-11-20T12:02:00Z"), TWO)
    assert backwards.startswith("times run backwards: issued 2026-11-20T12:00:00Z")
    said = replace(TWO, exceptions=(*TWO.exceptions, clocks.OURS_SET_BACK))
    assert problems(replace(ONE, issued_at="2026-11-20T12:02:00Z"), said) == []


@pytest.mark.parametrize("member", ["order_id", "nonce", "report_digest"])
def test_an_order_is_certified_once(member: str) -> None:
    case = replace(TWO.case, **{member: getattr(ONE.case, member)})
    (twice,) = problems(ONE, replace(TWO, case=case))
    what = {"order_id": "order", "nonce": "nonce", "report_digest": "report"}[member]
    assert twice.startswith(f"its {what} {getattr(ONE.case, member)} was certified before: ")


def failing(report: EraseReport) -> EraseReport:
    return replace(report, methods=(replace(CRYPTO, log_after=log81(3, 4)), *report.methods[1:]))


def read(**changes: Any) -> Callable[[EraseReport], EraseReport]:
    counts = {k: changes.pop(k) for k in list(changes) if hasattr(COUNTS, k)}
    seen = replace(VERIFICATION, namespaces=(replace(COUNTS, **counts),), **changes)
    return lambda report: replace(report, verification=seen)


HONEST: dict[str, Callable[[EraseReport], EraseReport]] = {
    "purged": lambda report: report,
    "one method failed, as allowed": failing,
    "cleared": lambda report: replace(
        report, achieved=Label.CLEAR, downgraded=True, methods=(FORMAT,),
        commands=(command(0x80, 0x200),), facts_before=replace(FACTS, sanicap=0),
    ),
    "cleared as asked": lambda report: replace(
        report, asked=Label.CLEAR, achieved=Label.CLEAR, methods=(FORMAT,),
    ),
    "read whole": read(read=COUNTS.blocks, zeros=COUNTS.blocks, sampled=COUNTS.blocks),
    "read whole, seedless": read(
        read=COUNTS.blocks, zeros=COUNTS.blocks, sampled=COUNTS.blocks, seed="",
    ),
    "noise": read(zeros=0, random=SAMPLED, uniform="", expected="unknown"),
    "noise, of which less counts": read(
        zeros=0, random=SAMPLED, uniform="", expected="unknown", probed=777,
    ),
    "noise, of which nothing counts": read(
        zeros=0, random=SAMPLED, uniform="", expected="unknown", probed=0,
    ),
    "noise, read whole": read(
        read=COUNTS.blocks, zeros=0, random=COUNTS.blocks, uniform="", sampled=COUNTS.blocks,
    ),
    "fresh places": read(fresh=True),
    "in windows": read(
        asked=VerificationMode.NIST, done=VerificationMode.NIST, windows=2000, window_blocks=25_013,
    ),
    "less sure": read(confidence=0.95, residual=0.001),
    "very sure": read(confidence=0.9999999, residual=0.0003),
    "a seed of digits": read(seed="1234567890" * 4),
}  # fmt: skip


@pytest.mark.parametrize("kind", HONEST)
def test_an_honest_certificate_contradicts_nothing(kind: str) -> None:
    body = issue(Link(), HONEST[kind](REPORT)).certificate
    assert list(consistency.contradictions(body)) == []


def test_a_digest_that_somebody_noted_is_found_in_a_chain_that_grew() -> None:
    links = chain(3)
    noted = links[1].digest
    found = audit(links, contains=[noted])
    assert (found.intact, found.contains) == (True, {noted: 2})
    found = audit(links[:1], contains=[noted, links[0].digest])
    (gone,) = found.findings
    assert gone.problem == f"expected it to contain {noted}, found no valid one of that name"
    assert found.contains == {links[0].digest: 1}


def test_a_row_of_the_record_under_another_digest_is_named() -> None:
    one, two = chain(2)
    swapped = [(two.digest, one.token.encode()), (one.digest, two.token.encode())]
    found = ledger.audit(swapped, [KEY.public], ordered=True)
    assert ["renamed" in finding.problem for finding in found.findings] == [True, True]


class TestCommand:
    """``ledger`` over files, with the public key alone."""

    @pytest.fixture
    def run(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> Callable[..., tuple[int, dict[str, Any]]]:
        key = tmp_path / "controller.jwk"
        key.write_bytes(codec.canonical(KEY.public.jwk()))

        def call(*words: object) -> tuple[int, dict[str, Any]]:
            code = cli.main(["ledger", "verify", *map(str, words), "--key", str(key), "-f", "json"])
            return code, json.loads(capsys.readouterr().out)

        return call

    @pytest.fixture
    def exported(self, tmp_path: Path) -> Path:
        directory = tmp_path / "exported"
        directory.mkdir()
        for one in chain(3):
            (directory / f"{one.digest}.json").write_bytes(certificate.document(one))
        return directory

    def test_what_it_contains(
        self, run: Callable[..., tuple[int, dict[str, Any]]], exported: Path
    ) -> None:
        noted = chain(2)[1].digest
        code, found = run(exported, "--contains", noted)
        assert (code, found["contains"]) == (0, {noted: 2})
        code, found = run(exported, "--contains", "0" * 64)
        assert (code, found["contains"], found["intact"]) == (7, {}, False)

    @pytest.mark.parametrize(
        "damage", [b"", b"\xff\0", b"{", b'{"certificate": 1e999, "jws": "a.b.c"}', b"[" * 9999]
    )
    def test_a_damaged_file_hides_no_other(
        self, run: Callable[..., tuple[int, dict[str, Any]]], exported: Path, damage: bytes
    ) -> None:
        bad = exported / "0.json"
        bad.write_bytes(damage)
        (exported / "a-directory.json").symlink_to(exported)
        empty = exported / "empty.jsonl"
        empty.write_bytes(b"\n")
        code, found = run(exported, empty, exported / "gone.json", exported / "gone.jsonl")
        assert (code, found["count"]) == (7, 3)
        assert [one["name"] for one in found["findings"]] == [
            str(bad),
            f"{exported}/a-directory.json",
            str(empty),
            f"{exported}/gone.json",
            f"{exported}/gone.jsonl",
        ]

    def test_nobody_waits_for_a_pipe_in_what_a_stranger_packed(
        self, run: Callable[..., tuple[int, dict[str, Any]]], exported: Path
    ) -> None:
        """An archive may hold one. Nobody writes into it, so whoever opened it would wait."""
        for name in ("0.json", "2026-11-20.head.jws"):
            os.mkfifo(exported / name)
        code, found = run(exported, "--heads", exported)
        assert (code, found["count"], len(found["findings"])) == (7, 3, 2)
        assert "expected a regular file" in found["findings"][0]["problem"]

    def test_a_name_that_no_file_can_have_is_told(
        self, run: Callable[..., tuple[int, dict[str, Any]]]
    ) -> None:
        code, found = run("x" * 5000, "--heads", "y" * 5000)
        assert (code, found["count"], len(found["findings"])) == (7, 0, 2)

    def test_an_end_that_is_empty_is_no_end(
        self, exported: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A script's variable that is not set must not turn the check off."""
        assert cli.main(["ledger", "verify", str(exported), "--end", ""]) == 2
        assert "--end" in capsys.readouterr().err

    def test_a_line_without_end_is_read_in_pieces(
        self,
        run: Callable[..., tuple[int, dict[str, Any]]],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr("quarantine.operations.papers.ledger.MAX_FILE_BYTES", 100_000)
        whole = tmp_path / "all.jsonl"
        lines = [certificate.said_line(one.token) for one in chain(2)]
        whole.write_bytes(lines[0] + b"x" * 250_000 + b"\n" + lines[1])
        code, found = run(whole)
        assert (code, found["count"], len(found["findings"])) == (7, 2, 3)


def test_a_certificate_alone_is_held_against_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``certificate verify``: the signature holds, and what it signed cannot be true."""
    key, file = tmp_path / "controller.jwk", tmp_path / "x.json"
    key.write_bytes(codec.canonical(KEY.public.jwk()))
    file.write_bytes(certificate.document(linked(LIES["a negative remainder"][0])[0]))
    code = cli.main(["certificate", "verify", str(file), "--key", str(key), "-f", "json"])
    (found,) = json.loads(capsys.readouterr().out)
    assert (code, found["valid"], len(found["contradictions"])) == (7, True, 1)


def test_a_certificate_under_the_name_of_another_is_told_by_itself_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody asks for the newest one by its digest, and is given the one from before."""
    key = tmp_path / "controller.jwk"
    key.write_bytes(codec.canonical(KEY.public.jwk()))
    old, new = chain(2)
    for name, code, problems in (
        (new.digest, 7, [f"renamed: it is certificate {old.digest}"]),
        (old.digest, 0, []),
        ("mine", 0, []),
    ):
        file = tmp_path / f"{name}.json"
        file.write_bytes(certificate.document(old))
        words = ["certificate", "verify", str(file), "--key", str(key), "-f", "json"]
        assert cli.main(words) == code
        (found,) = json.loads(capsys.readouterr().out)
        assert found["contradictions"] == problems
