"""A running cloud comes under our care, on the real Placement."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eraser.protocol import codec
from eraser.protocol.identity import Slot
from eraser.protocol.report import Hello, SeenDrive
from eraser.protocol.transport.signing import PrivateKey
from quarantine import cli, users
from quarantine.api import application
from quarantine.cloud.facts import provider_name
from quarantine.errors import BadInputError, ConflictError, StaleError, UnavailableError
from quarantine.operations.enrol import (
    EnrolmentFate,
    EnrolmentRequest,
    EnrolmentTerms,
    carry_out,
    enrol,
    take_as_planned,
)
from quarantine.operations.plane import Plane, ServingPlane
from quarantine.operations.survey import survey
from quarantine.record.words.facts import Initiator
from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import Event, State
from quarantine.rules import holds
from tests.lab.services.faults import Fault, Kind
from tests.services.pool import ADDRESS, EITHER, Pool
from tests.unit.quarantine.api.client import Client
from tests.unit.quarantine.testimony import PROFILE

TERMS = EnrolmentTerms("p", "q")

pytestmark = pytest.mark.services


@pytest.fixture(params=EITHER)
def placement(request: pytest.FixtureRequest) -> Any:
    """The simulated one, where nobody asks for the real one too."""
    return request.getfixturevalue(request.param)


ADDRESSES = (ADDRESS, "0000:82:00.0", "0000:83:00.0")


def running(pool: Pool) -> tuple[Slot, ...]:
    """A host of three drives; a tenant has one of them."""
    pool.nova.start_compute(pool.slot.host, ADDRESSES)
    server = pool.nova.boot()
    (used,) = server.addresses
    free = [Slot(pool.slot.host, a) for a in ADDRESSES if a != used]
    return (Slot(pool.slot.host, used), *free)


def take(pool: Pool, **where: str) -> dict[Slot, EnrolmentFate]:
    """Survey and enrolment, as the command does them."""
    planned = survey(pool.store, pool.placement, **where)
    done = carry_out(pool.store, pool.placement, planned, TERMS)
    return {one.slot: one.fate for one in done}


def tell(pool: Pool, *drives: SeenDrive) -> None:
    """The host's word about its slots."""
    host = pool.slot.host
    known = pool.store.host(host)
    if known is None:
        known = pool.store.register_host(host, PrivateKey.generate().public, "life-of-the-host-1")
    number = known.sequence + 1
    hello = Hello(host, known.incarnation, number, "1", drives, ())
    pool.store.host_seen(host, number, hello)


def on_offer(pool: Pool) -> set[Slot]:
    return {p.slot for p in pool.placement.offered(pool.resource_class) if p.slot}


def test_a_host_is_enrolled_as_it_stands(pool: Pool) -> None:
    used, one, two = running(pool)
    fates = take(pool, host=pool.slot.host)
    assert fates == {used: EnrolmentFate.IN_USE, one: EnrolmentFate.FREE, two: EnrolmentFate.FREE}
    states = {record.slot: record.state for record in pool.store.slots()}
    assert states == {used: State.IN_USE, one: State.RELEASED, two: State.RELEASED}
    assert on_offer(pool) == set()
    # Nobody laid hands on what the tenant has.
    touched = " ".join(path for _method, path in pool.proxy.changes())
    provider = pool.placement.by_slot(used)
    assert provider is not None
    assert provider.uuid not in touched


def test_doing_it_again_changes_nothing(pool: Pool) -> None:
    running(pool)
    take(pool, host=pool.slot.host)
    before, records = len(pool.proxy.changes()), pool.store.slots()
    assert set(take(pool, host=pool.slot.host).values()) == {EnrolmentFate.KNOWN}
    assert len(pool.proxy.changes()) == before
    assert pool.store.slots() == records


def test_one_slot_again_takes_nothing_from_the_pool(pool: Pool) -> None:
    pool.make_available()
    before = len(pool.proxy.changes())
    with pytest.raises(ConflictError, match="found it available"):
        enrol(pool.store, pool.placement, pool.slot, TERMS)
    assert len(pool.proxy.changes()) == before
    assert pool.on_offer


def test_a_plan_changes_nothing(pool: Pool) -> None:
    used, one, two = running(pool)
    planned = survey(pool.store, pool.placement, host=pool.slot.host)
    assert {p.slot: p.fate for p in planned} == {
        used: EnrolmentFate.IN_USE,
        one: EnrolmentFate.FREE,
        two: EnrolmentFate.FREE,
    }
    assert pool.proxy.changes() == []
    assert pool.store.slots() == []


def test_every_free_slot_is_reserved_before_the_first_record(pool: Pool) -> None:
    used, *_free = running(pool)
    planned = survey(pool.store, pool.placement, host=pool.slot.host)
    seen: list[int] = []

    def note() -> None:
        seen.append(len(pool.store.slots()))

    pool.proxy.inject(Fault(Kind.CALL, "PUT", "/resource_providers/.*/inventories", call=note))
    carry_out(pool.store, pool.placement, planned, TERMS)
    assert seen == [0, 0]
    assert pool.store.slot(used) is not None


def test_a_death_half_way_leaves_everything_reserved_and_is_taken_up_again(pool: Pool) -> None:
    running(pool)
    planned = survey(pool.store, pool.placement, host=pool.slot.host)
    last = [one.view for one in planned if one.fate is EnrolmentFate.FREE][-1]
    assert last is not None
    path = f"/resource_providers/{last.provider.uuid}/inventories"
    pool.proxy.inject(Fault(Kind.STATUS, "PUT", path, status=503))
    with pytest.raises(UnavailableError):
        carry_out(pool.store, pool.placement, planned, TERMS)
    assert pool.store.slots() == []
    pool.proxy.heal()
    assert len(on_offer(pool)) == 1
    assert set(take(pool, host=pool.slot.host).values()) == {
        EnrolmentFate.IN_USE,
        EnrolmentFate.FREE,
    }
    assert on_offer(pool) == set()


def test_a_slot_that_never_stands_still_keeps_no_other_out(pool: Pool) -> None:
    running(pool)
    planned = survey(pool.store, pool.placement, host=pool.slot.host)
    restless, other = (one for one in planned if one.fate is EnrolmentFate.FREE)
    assert restless.view is not None
    path = f"/resource_providers/{restless.view.provider.uuid}/inventories"
    pool.proxy.inject(Fault(Kind.STATUS, "PUT", path, status=409))
    done = carry_out(pool.store, pool.placement, planned, TERMS)
    fates = {one.slot: one.fate for one in done}
    assert (fates[restless.slot], fates[other.slot]) == (EnrolmentFate.REFUSED, EnrolmentFate.FREE)
    assert pool.store.slot(restless.slot) is None
    assert pool.store.slot(other.slot) is not None


def test_a_slot_that_is_claimed_under_us_is_in_use(pool: Pool) -> None:
    pool.nova.start_compute(pool.slot.host, [ADDRESS])
    planned = survey(pool.store, pool.placement, host=pool.slot.host)
    server = pool.nova.boot()
    (done,) = carry_out(pool.store, pool.placement, planned, TERMS)
    assert (done.fate, done.consumer) == (EnrolmentFate.IN_USE, server.uuid)
    assert pool.record.state is State.IN_USE


def test_a_class_takes_all_hosts_and_names_who_is_no_one_time_use_device(pool: Pool) -> None:
    running(pool)
    other = f"{pool.slot.host}-b"
    pool.nova.start_compute(other, [ADDRESS], one_time_use=False)
    planned = survey(pool.store, pool.placement, resource_class=pool.resource_class)
    (refused,) = [one for one in planned if one.fate is EnrolmentFate.REFUSED]
    assert refused.slot == Slot(other, ADDRESS)
    assert "one_time_use" in refused.reason
    assert len(planned) == 4
    by_host = survey(pool.store, pool.placement, host=other)
    assert [one.fate for one in by_host] == [EnrolmentFate.REFUSED]


def test_a_retired_slot_is_not_taken_again_by_the_way(pool: Pool) -> None:
    pool.enrol()
    pool.store.transition(pool.record, Event.RETIRED, reason="worn")
    assert set(take(pool, host=pool.slot.host).values()) == {EnrolmentFate.KNOWN}
    assert pool.record.state is State.RETIRED
    record = enrol(pool.store, pool.placement, pool.slot, TERMS)
    assert record.state is State.RELEASED


def test_a_retired_drive_is_refused_before_anything_is_written(pool: Pool) -> None:
    """It was erased in full, and only then held."""
    pool.enrol()
    pool.store.transition(pool.record, Event.RETIRED, reason="worn")
    old = pool.identity
    tell(pool, SeenDrive(ADDRESS, "nvme", old, group=(), system=False))
    before = len(pool.proxy.changes())
    with pytest.raises(BadInputError, match=r"retired \(worn\): pull it"):
        enrol(pool.store, pool.placement, pool.slot, TERMS)
    assert pool.record.state is State.RETIRED
    # The same drive in a slot that nobody has enrolled yet.
    other = "0000:82:00.0"
    pool.nova.start_compute(pool.slot.host, [ADDRESS, other])
    tell(pool, SeenDrive(other, "nvme", old, group=(), system=False))
    fates = take(pool, host=pool.slot.host)
    assert fates == {
        pool.slot: EnrolmentFate.KNOWN,
        Slot(pool.slot.host, other): EnrolmentFate.REFUSED,
    }
    assert len(pool.proxy.changes()) == before
    # A tenant has it, whatever it is: then it is watched.
    pool.nova.boot()
    assert set(take(pool, host=pool.slot.host).values()) == {
        EnrolmentFate.KNOWN,
        EnrolmentFate.IN_USE,
    }


def test_a_retired_slot_takes_another_drive(pool: Pool) -> None:
    pool.enrol()
    pool.store.transition(pool.record, Event.RETIRED, reason="worn")
    tell(
        pool,
        SeenDrive(ADDRESS, "nvme", replace(pool.identity, serial="NEW"), group=(), system=False),
    )
    record = enrol(pool.store, pool.placement, pool.slot, TERMS)
    assert record.state is State.RELEASED


def test_nobody_there_is_said(pool: Pool) -> None:
    with pytest.raises(BadInputError, match="nobody"):
        survey(pool.store, pool.placement, host="nobody")
    with pytest.raises(BadInputError, match="CUSTOM_NOT_THERE"):
        survey(pool.store, pool.placement, resource_class="CUSTOM_NOT_THERE")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda drive: replace(drive, group=("0000:84:00.0",)), "0000:84:00.0"),
        (lambda drive: replace(drive, system=True), "runs from"),
        (lambda drive: replace(drive, driver="vfio-pci", identity=None), "vfio-pci"),
        (lambda drive: replace(drive, driver="", identity=None), "none"),
    ],
    ids=["shared-group", "system-drive", "vfio", "unbound"],
)
def test_what_its_host_says_is_wrong_is_refused_and_stays_as_it_is(
    pool: Pool, change: Callable[[SeenDrive], SeenDrive], words: str
) -> None:
    pool.nova.start_compute(pool.slot.host, [ADDRESS])
    drive = SeenDrive(ADDRESS, "nvme", pool.identity, group=(), system=False)
    tell(pool, change(drive))
    (planned,) = survey(pool.store, pool.placement, host=pool.slot.host)
    assert planned.fate is EnrolmentFate.REFUSED
    assert words in planned.reason
    with pytest.raises(BadInputError, match=words):
        enrol(pool.store, pool.placement, pool.slot, TERMS)
    take(pool, host=pool.slot.host)
    assert pool.proxy.changes() == []
    assert pool.store.slots() == []
    tell(pool, drive)
    assert set(take(pool, host=pool.slot.host).values()) == {EnrolmentFate.FREE}


def test_a_tenant_s_drive_is_rightly_on_vfio(pool: Pool) -> None:
    pool.nova.start_compute(pool.slot.host, [ADDRESS])
    pool.nova.boot()
    tell(pool, SeenDrive(ADDRESS, "vfio-pci", None, group=(), system=False))
    assert set(take(pool, host=pool.slot.host).values()) == {EnrolmentFate.IN_USE}


@pytest.fixture
def conf(pool: Pool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A configuration with a key, an approved profile, and a broker that is away."""
    conf = tmp_path / "control.conf"
    conf.write_text(
        f"[database]\nurl = {pool.database}\n[placement]\ncloud = lab\n"
        f"[evidence]\nsigning_key = {tmp_path}/controller.pem\n"
        "[broker]\nurl = redis://127.0.0.1:1/0\ntimeout = 0.5\n"
        "[api]\nauth_strategy = noauth\nallowed_hosts = falconframework.org\n"
    )
    profile = tmp_path / "profile.json"
    profile.write_bytes(codec.canonical(PROFILE))
    head = ["--config-file", str(conf)]
    assert cli.main([*head, "key", "create"]) == 0
    assert cli.main([*head, "profile", "approve", str(profile), "--by", "Ada"]) == 0
    capsys.readouterr()
    return conf


class TestApi:
    """A plan, and then what it said."""

    @pytest.fixture
    def client(self, conf: Path) -> Client:
        return Client(application.make(ServingPlane([conf])))

    def path(self, pool: Pool, **words: str) -> str:
        query = "&".join(f"{name}={word}" for name, word in words.items())
        return f"/v1/hosts/{pool.slot.host}/enrolment?{query}".rstrip("?")

    def test_as_planned(self, pool: Pool, client: Client) -> None:
        used, one, two = running(pool)
        plan = client.get(self.path(pool, profile=PROFILE.name))
        assert plan.status_code == 200
        fates = {each["slot"]: each["fate"] for each in plan.json["slots"]}
        assert sorted(fates.values()) == ["free", "free", "in_use"]
        assert pool.store.slots() == []
        again = client.get(self.path(pool, profile=PROFILE.name))
        assert again.headers["ETag"] == plan.headers["ETag"]
        said = {"profile": PROFILE.name, "reason": "rack 7"}
        tag = plan.headers["ETag"]
        assert client.ask("POST", self.path(pool), said).status_code == 428
        done = client.ask("POST", self.path(pool), said, If_Match=tag)
        assert done.status_code == 200, done.json
        assert {each["slot"]: each["fate"] for each in done.json["slots"]} == fates
        assert done.json["unacted"] == ""
        assert {each.slot for each in pool.store.slots()} == {used, one, two}
        line = client.get(f"/v1/slots/{provider_name(one)}/history").json["history"][0]
        assert line["reason"] == "rack 7"
        assert line["by"]["request_id"] == done.headers["X-Openstack-Request-Id"]
        # Done twice: by the old plan not, by a new one nothing.
        assert client.ask("POST", self.path(pool), said, If_Match=tag).status_code == 412
        tag = client.get(self.path(pool, profile=PROFILE.name)).headers["ETag"]
        known = client.ask("POST", self.path(pool), said, If_Match=tag)
        assert {each["fate"] for each in known.json["slots"]} == {"known"}

    def test_a_claim_in_between_is_another_plan(
        self, pool: Pool, client: Client, conf: Path
    ) -> None:
        running(pool)
        plan = client.get(self.path(pool, profile=PROFILE.name))
        pool.nova.boot()
        said = {"profile": PROFILE.name, "reason": "x"}
        found = client.ask("POST", self.path(pool), said, If_Match=plan.headers["ETag"])
        assert (found.status_code, pool.store.slots()) == (412, [])
        words = EnrolmentRequest(PROFILE.name, host=pool.slot.host)
        with pytest.raises(StaleError):
            take_as_planned(Plane([conf]), words, (), reason="x", by=Initiator("ada"))
        assert pool.store.slots() == [], "who names no plan has seen none"
        other = {**said, "resource_class": "CUSTOM_NOT_THERE"}
        assert client.ask("POST", self.path(pool), other, If_Match='"x"').status_code == 400

    def test_a_slot_whose_drive_was_replaced(self, pool: Pool, client: Client) -> None:
        """A retired slot is taken anew where it is named, and only there."""
        _used, one, _two = running(pool)
        free = enrol(pool.store, pool.placement, one, TERMS)
        held = pool.store.hold(free, holds.because(HoldCode.BY_PERSON, "smoke"))
        pool.store.transition(held, Event.RETIRED, reason="smoke")
        words = {"profile": PROFILE.name, "address": free.slot.address}
        of_all = client.get(self.path(pool, profile=PROFILE.name)).json["slots"]
        assert {each["slot"]: each["fate"] for each in of_all}[provider_name(free.slot)] == "known"
        plan = client.get(self.path(pool, **words))
        assert [each["fate"] for each in plan.json["slots"]] == ["free"]
        said = {**words, "reason": "new drive"}
        done = client.ask("POST", self.path(pool), said, If_Match=plan.headers["ETag"])
        assert done.status_code == 200, done.json
        after = pool.store.slot(free.slot)
        assert after is not None
        assert after.state in (State.RELEASED, State.QUARANTINED)

    @pytest.mark.parametrize(
        "words",
        [
            {},
            {"profile": "not-approved"},
            {"profile": PROFILE.name, "address": "x"},
            {"profile": PROFILE.name, "address": "0000:99:00.0"},
            {"profile": PROFILE.name, "policy": "none"},
            {"profile": PROFILE.name, "all": "true"},
        ],
    )
    def test_malformed(self, pool: Pool, client: Client, words: dict[str, str]) -> None:
        running(pool)
        assert client.get(self.path(pool, **words)).status_code == 400
        said = {**words, "reason": "x"}
        assert client.ask("POST", self.path(pool), said, If_Match='"x"').status_code == 400
        assert pool.store.slots() == []

    def test_a_host_that_is_none(self, pool: Pool, client: Client) -> None:
        for host in ("nobody", "a%20b", "..%2fx"):
            found = client.get(f"/v1/hosts/{host}/enrolment?profile={PROFILE.name}")
            assert found.status_code in (400, 404), host


class TestCommand:
    """The verb."""

    @pytest.fixture
    def run(
        self, conf: Path, capsys: pytest.CaptureFixture[str]
    ) -> Callable[..., tuple[int, str, str]]:
        head = ["--config-file", str(conf)]

        def call(*words: str) -> tuple[int, str, str]:
            code = cli.main([*head, "slot", "enrol", "--profile", PROFILE.name, *words])
            out = capsys.readouterr()
            return code, out.out, out.err

        return call

    def test_a_host(self, pool: Pool, run: Callable[..., tuple[int, str, str]]) -> None:
        running(pool)
        code, out, err = run("--host", pool.slot.host, "--plan")
        assert code == 0
        assert out.count(" free ") == 2
        assert "nothing was changed" in err
        assert pool.store.slots() == []
        code, out, _err = run("--host", pool.slot.host, "-f", "json")
        assert code == 0
        fates = sorted(one["fate"] for one in json.loads(out))
        assert fates == ["free", "free", "in_use"]
        assert {record.profile for record in pool.store.slots()} == {PROFILE.name}
        for record in pool.store.slots():
            assert pool.store.history(record.slot)[0].by == Initiator(users.who())

    def test_a_refused_slot_is_named_and_the_others_are_taken(
        self, pool: Pool, run: Callable[..., tuple[int, str, str]]
    ) -> None:
        used, one, two = running(pool)
        tell(pool, SeenDrive(one.address, "nvme", None, group=("0000:84:00.0",), system=False))
        code, out, err = run("--resource-class", pool.resource_class)
        assert code == 4
        assert "IOMMU" in out
        assert "1 refused" in err
        assert {record.slot for record in pool.store.slots()} == {used, two}

    def test_one_slot_planned(self, pool: Pool, run: Callable[..., tuple[int, str, str]]) -> None:
        running(pool)
        code, out, _err = run("--host", pool.slot.host, "--pci", ADDRESS, "--plan", "-f", "json")
        assert (code, [one["slot"] for one in json.loads(out)]) == (0, [str(pool.slot)])

    @pytest.mark.parametrize(
        "words",
        [
            (),
            ("--all", "--host", "cmp1"),
            ("--pci", ADDRESS),
            ("--resource-class", "CUSTOM_X", "--pci", ADDRESS),
            ("--host", "../x"),
            ("--host", "cmp1", "--pci", "x"),
            ("--host", "nobody-has-this-name"),
        ],
    )
    def test_malformed(
        self, run: Callable[..., tuple[int, str, str]], words: tuple[str, ...]
    ) -> None:
        code, out, err = run(*words)
        assert (code, out, err.count("\n")) == (2, "", 1)
