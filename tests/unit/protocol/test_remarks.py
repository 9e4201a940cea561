"""Health: every finding, its threshold, and what the policy's table makes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from eraser.protocol.conclusions.remarks import remarks
from eraser.protocol.fitness import Consequence, Health, HealthFinding
from eraser.protocol.report import HealthRecord, LinkRecord
from tests.unit.case.fakes import FACTS

SOUND = HealthRecord(0, 100, 10, 3, 7, 7, 123456, 7890, 12, 345, 310)
HOLD, RETIRE, NOTE = Consequence.HOLD, Consequence.RETIRE, Consequence.NOTE


def found(policy: Health | None = None, **changes: Any) -> list[tuple[HealthFinding, Consequence]]:
    seen = remarks(replace(SOUND, **changes), policy or Health())
    assert all(remark.text.startswith("health: expected") for remark in seen)
    return [(remark.finding, remark.consequence) for remark in seen]


@pytest.mark.parametrize(
    ("bit", "finding", "consequence"),
    [
        (0, HealthFinding.SPARE_LOW, RETIRE),
        (1, HealthFinding.HOT, NOTE),
        (2, HealthFinding.UNRELIABLE, RETIRE),
        (3, HealthFinding.READ_ONLY, RETIRE),
        (4, HealthFinding.BACKUP_FAILED, HOLD),
        (5, HealthFinding.MEMORY_READ_ONLY, HOLD),
        (6, HealthFinding.OTHER_WARNING, HOLD),
        (7, HealthFinding.OTHER_WARNING, HOLD),
    ],
)
def test_each_bit_of_critical_warning(
    bit: int, finding: HealthFinding, consequence: Consequence
) -> None:
    assert found(critical_warning=1 << bit) == [(finding, consequence)]
    tolerant = Health(allow_critical_warning=True)
    assert found(tolerant, critical_warning=1 << bit) == [(finding, NOTE)]


@pytest.mark.parametrize(
    ("spare", "threshold", "least", "expected"),
    [
        (10, 10, 0, []),
        (9, 10, 0, [(HealthFinding.SPARE_LOW, RETIRE)]),
        (9, 10, 99, [(HealthFinding.SPARE_LOW, RETIRE)]),
        # Retired is for good: a policy's number that somebody mistyped does not cost a fleet.
        (50, 10, 51, [(HealthFinding.SPARE_SHORT, HOLD)]),
        (51, 10, 51, []),
        (0, 10, 0, []),  # without its warning a 0 is a drive that does not count spare
        (255, 10, 0, []),
        (5, 255, 0, []),
        (100, 0, 100, []),
    ],
)
def test_spare_is_held_against_drive_and_policy(
    spare: int, threshold: int, least: int, expected: list[tuple[HealthFinding, Consequence]]
) -> None:
    seen = found(
        Health(min_available_spare=least), available_spare=spare, spare_threshold=threshold
    )
    assert seen == expected


def test_one_finding_is_one_remark() -> None:
    assert len(found(critical_warning=1, available_spare=1, spare_threshold=10)) == 1


def test_wear_and_media_errors() -> None:
    assert found(percentage_used=100) == []
    assert found(percentage_used=101) == [(HealthFinding.WORN, HOLD)]
    assert found(media_errors_after=8) == [(HealthFinding.MEDIA_ERRORS, HOLD)]
    assert found(Health(max_new_media_errors=1), media_errors_after=8) == []
    assert found(Health(max_percentage_used=255), percentage_used=255) == []


def test_media_errors_say_nothing_where_an_erase_leaves_protection_information_wrong() -> None:
    plain = FACTS.namespaces[0]
    health = replace(SOUND, media_errors_after=8)
    for look in (
        replace(FACTS, namespaces=(replace(plain, protection=1),)),
        replace(FACTS, detached=(replace(plain, protection=0xB),)),
    ):
        for looks in ((look, FACTS), (FACTS, look), (look, None)):
            [remark] = remarks(health, Health(retire=(HealthFinding.MEDIA_ERRORS,)), *looks)
            assert remark.consequence is NOTE
            assert "protection information" in remark.text
            [worn] = remarks(replace(SOUND, percentage_used=101), Health(), *looks)
            assert worn.consequence is HOLD
    first = replace(FACTS, namespaces=(replace(plain, protection=0x8),))
    [remark] = remarks(health, Health(), first, FACTS)
    assert remark.consequence is HOLD, "bit 3 says where it lies, and is no type"


@pytest.mark.parametrize(
    ("link", "findings"),
    [
        (LinkRecord(16, 4, 16, 4), []),
        (LinkRecord(16, 2, 16, 4), [(HealthFinding.LINK_NARROW, HOLD)]),
        (LinkRecord(2.5, 4, 16, 4), [(HealthFinding.LINK_SLOW, NOTE)]),
        (
            LinkRecord(2.5, 1, 16, 4),
            [(HealthFinding.LINK_NARROW, HOLD), (HealthFinding.LINK_SLOW, NOTE)],
        ),
        (LinkRecord(16, 4, 0, 0), []),
        (LinkRecord(16, 8, 8, 4), []),
    ],
)
def test_a_link_below_what_both_ends_can(
    link: LinkRecord, findings: list[tuple[HealthFinding, Consequence]]
) -> None:
    assert found(link=link) == findings


def test_the_table_is_the_policys() -> None:
    policy = Health(
        retire=(HealthFinding.WORN,), note=(HealthFinding.SPARE_LOW,), max_percentage_used=90
    )
    assert found(policy, percentage_used=91, critical_warning=9) == [
        (HealthFinding.SPARE_LOW, NOTE),
        (HealthFinding.READ_ONLY, HOLD),
        (HealthFinding.WORN, RETIRE),
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_percentage_used": 256},
        {"min_available_spare": 101},
        {"max_new_media_errors": -1},
        {"retire": (HealthFinding.HOT,), "note": (HealthFinding.HOT,)},
    ],
)
def test_a_table_that_contradicts_itself_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        Health(**wrong)
