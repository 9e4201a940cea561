"""What is sent to which drive: a table of policies and capabilities."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eraser.erase.plan import (
    BROADCAST,
    OPCODE_FORMAT,
    OPCODE_SANITIZE,
    PURGE_REQUIRED,
    Capabilities,
    ErasePlan,
    FormatTarget,
    format_cdw10,
    make_plan,
)
from eraser.protocol.conclusions.applied import apply
from eraser.protocol.policy import Label, LimitOverrides, Method, Policy, Quirk

ONE = (FormatTarget(1, 0),)
ALIKE = (FormatTarget(1, 1), FormatTarget(2, 1), FormatTarget(7, 1))
MIXED = (FormatTarget(1, 0), FormatTarget(2, 1))
BOTH = Capabilities(oacs=2, fna=4, sanicap=0b111)
FORMAT_ONLY = Capabilities(oacs=2, fna=4, sanicap=0)
NOTHING = Capabilities(oacs=0, fna=4, sanicap=0b100)
PURGE = Policy()
MAY_CLEAR = Policy(allow_clear=True)
CLEAR = Policy(label=Label.CLEAR)


def test_purge_runs_every_offered_method_in_the_policys_order() -> None:
    plan = make_plan(PURGE, BOTH, ONE)
    assert [(c.method, c.opcode, c.nsid, c.cdw10) for c in plan.commands] == [
        (Method.SANITIZE_CRYPTO, OPCODE_SANITIZE, 0, 0b100),
        (Method.SANITIZE_BLOCK, OPCODE_SANITIZE, 0, 0b010),
    ]
    assert (plan.achieved, plan.downgraded, plan.refusal) == (Label.PURGE, False, "")
    other = Policy(purge_methods=(Method.SANITIZE_BLOCK, Method.SANITIZE_CRYPTO))
    assert [c.cdw10 for c in make_plan(other, BOTH, ONE).commands] == [2, 4]


@pytest.mark.parametrize("sanicap", range(8))
def test_only_what_the_drive_offers_is_sent(sanicap: int) -> None:
    plan = make_plan(PURGE, Capabilities(2, 4, sanicap), ONE)
    expected = [cdw10 for bit, cdw10 in ((1, 4), (2, 2)) if sanicap & bit]
    assert [c.cdw10 for c in plan.commands] == expected
    assert bool(plan.refusal) == (not expected)


def test_no_sanitize_command_ever_asks_for_more_than_the_erase() -> None:
    """AUSE, no-deallocate and media verification bits stay 0."""
    for command in make_plan(PURGE, BOTH, ONE).commands:
        assert command.cdw10 & ~0b111 == 0


def test_a_drive_that_can_report_a_purge_is_asked_to_purge_or_fail() -> None:
    plan = make_plan(PURGE, replace(BOTH, sanicap=0b100111), ONE)
    assert [c.cdw10 for c in plan.commands] == [4 | PURGE_REQUIRED, 2 | PURGE_REQUIRED]


def test_no_downgrade_without_permission() -> None:
    plan = make_plan(PURGE, FORMAT_ONLY, ONE)
    assert (plan.commands, plan.achieved, plan.downgraded) == ((), None, False)
    assert "allow_clear" in plan.refusal
    assert "allow_clear" not in make_plan(PURGE, NOTHING, ONE).refusal


def test_a_permitted_downgrade_is_named() -> None:
    plan = make_plan(MAY_CLEAR, FORMAT_ONLY, ONE)
    assert [c.method for c in plan.commands] == [Method.FORMAT_USER_DATA]
    assert (plan.achieved, plan.downgraded) == (Label.CLEAR, True)
    assert not make_plan(MAY_CLEAR, BOTH, ONE).downgraded


def test_clear_takes_the_first_offered_and_purge_where_there_is_none() -> None:
    assert [c.method for c in make_plan(CLEAR, BOTH, ONE).commands] == [Method.FORMAT_USER_DATA]
    crypto = Policy(label=Label.CLEAR, clear_methods=(Method.FORMAT_CRYPTO,))
    assert [c.cdw10 for c in make_plan(crypto, BOTH, ONE).commands] == [0b010 << 9]
    no_crypto = Capabilities(oacs=2, fna=0, sanicap=0)
    assert make_plan(crypto, no_crypto, ONE).commands == ()
    more = make_plan(CLEAR, Capabilities(oacs=0, fna=0, sanicap=2), ONE)
    assert (more.achieved, [c.opcode for c in more.commands]) == (Label.PURGE, [OPCODE_SANITIZE])


@pytest.mark.parametrize(
    ("fna", "targets", "nsids"),
    [
        (0b0100, ALIKE, [1, 2, 7]),
        (0b0101, ALIKE, [1, 2, 7]),  # bit 0 is about a Format without erase
        (0b0110, ALIKE, [BROADCAST]),
        (0b0111, ALIKE, [BROADCAST]),
        (0b1110, ALIKE, [1]),  # all are erased anyway, and broadcast is not supported
        (0b1100, ALIKE, [1, 2, 7]),
        (0b0110, MIXED, [1, 2]),  # a broadcast would set one format for both
        (0b0110, ONE, [1]),
    ],
)
def test_format_names_namespaces(
    fna: int, targets: tuple[FormatTarget, ...], nsids: list[int]
) -> None:
    plan = make_plan(MAY_CLEAR, Capabilities(2, fna, 0), targets)
    assert [c.nsid for c in plan.commands] == nsids
    by_nsid = {target.nsid: target.lba_format for target in targets}
    for command in plan.commands:
        assert command.opcode == OPCODE_FORMAT
        assert command.cdw10 >> 9 & 0b111 == 1, "SES is always given"
        assert command.cdw10 & 0xF == by_nsid.get(command.nsid, 1), "the LBA format stays"


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (FormatTarget(1, 0), 0x200),
        (FormatTarget(1, 3), 0x203),
        (FormatTarget(1, 0x2A), 0x220A),  # bits 5:4 of the index in 13:12
        (FormatTarget(1, 1, extended_metadata=True), 0x211),
        (FormatTarget(1, 1, protection=0b0011), 0x261),
        (FormatTarget(1, 1, protection=0b1001), 0x321),
    ],
)
def test_format_dword_10(target: FormatTarget, expected: int) -> None:
    assert format_cdw10(Method.FORMAT_USER_DATA, target) == expected


def test_an_impossible_format_is_refused() -> None:
    with pytest.raises(ValueError, match="0 to 63"):
        format_cdw10(Method.FORMAT_USER_DATA, FormatTarget(1, 64))


def test_fewer_methods_than_named_need_their_permission() -> None:
    strict = Policy(allow_fewer=False, allow_clear=True)
    assert [c.cdw10 for c in make_plan(strict, BOTH, ONE).commands] == [4, 2]
    plan = make_plan(strict, Capabilities(2, 4, 0b01), ONE)
    assert (plan.commands, plan.achieved) == ((), None), "and Clear is no way around it"
    assert "sanitize-crypto and sanitize-block, the drive offers sanitize-crypto" in plan.refusal
    assert "(allow_fewer)" in plan.refusal
    assert make_plan(strict, FORMAT_ONLY, ONE).downgraded, "none at all is allow_clear's matter"


def quirky(policy: Policy, **changes: object) -> ErasePlan:
    quirk = Quirk("M", "a reason", **changes)  # type: ignore[arg-type]
    return make_plan(policy, BOTH, ONE, apply(replace(policy, quirks=(quirk,)), 1, "M", "F"))


def test_a_quirk_skips_reorders_and_needs_no_other_permission() -> None:
    strict = Policy(allow_fewer=False)
    assert [c.cdw10 for c in quirky(strict, skip=(Method.SANITIZE_CRYPTO,)).commands] == [2]
    turned = (Method.SANITIZE_BLOCK, Method.SANITIZE_CRYPTO)
    assert [c.cdw10 for c in quirky(PURGE, purge_methods=turned).commands] == [2, 4]
    formats = quirky(CLEAR, skip=(Method.FORMAT_USER_DATA,))
    assert [c.method for c in formats.commands] == [Method.FORMAT_CRYPTO]


def test_a_quirk_that_leaves_no_purge_is_no_silent_clear() -> None:
    both = (Method.SANITIZE_BLOCK, Method.SANITIZE_CRYPTO)
    plan = quirky(PURGE, skip=both)
    assert (plan.commands, plan.achieved) == ((), None)
    assert "quirks for its model skip sanitize-crypto, sanitize-block" in plan.refusal
    assert "allow_clear" in plan.refusal
    plan = quirky(MAY_CLEAR, skip=both)
    assert (plan.achieved, plan.downgraded) == (Label.CLEAR, True)


methods = st.lists(st.sampled_from(list(Method)), unique=True, max_size=4)


@given(
    st.lists(st.tuples(methods, methods), max_size=4),
    st.integers(0, 7),
    st.booleans(),
    st.booleans(),
)
def test_no_quirk_ever_has_sent_what_it_skips_or_nobody_named(
    given_: list[tuple[list[Method], list[Method]]], sanicap: int, fewer: bool, clear: bool
) -> None:
    quirks = tuple(
        Quirk(
            "M",
            "r",
            skip=tuple(skip),
            purge_methods=tuple(m for m in named if m.is_sanitize),
            clear_methods=tuple(m for m in named if not m.is_sanitize),
            limits=LimitOverrides(stuck=1),
        )
        for skip, named in given_
    )
    policy = Policy(allow_fewer=fewer, allow_clear=clear, quirks=quirks)
    applied = apply(policy, 1, "M", "F")
    plan = make_plan(policy, Capabilities(2, 4, sanicap), ONE, applied)
    sent = [command.method for command in plan.commands]
    assert not {m for quirk in quirks for m in quirk.skip} & set(sent)
    assert set(sent) <= set(applied.purge_methods) | set(applied.clear_methods)
    assert not set(sent) & set(applied.skipped)
    assert bool(sent) != bool(plan.refusal)
    if plan.achieved is Label.CLEAR:
        assert clear, "never without its permission"
