"""upgrade-check on the real Placement: it sees what is there, and changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eraser.protocol.identity import Slot
from quarantine import cli
from quarantine.doors import utc_now
from quarantine.errors import UnavailableError
from quarantine.record.words.facts import SlotChanges
from quarantine.upgrade.catalogue import judge
from quarantine.upgrade.facts import ConfigSource, Facts, Role
from quarantine.upgrade.finding import Finding
from quarantine.upgrade.read import CheckScope, gather
from tests.lab.services.faults import Fault, Kind
from tests.services.pool import ADDRESS, Pool

pytestmark = pytest.mark.services

SECOND = "0000:82:00.0"


class NoNova:
    """Nobody answers for Nova."""

    def newest_microversion(self) -> tuple[int, int]:
        raise UnavailableError("Nova does not answer")


def facts(pool: Pool, *sources: ConfigSource) -> Facts:
    """As the command gathers them, of this pool's hosts."""
    hosts = frozenset({pool.slot.host, f"{pool.slot.host}-b"})
    question = CheckScope(sources=sources, hosts=hosts)
    return gather(
        question,
        lambda: pool.store,
        lambda: pool.placement,
        NoNova,
        policies=["q"],
        clock=utc_now,
    )


def named(pool: Pool, *sources: ConfigSource) -> dict[str, list[Finding]]:
    """Certain findings about this pool's slots by check."""
    return {
        result.check.name: found
        for result in judge(facts(pool, *sources))
        if (found := [f for f in result.findings if not f.unknown])
    }


def nova_conf(pool: Pool, path: Path, *addresses: str, one_time_use: str = "true") -> ConfigSource:
    """nova-compute's file on the pool's hosts."""
    lines = [
        json.dumps(
            {
                "address": address,
                "one_time_use": one_time_use,
                "resource_class": pool.resource_class,
            }
        )
        for address in addresses
    ]
    path.write_text(
        "[pci]\nreport_in_placement = true\n" + "".join(f"device_spec = {s}\n" for s in lines)
    )
    return ConfigSource(Role.COMPUTE, None, (path,))


def test_slots_in_good_order_are_not_named_and_nothing_is_written(pool: Pool) -> None:
    pool.make_used()
    before = len(pool.proxy.changes())
    names = named(pool)
    assert set(names) <= {"approved", "host-registered", "host-silent"}
    assert len(pool.proxy.changes()) == before


def test_what_an_operator_did_by_hand_is_named(pool: Pool) -> None:
    pool.make_used()
    pool.put_reserved(0)
    assert str(pool.slot) in named(pool)["reserved"][0].where


def test_a_dropped_flag_is_named_in_the_file_and_in_placement(pool: Pool, tmp_path: Path) -> None:
    pool.make_used()
    pool.nova.start_compute(pool.slot.host, [ADDRESS], one_time_use=False)
    names = named(pool, nova_conf(pool, tmp_path / "nova.conf", ADDRESS, one_time_use="false"))
    for check in ("provider-one-time-use", "device-spec-one-time-use", "resource-class-meaning"):
        assert check in names


def test_a_provider_that_vanished_and_came_back_is_named(pool: Pool) -> None:
    pool.make_available()
    pool.nova.start_compute(pool.slot.host, [])
    assert "provider-present" in named(pool)
    pool.nova.start_compute(pool.slot.host, [ADDRESS])
    names = named(pool)
    assert "provider-present" not in names
    assert "provider-same" in names


def test_a_renamed_class_is_named(pool: Pool) -> None:
    pool.make_used()
    record = pool.record
    pool.store.amend(record, SlotChanges(resource_class="CUSTOM_OLD_NAME"))
    assert "CUSTOM_OLD_NAME" in named(pool)["provider-same"][0].found


def test_what_nobody_enrolled_is_named_by_how_dangerous_it_is(pool: Pool) -> None:
    pool.enrol()
    pool.nova.start_compute(pool.slot.host, [ADDRESS, SECOND])
    second = Slot(pool.slot.host, SECOND)
    names = named(pool)
    assert [f.where for f in names["not-enrolled-offered"]] == [str(second)]
    pool.nova.boot()
    names = named(pool)
    assert "not-enrolled-offered" not in names
    assert [f.where for f in names["not-enrolled"]] == [str(second)]


def test_a_stranger_of_our_class_is_seen_without_the_trait(pool: Pool) -> None:
    pool.enrol()
    other = f"{pool.slot.host}-b"
    pool.nova.start_compute(other, [ADDRESS], one_time_use=False)
    assert f"{other}/{ADDRESS}" in [f.where for f in named(pool)["resource-class-meaning"]]


def test_tracking_and_one_time_use_in_one_restart_of_a_busy_host(
    pool: Pool, tmp_path: Path
) -> None:
    other = f"{pool.slot.host}-b"
    pool.nova.start_compute(other, [ADDRESS])
    pool.nova.boot()
    # As before the first restart: servers, and no device in Placement.
    provider = pool.nova.provider(other, ADDRESS)
    pool.raw("PUT", f"/resource_providers/{provider}", "1.39", {"name": f"gone-{other}"})
    conf = nova_conf(pool, tmp_path / "nova.conf", ADDRESS)
    own = ConfigSource(Role.COMPUTE, other, conf.paths)
    assert other in [f.where for f in named(pool, own)["tracking-first"]]


def test_a_placement_that_does_not_answer_is_named_and_no_check_succeeds_on_it(pool: Pool) -> None:
    pool.make_used()
    pool.proxy.inject(Fault(Kind.STATUS, status=503))
    results = {result.check.name: result for result in judge(facts(pool))}
    assert "503" in results["placement-answers"].findings[0].found
    assert results["reserved"].findings[0].unknown


def test_the_command(pool: Pool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pool.make_used()
    pool.put_reserved(0)
    conf = tmp_path / "control.conf"
    conf.write_text(f"[database]\nurl = {pool.database}\n[placement]\ncloud = lab\n")
    words = ["--config-file", str(conf), "upgrade", "check", "--host", pool.slot.host, "-f", "json"]
    assert cli.main(words) == 2
    checks = {check["check"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["reserved"]["result"] == "failure"
    assert checks["record-readable"]["result"] == "success"
    apart = [finding["found"] for finding in checks["keys-apart"]["findings"]]
    assert [text.partition(" ")[0] for text in apart] == ["[erase]order_key", "[erase]ticket_key"]
    # The lab's cloud has no Nova: its release stays unknown.
    assert checks["nova-release"]["findings"][0]["unknown"]
