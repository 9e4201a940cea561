"""A drive that refuses a method, and whose log 81h still has the tenant's own success of it.

The eraser's own case on a drive of the lab, then the control plane's decision and certificate.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from eraser.protocol.order import EraseOrder
from eraser.protocol.policy import Method, Policy, Verification
from eraser.protocol.report import EraseReport, Verdict
from quarantine.evidence import certificate
from quarantine.evidence.certificate import Link
from quarantine.evidence.checks import consistency
from quarantine.evidence.sheet import page
from quarantine.evidence.wording import NOT_ATTESTED
from quarantine.rules.reports.check import Ruling, check
from tests.lab.nvme.composed.audit import bench
from tests.lab.nvme.composed.description import Abilities, Description
from tests.lab.nvme.composed.host import Host
from tests.lab.nvme.linux import case as lab
from tests.lab.nvme.linux.kernel import Kernel
from tests.lab.nvme.nature import Method as LabMethod
from tests.lab.nvme.sanitize import Sanitizer
from tests.lab.nvme.spec import SanitizeAction
from tests.unit.quarantine.evidence.test_page import ISSUER, KEY, evidence_of
from tests.unit.quarantine.testimony import ORDER, RECORD

ABLE = Abilities(methods=(LabMethod.SANITIZE_CRYPTO, LabMethod.SANITIZE_BLOCK))
ACTIONS = {
    Method.SANITIZE_CRYPTO: SanitizeAction.CRYPTO,
    Method.SANITIZE_BLOCK: SanitizeAction.BLOCK,
}


def sanitized(host: Host, method: Method) -> None:
    """As `nvme sanitize` of the tenant does it, with the very dword 10 of the eraser."""
    assert host.admin(0x84, cdw10=int(ACTIONS[method])).code == 0
    deadline = time.monotonic() + 30
    while host.drive.state.sanitize.running and time.monotonic() < deadline:
        time.sleep(0.001)
    assert host.log(0x81)[2] & 7 == 1


def erased(
    directory: Path, monkeypatch: pytest.MonkeyPatch, refused: Method, methods: tuple[Method, ...]
) -> tuple[EraseOrder, EraseReport]:
    """The order and the report of a case in which the drive refuses one of the methods."""
    quick = Verification(residual=0.1, canaries=100, visit=2)
    policy = Policy(purge_methods=methods, allow_failed=True, verification=quick)
    with bench(Description("refuses", ABLE), directory, size=2 << 20) as (_drive, host, clock):
        kernel = Kernel(host, directory / "root")
        machine = lab.linux(kernel, clock)
        profile = lab.profile_of(machine)
        sanitized(host, refused)
        kernel.reset()
        real = Sanitizer._supports
        monkeypatch.setattr(
            Sanitizer,
            "_supports",
            lambda self, action: action != ACTIONS[refused] and real(self, action),
        )
        report = lab.erase(machine, directory, profile, policy)
    assert report.identity is not None
    order = replace(
        ORDER, slot=report.slot, identity=report.identity, profile=profile, policy=policy
    )
    ids = ("order_id", "generation", "nonce", "incarnation")
    return order, replace(report, **{name: getattr(order, name) for name in ids})


CRYPTO_FIRST = (Method.SANITIZE_CRYPTO, Method.SANITIZE_BLOCK)
BLOCK_FIRST = (Method.SANITIZE_BLOCK, Method.SANITIZE_CRYPTO)


@pytest.mark.parametrize(
    ("methods", "attested"), [(CRYPTO_FIRST, False), (BLOCK_FIRST, True)], ids=["crypto", "block"]
)
def test_an_older_success_in_the_log_is_not_that_of_a_refused_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, methods: tuple[Method, ...], attested: bool
) -> None:
    bad, good = methods
    order, report = erased(tmp_path, monkeypatch, bad, methods)
    assert report.methods[0].verdict is Verdict.NOT_ERASED
    assert "refused it with status" in report.methods[0].reason
    ruled = check(order, report, replace(RECORD, slot=order.slot))
    assert (ruled.ruling, ruled.reasons) == (Ruling.CERTIFY, ())

    given = replace(evidence_of(report), order=order)
    body = certificate.build(given, ISSUER, Link(), report.finished_at)
    assert f"reported success of {good}. {bad} did not succeed." in body.headline
    first = body.sanitization.techniques[0]
    assert first.verdict is Verdict.NOT_ERASED
    assert "it was not seen to change" in first.reported
    assert body.sanitization.attestation.startswith(NOT_ATTESTED) is attested
    assert not list(consistency.contradictions(body))
    assert "a technique failed" in page.render(certificate.sign(body, KEY))
