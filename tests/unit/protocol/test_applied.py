"""Quirks and permissions: what a policy means for one drive."""

from __future__ import annotations

import pytest

from eraser.protocol import codec
from eraser.protocol.conclusions.applied import Applied, apply, tolerated
from eraser.protocol.errors import BadInputError
from eraser.protocol.policy import Label, LimitOverrides, Limits, Method, Policy, Quirk
from eraser.protocol.report import MethodRecord, Verdict

CRYPTO, BLOCK = Method.SANITIZE_CRYPTO, Method.SANITIZE_BLOCK
USER, KEY = Method.FORMAT_USER_DATA, Method.FORMAT_CRYPTO
HANGS = Quirk("SLOW DRIVE 1*", "block sanitize hangs at 99 %", skip=(BLOCK,))
LONG = Quirk("SLOW DRIVE 15T", "big", firmware="F2*", limits=LimitOverrides(stuck=7200, ready=300))


@pytest.mark.parametrize(
    ("vendor", "model", "firmware", "fits"),
    [
        (0x144D, "SLOW DRIVE 15T", "F1", True),
        (0x144D, "SLOW DRIVE 1", "F1", True),
        (0x144D, "SLOW DRIVE 2T", "F1", False),
        (0x144D, "slow drive 15t", "F1", False),
        (0x8086, "SLOW DRIVE 15T", "F1", False),
    ],
)
def test_a_quirk_is_about_its_model_alone(
    vendor: int, model: str, firmware: str, fits: bool
) -> None:
    quirk = Quirk("SLOW DRIVE 1*", "x", vendor_id=0x144D, skip=(BLOCK,))
    found = apply(Policy(quirks=(quirk,)), vendor, model, firmware)
    assert found.quirks == ((quirk,) if fits else ())
    assert found.purge_methods == ((CRYPTO,) if fits else (CRYPTO, BLOCK))
    assert found.skipped == ((BLOCK,) if fits else ())


def test_without_a_quirk_that_fits_it_is_the_policy() -> None:
    policy = Policy(quirks=(HANGS, LONG))
    assert apply(policy, 1, "OTHER", "F2") == Applied.plain(policy)


def test_quirks_add_up_and_the_last_limit_counts() -> None:
    later = Quirk("*", "all are slow", limits=LimitOverrides(stuck=60))
    found = apply(Policy(quirks=(HANGS, LONG, later)), 1, "SLOW DRIVE 15T", "F2.1")
    assert found.quirks == (HANGS, LONG, later)
    assert (found.limits.stuck, found.limits.ready) == (60, 300)
    assert found.limits.format == Limits().format


def test_another_order_and_another_list() -> None:
    turned = Quirk("M", "crypto first leaves it mute", purge_methods=(BLOCK, CRYPTO))
    assert apply(Policy(quirks=(turned,)), 1, "M", "F").purge_methods == (BLOCK, CRYPTO)
    only = Quirk("M", "x", clear_methods=(KEY,))
    found = apply(Policy(quirks=(only,)), 1, "M", "F")
    assert (found.clear_methods, found.skipped) == ((KEY,), (USER,))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"model": "M*X", "reason": "r", "skip": ["sanitize-block"]}', "at most one * at its end"),
        ('{"model": "", "reason": "r", "skip": ["sanitize-block"]}', "model"),
        ('{"model": "M", "reason": " ", "skip": ["sanitize-block"]}', "reason of 1 to 300"),
        ('{"model": "M", "reason": "r"}', "change something"),
        ('{"model": "M", "reason": "r", "skip": ["sanitise"]}', "one of sanitize-crypto"),
        ('{"model": "M", "reason": "r", "limits": {"stuck": -1}}', "0 < stuck"),
        ('{"model": "M", "reason": "r", "limits": {"stuk": 1}}', "'stuk'"),
        ('{"model": "M", "reason": "r", "purge_methods": ["format-crypto"]}', "Format is Clear"),
        (
            '{"model": "M", "reason": "r", "clear_methods": ["format-crypto", "format-crypto"]}',
            "each method once",
        ),
    ],
)
def test_a_mistake_in_a_quirk_is_one_line(text: str, said: str) -> None:
    with pytest.raises(BadInputError) as caught:
        codec.load(Policy, f'{{"quirks": [{text}]}}', "policy.json")
    assert said in str(caught.value)
    assert "policy.json.quirks[0]" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_quirks_survive_the_wire() -> None:
    policy = Policy(quirks=(HANGS, LONG))
    assert codec.load(Policy, codec.canonical(policy), "policy") == policy
    with pytest.raises(ValueError, match="at most 256 quirks"):
        Policy(quirks=(HANGS,) * 257)


def method(kind: Method, verdict: Verdict) -> MethodRecord:
    return MethodRecord(kind, 4, 0, 1, False, "", "", True, verdict, "", 0.0)


@pytest.mark.parametrize(
    ("policy", "first", "last", "passes"),
    [
        (Policy(allow_failed=True), Verdict.NOT_ERASED, Verdict.ERASED, True),
        (Policy(), Verdict.NOT_ERASED, Verdict.ERASED, False),
        (Policy(allow_failed=True), Verdict.UNKNOWN, Verdict.ERASED, False),
        (Policy(allow_failed=True), Verdict.NOT_ERASED, Verdict.UNKNOWN, False),
        (Policy(allow_failed=True), Verdict.NOT_ERASED, Verdict.NOT_ERASED, False),
        (Policy(allow_failed=True, label=Label.CLEAR), Verdict.NOT_ERASED, Verdict.ERASED, False),
    ],
)
def test_a_failed_method_passes_with_permission_and_another_success_alone(
    policy: Policy, first: Verdict, last: Verdict, passes: bool
) -> None:
    methods = (method(CRYPTO, first), method(BLOCK, last))
    assert tolerated(policy, methods) == (methods[:1] if passes else ())


def test_no_format_is_let_fail() -> None:
    methods = (method(USER, Verdict.NOT_ERASED), method(USER, Verdict.ERASED))
    assert tolerated(Policy(allow_failed=True), methods) == ()
    assert tolerated(Policy(allow_failed=True), ()) == ()
