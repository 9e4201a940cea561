"""An ordered case, as the worker starts it: ``nvme-eraser case``."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from eraser.protocol import codec
from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.policy import Policy
from eraser.protocol.profile import Profile
from eraser.protocol.report import EraseReport, Outcome, Step, Verdict
from eraser.state.case_files import CaseFiles, CaseProgress, CaseRequest
from tests.emulated.erasing import PROFILE, QUICK, STATE, Bench, bench
from tests.lab.rack import Rack

pytestmark = pytest.mark.rack

REQUEST = "/tmp/request.json"


def order(made: Bench, number: int, **other: Any) -> CaseRequest:
    """What the worker makes of an order for the drive that is in the slot."""
    shown = made.compute.run(["nvme-eraser", "inspect", "--pci", made.drive.address, "-f", "json"])
    identity = codec.decode(
        ControllerIdentity, json.loads(shown.stdout)["identity"], "inspected identity"
    )
    return CaseRequest(
        slot=Slot("compute-1", made.drive.address),
        identity=dataclasses.replace(identity, **other),
        profile=codec.load(Profile, made.compute.get(PROFILE), "profile"),
        policy=codec.load(Policy, json.dumps(QUICK), "policy"),
        order_id=f"order-0000-0000-{number:04}",
        generation=number,
        nonce=f"nonce-0000-0000-{number:04}",
        incarnation="incarnation-0001",
        seconds_allowed=600,
    )


def run(made: Bench, request: CaseRequest) -> EraseReport:
    """Runs the case and reads what it left."""
    made.compute.put(REQUEST, codec.canonical(request))
    argv = ["nvme-eraser", "case", "--request", REQUEST, "--state-dir", STATE]
    done = made.compute.run(argv, timeout=480)
    assert done.stdout == ""
    return codec.load(EraseReport, made.compute.get(f"{directory(request)}/report.json"), "report")


def directory(request: CaseRequest) -> str:
    """Where the case is in the guest."""
    return f"{STATE}/cases/{CaseFiles.of_order(Path(STATE), request.order_id).key}"


def test_the_ordered_drive_and_no_other(rack: Rack) -> None:
    made = bench(rack)
    wrong = run(made, order(made, 1, serial="ANOTHER1"))
    assert (wrong.outcome, wrong.verdict, wrong.fit) == (
        Outcome.WRONG_DRIVE,
        Verdict.UNKNOWN,
        False,
    )
    assert "ANOTHER1" in wrong.reasons[0]
    assert made.destructive() == []
    assert made.leaked >= len(made.known)

    request = order(made, 2)
    report = run(made, request)
    assert (report.outcome, report.verdict, report.fit) == (
        Outcome.COMPLETED,
        Verdict.ERASED,
        True,
    ), report.reasons
    assert (report.order_id, report.generation, report.nonce, report.incarnation) == (
        request.order_id,
        2,
        request.nonce,
        request.incarnation,
    )
    assert made.leaked == 0
    progress = codec.load(
        CaseProgress, made.compute.get(f"{directory(request)}/progress.json"), "progress"
    )
    assert progress.step is Step.REPORT
    assert run(made, request) == report, "a finished case says the same again"
    assert len(made.destructive()) == 2
