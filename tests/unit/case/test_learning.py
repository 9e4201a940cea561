"""What one case leaves for the next of its model: estimates, and patience."""

from __future__ import annotations

import argparse
import dataclasses
import time
from pathlib import Path

import pytest

from eraser.cli import erase as cli_erase
from eraser.cli.plan import describe
from eraser.erase.plan import Capabilities, FormatTarget
from eraser.protocol import codec
from eraser.protocol.applied import apply
from eraser.protocol.policy import LimitOverrides, Limits, Method, Policy, Quirk
from eraser.protocol.report import Verdict
from eraser.state import duration_files
from eraser.state.durations import DurationSample, ModelDurations
from eraser.state.journal import replace_durably
from tests.unit.case.fakes import (  # noqa: F401 - a fixture
    IDENTITY,
    POLICY,
    REQUEST,
    RUNNING,
    Bed,
    FakeDrive,
    bed,
)

BLOCK = Method.SANITIZE_BLOCK


class Uncounted(FakeDrive):
    """A drive that never counts its progress and is done after a while all the same."""

    seconds = 0.3
    began = 0.0

    def sanitize(self, cdw10: int) -> int:
        self.began = time.monotonic()
        return super().sanitize(cdw10)

    def log(self) -> bytes:
        self.looks_left = 0 if time.monotonic() - self.began >= self.seconds else 9
        raw = bytearray(super().log())
        if self.status == RUNNING:
            raw[0:2] = (1).to_bytes(2, "little")
        return bytes(raw)


def known(bed: Bed, *seconds: float) -> None:  # noqa: F811
    """Other drives of the model took so long on this host."""
    for method in (Method.SANITIZE_CRYPTO, BLOCK):
        samples = tuple(DurationSample(f"drive{n}", each) for n, each in enumerate(seconds))
        row = ModelDurations(IDENTITY.vendor_id, IDENTITY.model, "FW1", method, samples)
        path = duration_files._path(
            bed.files.state_dir, IDENTITY.vendor_id, IDENTITY.model, "FW1", method
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_durably(path, codec.canonical(row))


@pytest.mark.parametrize(("others", "verdict"), [((), "unknown"), ((0.4, 0.4, 0.4), "erased")])
def test_a_model_known_to_be_slow_is_waited_for(
    bed: Bed,  # noqa: F811
    others: tuple[float, ...],
    verdict: str,
) -> None:
    bed.drive = Uncounted(written=True)
    limits = dataclasses.replace(POLICY.limits, stuck=0.1)
    bed.request = dataclasses.replace(REQUEST, policy=dataclasses.replace(POLICY, limits=limits))
    known(bed, *others) if others else None
    report = bed.run()
    assert report.verdict is Verdict(verdict), report.reasons


def test_a_case_that_proved_its_erase_is_learned_from(bed: Bed) -> None:  # noqa: F811
    report = bed.run()
    assert report.verdict is Verdict.ERASED
    rows = duration_files.rows(bed.files.state_dir)
    assert {row.method for row in rows} == {Method.SANITIZE_CRYPTO, BLOCK}
    assert {(row.model, row.firmware, row.drives) for row in rows} == {("Model", "FW1", 1)}


def test_a_case_that_did_not_is_not(bed: Bed) -> None:  # noqa: F811
    bed.drive.stale = True
    assert bed.run().verdict is not Verdict.ERASED
    assert duration_files.rows(bed.files.state_dir) == ()


def test_the_plan_that_is_shown_is_the_one_that_is_made(bed: Bed) -> None:  # noqa: F811
    known(bed, 100, 200, 300)
    quirk = Quirk(
        "Mod*", "crypto hangs", skip=(Method.SANITIZE_CRYPTO,), limits=LimitOverrides(stuck=60)
    )
    caps, ones = Capabilities(2, 4, 3), (FormatTarget(1, 0),)
    shown = describe(Policy(quirks=(quirk,)), IDENTITY, "FW1", caps, ones, bed.files.state_dir)
    (command,) = shown.commands
    assert (command.method, command.cdw10, command.usual_seconds) == (BLOCK, 2, 200)
    assert command.patience_seconds == 400
    assert (shown.quirks, shown.achieved) == (("Mod* *: crypto hangs",), "Purge")
    nothing = describe(Policy(), IDENTITY, "FW2", Capabilities(2, 4, 0), ones, bed.files.state_dir)
    assert "allow_clear" in nothing.refusal
    assert nothing.limits == Limits()


def test_longer_limits_of_a_quirk_are_no_other_work() -> None:
    """A limit that was too short is mended by calling again, wherever it stands."""

    def work(*quirks: Quirk) -> str:
        policy = dataclasses.replace(POLICY, quirks=quirks)
        return dataclasses.replace(REQUEST, policy=policy).same_work

    longer = Quirk("Model", "r", limits=LimitOverrides(stuck=60))
    skips = Quirk("Model", "r", skip=(BLOCK,))
    assert work(longer) == work()
    assert work(dataclasses.replace(skips, limits=longer.limits)) == work(skips)
    assert work(skips) != work()


def test_what_a_person_says_now_counts_more_than_a_quirk(tmp_path: Path) -> None:
    quirk = Quirk("*", "slow", limits=LimitOverrides(stuck=60, ready=30))
    profile, policy = tmp_path / "profile", tmp_path / "policy"
    profile.write_bytes(codec.canonical(REQUEST.profile))
    policy.write_bytes(codec.canonical(Policy(quirks=(quirk,))))
    parser = argparse.ArgumentParser()
    cli_erase.add_arguments(parser, "erase")
    words = [
        "--pci",
        "0000:01:00.0",
        "--any-drive",
        "--profile",
        str(profile),
        "--policy",
        str(policy),
    ]
    request = cli_erase._request(parser.parse_args([*words, "--stuck-after", "5"]))
    limits = apply(request.policy, 1, "M", "F").limits
    assert (limits.stuck, limits.ready, request.policy.limits.stuck) == (5, 30, 5)
