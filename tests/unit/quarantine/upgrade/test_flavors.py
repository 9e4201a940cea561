"""Flavors: made once, refused where they are others, and Nova understands what is printed."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import requests

from eraser.protocol.identity import Slot
from quarantine import cli
from quarantine.cloud.compute import Compute, Flavor
from quarantine.errors import BadInputError, ConflictError, UnavailableError
from quarantine.operations.plane import Plane
from quarantine.operations.setup.flavors import (
    ALIAS_SPEC,
    NUMA_SPEC,
    SIZES,
    FlavorFate,
    FlavorRequest,
    FlavorSize,
    FlavorTerms,
    create,
    differences,
    make,
    nova_conf,
    sizes,
)
from quarantine.record.store import Store
from quarantine.upgrade import options
from quarantine.upgrade.catalogue import judge
from quarantine.upgrade.facts import ConfigSource, Facts, Role
from quarantine.upgrade.finding import FindingLevel
from tests.lab.record import migrated_file
from tests.lab.services.flavors_standin import FlavorsStandIn
from tests.lab.services.placement import CLOUD, write_clouds_yaml
from tests.unit.quarantine.upgradefacts import FREE, USED, Cloud, identity, provider

NAMES = [size.name for size in SIZES]
GOOD = {ALIAS_SPEC: "i1-nvme:1", NUMA_SPEC: "preferred"}


@pytest.fixture
def nova(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FlavorsStandIn]:
    """A stand-in for nova-api, and a clouds.yaml that leads to it."""
    with FlavorsStandIn() as stand_in:
        clouds = write_clouds_yaml(tmp_path / "clouds.yaml", stand_in.url, stand_in.url)
        monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(clouds))
        yield stand_in


@pytest.fixture
def door(nova: FlavorsStandIn) -> Compute:
    return Compute.connect(CLOUD, timeout=10.0)


def test_flavors_are_made_once(nova: FlavorsStandIn, door: Compute) -> None:
    nova.add("m1.small", 1, 2048, 20, {})
    assert create(door, FlavorTerms()) == dict.fromkeys(NAMES, FlavorFate.CREATED)
    assert nova.flavors["i1-90"]["extra_specs"] == {**GOOD, ALIAS_SPEC: "i1-nvme:2"}
    assert nova.flavors["i1-180"]["ram"] == 184320
    writes = len(nova.writes)
    assert create(door, FlavorTerms()) == dict.fromkeys(NAMES, FlavorFate.PRESENT)
    assert len(nova.writes) == writes
    assert nova.flavors["m1.small"]["extra_specs"] == {}


def test_a_creation_that_was_cut_short_is_completed(nova: FlavorsStandIn, door: Compute) -> None:
    nova.broken_after = 3
    with pytest.raises(UnavailableError):
        create(door, FlavorTerms())
    assert nova.flavors["i1-90"]["extra_specs"] == {}
    nova.broken_after = None
    assert create(door, FlavorTerms()) == {
        "i1-45": FlavorFate.PRESENT,
        "i1-90": FlavorFate.COMPLETED,
        "i1-180": FlavorFate.CREATED,
    }
    assert nova.flavors["i1-90"]["extra_specs"][ALIAS_SPEC] == "i1-nvme:2"


@pytest.mark.parametrize(
    ("flavor", "words"),
    [
        ((8, 46080, 50, {**GOOD, ALIAS_SPEC: "i1-nvme:2"}), "expected i1-nvme:1, found i1-nvme:2"),
        ((8, 46080, 50, {**GOOD, "hw:cpu_policy": "dedicated"}), "found dedicated"),
        ((8, 46080, 50, {NUMA_SPEC: "preferred"}), "expected i1-nvme:1, found none"),
        ((4, 46080, 50, {}), "vcpus: expected 8, found 4"),
        ((8, 46080, 0, GOOD), "disk: expected 50, found 0"),
    ],
)
def test_another_flavor_of_the_name_is_refused_and_none_is_made(
    nova: FlavorsStandIn,
    door: Compute,
    flavor: tuple[int, int, int, dict[str, str]],
    words: str,
) -> None:
    nova.add("i1-45", *flavor)
    with pytest.raises(BadInputError) as caught:
        create(door, FlavorTerms())
    assert words in str(caught.value)
    assert nova.writes == []


def test_private_flavors_and_those_of_later_pages_are_seen(
    nova: FlavorsStandIn, door: Compute
) -> None:
    for number in range(5):
        nova.add(f"m{number}", 1, 1, 1, {})
    nova.add("i1-45", 8, 46080, 50, GOOD)
    nova.flavors["i1-45"]["os-flavor-access:is_public"] = False
    assert len(door.flavors()) == 6
    assert create(door, FlavorTerms())["i1-45"] is FlavorFate.PRESENT


def test_two_at_once_are_a_conflict(nova: FlavorsStandIn, door: Compute) -> None:
    nova.add("i1-45", 8, 46080, 50, GOOD)
    with pytest.raises(ConflictError):
        door.create_flavor("i1-45", vcpus=8, ram=46080, disk=50)


def test_nova_that_repeats_itself_ends_the_listing(
    nova: FlavorsStandIn, door: Compute, monkeypatch: pytest.MonkeyPatch
) -> None:
    nova.add("m1", 1, 1, 1, {})
    monkeypatch.setattr(nova, "_listed", lambda _query: list(nova.flavors.values()))
    with pytest.raises(UnavailableError, match="repeats"):
        door.flavors()


def test_nova_tells_its_newest_microversion(nova: FlavorsStandIn, door: Compute) -> None:
    assert door.newest_microversion() == (2, 104)
    nova.version = ""
    with pytest.raises(UnavailableError, match="version"):
        door.newest_microversion()


def test_what_is_printed_is_what_upgrade_check_asks_for(tmp_path: Path) -> None:
    """The whole configuration goes through the reader and every check of Nova's options."""
    cloud = Cloud(tmp_path)
    many = [Slot("cmp9", f"0000:{bus:02x}:00.0") for bus in range(9)]
    drives = [(USED, None), (FREE, identity(FREE)), *((slot, None) for slot in many)]
    texts = nova_conf(FlavorTerms(), drives)
    assert set(texts) == {
        "api",
        "scheduler",
        "conductor",
        "compute@cmp1",
        "compute@cmp9",
        "placement",
    }
    confs = []
    for name, text in texts.items():
        role, _at, host = name.partition("@")
        source = ConfigSource(Role(role), host or None, (cloud.file(text),))
        if source.role is not Role.PLACEMENT:
            confs.append(options.nova(source))
    places = ConfigSource(Role.PLACEMENT, None, (cloud.file(texts["placement"]),))
    good = cloud.facts()
    facts = Facts(
        confs=tuple(confs),
        placement_confs=(options.placement(places),),
        slots=good.slots,
        providers=(*good.providers, *map(provider, many)),
        servers={},
        nova_release=34,
        placement_release=16,
    )
    about_nova = {r.check.name: r for r in judge(facts) if not r.check.of_hosts}
    for name in ("not-enrolled", "approved", "iommu-group"):
        about_nova.pop(name)
    assert [
        (n, r.findings) for n, r in about_nova.items() if r.level is not FindingLevel.SUCCESS
    ] == []


def test_an_operation_closes_what_it_asked_nova_by(
    nova: FlavorsStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that serves requests for months would keep a connection of each."""
    conf, url = tmp_path / "control.conf", migrated_file(tmp_path / "record.db")
    conf.write_text(f"[database]\nurl = {url}\n[placement]\ncloud = {CLOUD}\n")
    open_now: list[requests.Session] = []
    made, closed = requests.Session.__init__, requests.Session.close

    def makes(session: requests.Session) -> None:
        made(session)
        open_now.append(session)

    def closes(session: requests.Session) -> None:
        if session in open_now:
            open_now.remove(session)
        closed(session)

    monkeypatch.setattr(requests.Session, "__init__", makes)
    monkeypatch.setattr(requests.Session, "close", closes)
    gc.disable()  # it would close some of them, some day
    try:
        assert make(Plane([conf]), FlavorRequest())[0].fate is FlavorFate.CREATED
        nova.broken_after = 0
        with pytest.raises(UnavailableError):
            make(Plane([conf]), FlavorRequest(sizes=(FlavorSize("x", 1, 1, 1, 1),)))
        assert open_now == []
    finally:
        gc.enable()


def test_sizes_from_the_command_line() -> None:
    assert sizes([]) == SIZES
    assert sizes(["big:8:64:1024:0"])[0].drives == 8
    for text in ("big", "big:1:1:1", ":1:1:1:1", "big:0:1:1:1", "big:1:1:1:-1", "big:1:x:1:1"):
        with pytest.raises(BadInputError, match="NAME:DRIVES"):
            sizes([text])
    with pytest.raises(BadInputError, match="twice"):
        sizes(["a:1:1:1:1", "a:2:1:1:1"])


def test_a_flavor_like_ours_has_no_difference() -> None:
    terms = FlavorTerms(extra_specs={"hw:cpu_policy": "dedicated"})
    found = Flavor("1", "i1-45", 8, 46080, 50, terms.specs(SIZES[0]))
    assert differences(terms, SIZES[0], found) == ()
    assert differences(terms, SIZES[0], replace(found, extra_specs={})) == ()
    assert len(differences(FlavorTerms(), SIZES[0], found)) == 1


class TestCommand:
    """The verb."""

    @pytest.fixture
    def run(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> Callable[..., tuple[int, str, str]]:
        conf = tmp_path / "control.conf"
        url = migrated_file(tmp_path / "record.db")
        conf.write_text(f"[database]\nurl = {url}\n[placement]\ncloud = {CLOUD}\n")

        def call(*words: str) -> tuple[int, str, str]:
            code = cli.main(["--config-file", str(conf), "flavor", *words])
            out = capsys.readouterr()
            return code, out.out, out.err

        return call

    def enrolled(self, tmp_path: Path, slot: Slot, resource_class: str) -> None:
        store = Store.open(f"sqlite:///{tmp_path}/record.db")
        store.enrol(
            slot,
            provider=str(slot),
            resource_class=resource_class,
            in_use=True,
            profile="p",
            policy="q",
        )
        store.close()

    def test_printing_needs_no_cloud(self, run: Callable[..., tuple[int, str, str]]) -> None:
        code, out, _err = run("config", "--slot", "cmp1/0000:81:00.0")
        assert code == 0
        assert "# nova.conf of compute@cmp1" in out
        assert '"address": "0000:81:00.0"' in out
        code, out, _err = run("list", "-f", "json", "--flavor", "x:3:1:2:3", "--property", "a=b")
        assert json.loads(out) == [
            {
                "name": "x",
                "drives": 3,
                "vcpus": 1,
                "ram": 2,
                "disk": 3,
                "fate": "planned",
                "extra_specs": {"a": "b", ALIAS_SPEC: "i1-nvme:3", NUMA_SPEC: "preferred"},
            }
        ]

    def test_enrolled_slots_and_their_class_are_the_default(
        self, run: Callable[..., tuple[int, str, str]], tmp_path: Path
    ) -> None:
        self.enrolled(tmp_path, USED, "CUSTOM_NVME_BIG")
        shown = json.loads(run("config", "-f", "json")[1])
        assert '"resource_class": "CUSTOM_NVME_BIG"' in shown["api"]
        assert USED.address in shown[f"compute@{USED.host}"]
        self.enrolled(tmp_path, FREE, "CUSTOM_NVME_SMALL")
        code, _out, err = run("config")
        assert (code, err.count("\n")) == (2, 1)
        assert "--resource-class" in err
        shown = json.loads(run("config", "--resource-class", "CUSTOM_NVME_SMALL", "-f", "json")[1])
        assert USED.address not in shown[f"compute@{FREE.host}"]

    def test_creating(self, nova: FlavorsStandIn, run: Callable[..., tuple[int, str, str]]) -> None:
        for fate in ("created", "present"):
            shown = json.loads(run("create", "-f", "json")[1])
            assert [flavor["fate"] for flavor in shown] == [fate] * 3
        nova.flavors["i1-45"]["extra_specs"]["x"] = "y"
        code, out, err = run("create")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "x: expected none, found y" in err

    @pytest.mark.parametrize(
        "words",
        [
            ("--alias", 'a"b'),
            ("--alias", ""),
            ("--resource-class", "A B"),
            ("--slot", "cmp1"),
            ("--property", "novalue"),
            ("--device-type", "type-VF"),
            ("--flavor", "x"),
        ],
    )
    def test_malformed(
        self, run: Callable[..., tuple[int, str, str]], words: tuple[str, ...]
    ) -> None:
        code, out, err = run("list", *words)
        assert (code, out, err.count("\n")) == (2, "", 1)
