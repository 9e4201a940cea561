"""How long a case waits for a drive: by its policy, a quirk, a person, and its order."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eraser.cli import erase as cli_erase
from eraser.cli.plan import describe
from eraser.erase.plan import Capabilities, FormatTarget
from eraser.erase.sanitize import patience
from eraser.protocol import codec
from eraser.protocol.conclusions.applied import apply
from eraser.protocol.identity import Slot
from eraser.protocol.policy import LimitOverrides, Limits, Method, Policy, Quirk
from eraser.protocol.report import Verdict
from tests.unit.case.bed import Bed, bed
from tests.unit.case.fakes import IDENTITY, POLICY, REQUEST

__all__ = ["bed"]

BLOCK = Method.SANITIZE_BLOCK


def uncounted(bed: Bed, seconds: float) -> None:
    """The drive never counts its progress, and is done after a while all the same."""
    ends: list[float] = []

    def meanwhile(opcode: int) -> None:
        if not bed.running:
            ends.clear()
        elif not ends:
            ends.append(bed.clock.now + seconds)
        elif bed.clock.now >= ends[0]:
            bed.sanitizer.end()

    bed.sanitizer.looks = 1 << 30
    bed.meanwhile = meanwhile


@pytest.mark.parametrize(
    ("stuck", "seconds", "verdict"),
    [
        (0.0, 30.0, "unknown"),
        (60.0, 30.0, "erased"),
        (60.0, 6000.0, "unknown"),
        (2_592_000.0, 6000.0, "unknown"),
    ],
    ids=["nothing said", "slow and honest", "stuck", "stuck, and an order says a month"],
)
def test_a_model_known_to_be_slow_is_waited_for(
    bed: Bed, stuck: float, seconds: float, verdict: str
) -> None:
    uncounted(bed, seconds)
    bed.ask(limits=dataclasses.replace(bed.request.policy.limits, stuck=10))
    bed.request = dataclasses.replace(bed.request, stuck=stuck)
    report = bed.run()
    assert report.verdict is Verdict(verdict), report.reasons
    if seconds == 6000.0:
        assert f"limit {min(stuck, 80):g} s" in report.methods[-1].reason


@given(st.floats(0.1, 1e6), st.floats(0, 3e6))
def test_no_order_shortens_the_policys_limit_nor_stretches_it_for_ever(
    configured: float, said: float
) -> None:
    assert configured <= patience(configured, said) <= 8 * configured


def test_what_a_former_release_learned_on_this_host_does_nothing(bed: Bed) -> None:
    old = bed.files.state_dir / "durations"
    old.mkdir(parents=True)
    (old / "0123.json").write_text("{")
    report = bed.run()
    assert report.verdict is Verdict.ERASED
    assert [path.name for path in old.iterdir()] == ["0123.json"]


def test_the_plan_that_is_shown_is_the_one_that_is_made() -> None:
    quirk = Quirk(
        "Mod*", "crypto hangs", skip=(Method.SANITIZE_CRYPTO,), limits=LimitOverrides(stuck=60)
    )
    caps, ones = Capabilities(2, 4, 3), (FormatTarget(1, 0),)
    shown = describe(Policy(quirks=(quirk,)), IDENTITY, "FW1", caps, ones)
    (command,) = shown.commands
    assert (command.method, command.cdw10, command.patience_seconds) == (BLOCK, 2, 60)
    assert (shown.quirks, shown.achieved) == (("Mod* *: crypto hangs",), "Purge")
    nothing = describe(Policy(), IDENTITY, "FW2", Capabilities(2, 4, 0), ones)
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


def test_a_case_that_an_earlier_release_began_is_the_same_work() -> None:
    """Journals have the digest: with another one the upgrade of a host would begin its cases anew.
    It is of the release before the default of ``ready`` was raised (79ba56b5), computed there."""
    slot = Slot("host", "0000:01:00.0")
    for limits in (Limits(), Limits(ready=60.0)):
        request = dataclasses.replace(REQUEST, slot=slot, policy=Policy(limits=limits))
        assert request.same_work == (
            "968d508b727815e04d2fde45c6fb3c81f79f97cf7c0bf772ec70fdd66b35cbb0"
        )
