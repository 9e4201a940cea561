"""Rules that a site made stricter are not gone around by another word for the same thing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.quarantine.api.client import ADMIN, NAMES, Client, Site

ONE = f"/v1/slots/{NAMES[0]}"


def strict(directory: Path, rule: str) -> Client:
    """An administrator of a site that refuses this one rule to everybody."""
    policy = directory / "policy.yaml"
    policy.write_text(f'"nvme_quarantine:{rule}": "!"\n')
    site = Site(directory, options=f"[oslo_policy]\npolicy_file = {policy}\n")
    return site.client().as_user(ADMIN)


@pytest.mark.parametrize("rule", ["slots:hold", "slots:release"])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", f"{ONE}/erase", {"reason": "x"}),
        ("PUT", "/v1/campaigns/fw1", {"query": {"host": "cmp1"}, "reason": "x"}),
        ("POST", "/v1/campaigns/fw1/resume", {"reason": "x"}),
    ],
)
def test_who_may_not_hold_or_release_has_nothing_erased_again(
    tmp_path: Path, rule: str, method: str, path: str, body: Any
) -> None:
    admin = strict(tmp_path, rule)
    tag = admin.get(ONE).headers["ETag"]
    assert admin.ask(method, path, body, If_Match=tag).status_code == 403


def test_who_may_not_see_a_slots_history_sees_not_the_fleets(tmp_path: Path) -> None:
    admin = strict(tmp_path, "slots:history")
    assert admin.get(f"{ONE}/history").status_code == 403
    assert admin.get("/v1/history").status_code == 403


def test_the_same_by_rules_of_their_own(tmp_path: Path) -> None:
    """A site that sets the rule itself has the last word."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        '"nvme_quarantine:slots:history": "!"\n"nvme_quarantine:history:list": "rule:nvme_reader"\n'
    )
    site = Site(tmp_path, options=f"[oslo_policy]\npolicy_file = {policy}\n")
    assert site.client().as_user(ADMIN).get("/v1/history").status_code == 200
