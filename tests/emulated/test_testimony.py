"""What the real host side testifies about honest drives is what the control plane certifies."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from eraser.protocol import codec
from eraser.protocol.order import EraseOrder
from eraser.protocol.policy import Label, Policy
from eraser.protocol.profile import Profile
from eraser.protocol.report import EraseReport
from eraser.protocol.transport.signing import PrivateKey
from quarantine.evidence import certificate, terms
from quarantine.evidence.certificate import CertificateEvidence, Link
from quarantine.evidence.sections import Issuer
from quarantine.evidence.sheet import page
from quarantine.rules.reports.check import Ruling, check
from tests.emulated.erasing import CLEAR, PROFILE, QUICK, STATE, Bench, Erased, bench
from tests.lab.rack import Rack
from tests.unit.quarantine.testimony import ORDER, RECORD

pytestmark = pytest.mark.rack


def certified(made: Bench, erased: Erased, policy: dict[str, Any]) -> certificate.Certificate:
    """The certificate of a stand-alone erase, as if it had been ordered."""
    assert (erased.verdict, erased.fit) == ("erased", True), erased.reasons
    report = codec.decode(EraseReport, made.report(erased), "report")
    assert report.identity is not None
    order: EraseOrder = replace(
        ORDER,
        slot=report.slot,
        identity=report.identity,
        profile=codec.load(Profile, made.compute.get(PROFILE), "profile"),
        policy=codec.load(Policy, codec.canonical(policy), "policy"),
    )
    report = replace(
        report,
        order_id=order.order_id,
        generation=order.generation,
        nonce=order.nonce,
        incarnation=order.incarnation,
    )
    decision = check(order, report, replace(RECORD, slot=report.slot))
    assert (decision.ruling, decision.reason) == (Ruling.CERTIFY, "")
    evidence = CertificateEvidence(order, "order", report, "report", "host", "provider", "", ())
    key = PrivateKey.generate()
    signed = certificate.sign(
        certificate.build(evidence, Issuer(), Link(), "2026-11-20T12:00:00Z"), key
    )
    assert report.identity.serial in page.render(signed)
    assert certificate.verify(signed.token, [key.public], "token").digest == signed.digest
    return signed.certificate


@pytest.mark.parametrize(
    "preset",
    [
        *("crypto-only-random", "namespaces"),
        *("honest", "honest-4k", "block-pattern", "reads-ones"),
    ],
)
def test_an_honest_drive_gets_its_certificate(rack: Rack, preset: str) -> None:
    made = bench(rack, preset)
    body = certified(made, made.erase(), QUICK)
    assert body.sanitization.method is Label.PURGE
    if preset == "crypto-only-random":
        (exception,) = body.exceptions
        assert "the drive does not offer sanitize-block; permitted by allow_fewer" in exception
    else:
        assert body.exceptions == ()
    assert [t.technique for t in body.sanitization.techniques] == [
        terms.TECHNIQUES[t.command].name for t in body.sanitization.techniques
    ]
    assert all(t.ended_at >= t.started_at > "2" for t in body.sanitization.techniques)
    assert body.verification.finished_at > body.sanitization.finished_at
    assert re.fullmatch("[0-9a-f]{64}", body.sanitization.tools["eraser build"])
    named = {n.nsid: (n.nguid, n.eui64) for n in body.drive.namespaces}
    assert named == {nsid: names_by_nvme_cli(made, nsid) for nsid in named}
    noise = "Some read as noise" in body.verification.sentence
    assert noise == (preset == "crypto-only-random")


def names_by_nvme_cli(made: Bench, nsid: int) -> tuple[str, str]:
    """NGUID and EUI64 as another reader of the same bytes has them."""
    device = f"/dev/{made.compute.controller(made.drive.address)}"
    said = json.loads(made.compute.sh(f"nvme id-ns {device} -n {nsid} -o json").stdout)
    return said["nguid"], said["eui64"]


def test_clear_is_certified_as_clear(rack: Rack) -> None:
    made = bench(rack, "format-only", policy=CLEAR)
    body = certified(made, made.erase(), CLEAR)
    assert body.sanitization.method is Label.CLEAR
    assert body.sanitization.downgraded
    assert body.exceptions[0].startswith("Downgraded")


@pytest.mark.parametrize("journal", ["lost", "kept"])
def test_an_interrupted_case_gets_its_certificate(rack: Rack, journal: str) -> None:
    made = bench(rack, "honest")
    first = made.compute.spawn(made.argv())
    made.compute.sh(
        f"until grep -qs sanitize {STATE}/cases/*/journal.jsonl; do sleep 0.05; done", timeout=60
    )
    first.kill()
    if journal == "lost":
        made.compute.sh(f"rm -rf {STATE}/cases")
    body = certified(made, made.erase(), QUICK)
    assert body.exceptions or journal == "lost"
