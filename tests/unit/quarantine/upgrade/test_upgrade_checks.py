"""Every check of upgrade-check: silent on a good cloud, loud on the one thing that it is about."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import nova_patch
from eraser.drive.features import KNOWN
from eraser.drive.featuresurvey import survey
from eraser.protocol.identity import Slot
from eraser.protocol.profile import Comparator, FeatureRule
from eraser.protocol.ticket import Defence, DefenceStanding, DomainSeen
from nova_patch import compat
from quarantine.record.words.facts import UnreadableSlot
from quarantine.record.words.states import Custody, State
from quarantine.upgrade import catalogue
from quarantine.upgrade.catalogue import CHECKS, judge
from quarantine.upgrade.checks import hosts
from quarantine.upgrade.checks.profiles import (
    ADDED,
    EARLIER,
    ONLY_REPORTED,
    newly_surveyed,
)
from quarantine.upgrade.facts import Facts, Role
from quarantine.upgrade.finding import Finding, FindingLevel
from quarantine.upgrade.nova.releases import NOVA_RELEASES, release_of
from tests.nova.leaks import LEAKS
from tests.unit.controller.labdrive import FULL, lab_controller
from tests.unit.quarantine.upgradefacts import (
    AVAILABLE,
    CLASS,
    FREE,
    HOST,
    PROFILE,
    SYSTEM,
    USED,
    Break,
    Cloud,
    alias,
    gate,
    host_record,
    identity,
    provider,
    seen,
    silent_gate,
    spec,
    with_provider,
    with_slot,
)

STRANGER = Slot(HOST, "0000:83:00.0")
OTHER = Slot("cmp2", "0000:81:00.0")
WHOLE = (spec(USED.address), spec(FREE.address))
BROAD = '{"vendor_id": "144d"}'
DOMAIN = DomainSeen("11111111-2222-3333-4444-555555555555", "vm1", (USED.address,), True, False)


def found(facts: Facts) -> dict[str, list[Finding]]:
    """Certain findings by check."""
    results = {r.check.name: [f for f in r.findings if not f.unknown] for r in judge(facts)}
    return {name: findings for name, findings in results.items() if findings}


def unknowns(facts: Facts) -> dict[str, list[Finding]]:
    """What could not be known, by check."""
    results = {r.check.name: [f for f in r.findings if f.unknown] for r in judge(facts)}
    return {name: findings for name, findings in results.items() if findings}


def conf(**changes: object) -> Break:
    """One nova.conf for all, with something changed."""
    return lambda cloud: cloud.facts(confs=(cloud.nova(**changes),))


def split(**changes: object) -> Break:
    """As above for nova-compute alone; the other services have a good one."""

    def make(cloud: Cloud) -> Facts:
        roles = (Role.API, Role.SCHEDULER, Role.CONDUCTOR)
        good = tuple(cloud.nova(role) for role in roles)
        return cloud.facts(confs=(*good, cloud.nova(Role.COMPUTE, **changes)))

    return make


def seeing(slot: Slot, **changes: object) -> Break:
    """The host sees one drive otherwise."""

    def make(cloud: Cloud) -> Facts:
        drives = tuple(
            seen(s, **(changes if s == slot else {})) for s in (SYSTEM, USED, FREE, STRANGER)
        )
        return cloud.facts(hosts=(host_record(drives),))

    return make


def wide(cloud: Cloud, text: str = "") -> Facts:
    """A host with many drives."""
    many = tuple(provider(Slot("cmp9", f"0000:{bus:02x}:00.0")) for bus in range(9))
    facts = cloud.facts()
    return replace(
        facts, providers=(*facts.providers, *many), placement_confs=(cloud.placement(text),)
    )


def untracked(cloud: Cloud) -> Facts:
    """nova-compute is about to track and to burn at once, and servers run."""
    confs = (cloud.nova(), cloud.nova(Role.COMPUTE, "cmp2"))
    return cloud.facts(confs=confs, servers={"cmp2": 2})


OF_BEFORE = (
    FeatureRule(0x01, "arbitration", 0),
    FeatureRule(0x04, "temperature threshold", 343, Comparator.REPORTED),
    FeatureRule(0x05, "error recovery", 0, nsid=1),
    FeatureRule(0x08, "interrupt coalescing", 0, Comparator.REPORTED),
    FeatureRule(0x7E, "controller metadata", 0),
)
"""As the release before proposed them for a drive that has little."""

CASES: list[tuple[str, str, Break, str]] = [
    (
        "no-ini",
        "nova-conf-readable",
        lambda cloud: cloud.facts(confs=(cloud.nova(core="no assignment"),)),
        "no assignment",
    ),
    ("no-bool", "nova-conf-readable", conf(tracking="report_in_placement = si"), "si"),
    (
        "no-bool-placement",
        "nova-conf-readable",
        lambda cloud: wide(cloud, "[workarounds]\noptimize_for_wide_provider_trees = si\n"),
        "optimize_for_wide",
    ),
    ("off", "report-in-placement", conf(tracking=""), "report_in_placement is false"),
    ("off", "pci-in-placement", conf(scheduling=""), "pci_in_placement is false"),
    (
        "off-in-one",
        "pci-in-placement",
        lambda cloud: cloud.facts(
            confs=(
                cloud.nova(Role.API),
                cloud.nova(Role.SCHEDULER),
                cloud.nova(Role.CONDUCTOR, scheduling="pci_in_placement = no"),
                cloud.nova(Role.COMPUTE),
            )
        ),
        "pci_in_placement is false",
    ),
    ("default", "pci-filter", conf(filters=""), "PciPassthroughFilter"),
    ("lost", "numa-filter", conf(filters="enabled_filters=PciPassthroughFilter"), "NUMATopology"),
    ("both-at-once", "tracking-first", untracked, "2 servers run"),
    ("old", "nova-release", lambda cloud: cloud.facts(nova_release=31), "31"),
    ("new", "nova-release", lambda cloud: cloud.facts(nova_release=35), "35"),
    ("old", "placement-release", lambda cloud: cloud.facts(placement_release=13), "13"),
    ("many", "wide-trees", wide, "cmp9 with 9"),
    (
        "depth-first",
        "wide-trees",
        lambda cloud: wide(cloud, "[workarounds]\noptimize_for_wide_provider_trees = true\n"),
        "depth-first",
    ),
    ("kept", "ghost-cleanup", conf(core="running_deleted_instance_action = log"), "log"),
    ("never", "ghost-cleanup", conf(core="running_deleted_instance_poll_interval = 0"), "is 0"),
    ("apart", "soft-delete", split(core="reclaim_instance_interval = 60"), "60"),
    ("never", "provider-cache", conf(refresh="resource_provider_association_refresh = 0"), "0"),
    ("json", "device-spec-valid", conf(specs=(*WHOLE, "{")), "JSON"),
    ("devname", "device-spec-valid", conf(specs=(*WHOLE, '{"devname": "eth0"}')), "devname"),
    ("untracked", "device-spec-valid", conf(tracking=""), "without report_in_placement"),
    ("broad", "device-spec-order", conf(specs=(BROAD, *WHOLE)), "device_spec 1"),
    (
        "of-one-host",
        "device-spec-order",
        lambda cloud: cloud.facts(
            confs=(cloud.nova(), cloud.nova(Role.COMPUTE, HOST, specs=(BROAD, *WHOLE)))
        ),
        "compute@cmp1",
    ),
    ("broad", "device-spec-one-time-use", conf(specs=(BROAD, *WHOLE)), "device_spec 1"),
    (
        "flag-dropped",
        "device-spec-one-time-use",
        conf(specs=(WHOLE[0], spec(FREE.address, one_time_use=None))),
        "which is not one_time_use",
    ),
    ("dropped", "device-spec-complete", conf(specs=WHOLE[:1]), "no line"),
    (
        "network",
        "device-spec-complete",
        conf(specs=(WHOLE[0], spec(FREE.address, physical_network="physnet1"))),
        "physical_network",
    ),
    (
        "other",
        "device-spec-class",
        conf(specs=(WHOLE[0], spec(FREE.address, resource_class="nvme.i2"))),
        f"{FREE}: device_spec 2",
    ),
    (
        "of-its-ids",
        "device-spec-class",
        conf(specs=(WHOLE[0], spec(FREE.address, resource_class=None))),
        f"puts it into CUSTOM_PCI_144D_A824, and it is in {CLASS}",
    ),
    ("no", "managed", conf(specs=(WHOLE[0], spec(FREE.address, managed="no"))), "managed: no"),
    (
        "line",
        "live-migratable",
        conf(specs=(WHOLE[0], spec(FREE.address, live_migratable="yes"))),
        "live_migratable",
    ),
    ("alias", "live-migratable", conf(aliases=(alias(live_migratable="yes"),)), "alias i1-nvme"),
    (
        "line",
        "resource-class-meaning",
        conf(specs=(*WHOLE, spec("0000:99:00.0", one_time_use=None))),
        "not one_time_use into",
    ),
    (
        "provider",
        "resource-class-meaning",
        lambda cloud: with_provider(
            cloud.facts(), STRANGER, provider(STRANGER, one_time_use=False, reserved=0)
        ),
        str(STRANGER),
    ),
    ("member", "alias-valid", conf(aliases=(alias(), alias(name="x", colour="red"))), "colour"),
    ("twice", "alias-valid", conf(aliases=(alias(), alias(traits="b"))), "2 times"),
    ("class-alone", "alias-valid", split(scheduling=""), "alias i1-nvme has no vendor_id"),
    ("other", "alias-same", split(aliases=(alias(numa_policy="required"),)), "numa_policy"),
    ("absent", "alias-same", split(aliases=()), "none in compute"),
    ("pf", "alias-type", seeing(FREE, sriov=True), f"asks for type-PCI, {FREE} is not"),
    (
        "no-pf",
        "alias-type",
        lambda cloud: replace(
            seeing(FREE, sriov=False)(cloud),
            confs=(cloud.nova(aliases=(alias(device_type="type-PF"),)),),
        ),
        f"asks for type-PF, {FREE} is not",
    ),
    ("vf", "alias-type", conf(aliases=(alias(device_type="type-VF"),)), "virtual functions"),
    ("no-alias", "alias-reach", conf(aliases=()), f"no alias asks for {CLASS}"),
    (
        "other-class",
        "alias-reach",
        conf(aliases=(alias(resource_class=None, vendor_id="144D", product_id="a824"),)),
        "CUSTOM_PCI_144D_A824",
    ),
    (
        "unnamed",
        "alias-named",
        lambda cloud: cloud.facts(drive_aliases=frozenset({"nvme"})),
        "drive_aliases is without i1-nvme",
    ),
    ("trait", "alias-reach", conf(aliases=(alias(traits="fast"),)), "CUSTOM_FAST"),
    ("matched", "system-drive", conf(specs=(*WHOLE, spec(SYSTEM.address))), str(SYSTEM)),
    ("enrolled", "system-drive", seeing(FREE, system=True), str(FREE)),
    ("shared", "iommu-group", seeing(FREE, group=("0000:83:00.0",)), "0000:83:00.0"),
    ("vfio", "driver-at-rest", seeing(FREE, driver="vfio-pci", identity=None), "vfio-pci"),
    ("unbound", "driver-at-rest", seeing(FREE, driver="", identity=None), "of nobody"),
    (
        "two",
        "resource-class-model",
        lambda cloud: with_slot(
            cloud.facts(), FREE, identity=replace(identity(FREE), model="N", device_id=0xA825)
        ),
        "2 models",
    ),
    (
        "no-record",
        "record-readable",
        lambda cloud: cloud.facts(record_trouble="no schema"),
        "no schema",
    ),
    (
        "damaged-slot",
        "record-rows",
        lambda cloud: cloud.facts(
            damaged_slots=(UnreadableSlot(HOST, FREE.address, "x", "no such state"),)
        ),
        "no such state",
    ),
    (
        "no-placement",
        "placement-answers",
        lambda cloud: cloud.facts(placement_trouble="refused"),
        "refused",
    ),
    (
        "gone",
        "provider-present",
        lambda cloud: with_provider(cloud.facts(), FREE, None),
        "no provi",
    ),
    (
        "empty",
        "provider-present",
        lambda cloud: with_provider(cloud.facts(), FREE, provider(FREE, inventories=0)),
        "no inventory",
    ),
    (
        "trait-gone",
        "provider-one-time-use",
        lambda cloud: with_provider(cloud.facts(), FREE, provider(FREE, one_time_use=False)),
        "no trait",
    ),
    (
        "made-anew",
        "provider-same",
        lambda cloud: with_provider(cloud.facts(), FREE, provider(FREE, uuid="another")),
        "another",
    ),
    (
        "class",
        "provider-same",
        lambda cloud: with_provider(cloud.facts(), FREE, provider(FREE, resource_class="CUSTOM_N")),
        "CUSTOM_N",
    ),
    (
        "in-use",
        "reserved",
        lambda cloud: with_provider(
            cloud.facts(), USED, provider(USED, server="server", reserved=0)
        ),
        "in_use",
    ),
    (
        "held",
        "reserved",
        lambda cloud: with_provider(
            with_slot(cloud.facts(), FREE, state=State.HELD), FREE, provider(FREE, reserved=0)
        ),
        "held",
    ),
    (
        "no-certificate",
        "reserved",
        lambda cloud: with_provider(
            with_slot(cloud.facts(), FREE, state=AVAILABLE), FREE, provider(FREE, reserved=0)
        ),
        "without a certificate",
    ),
    (
        "gone",
        "custody",
        lambda cloud: with_slot(
            cloud.facts(), FREE, state=State.QUARANTINED, custody="ours", custody_stage=Custody.HELD
        ),
        "without our custody",
    ),
    (
        "offered",
        "not-enrolled-offered",
        lambda cloud: with_provider(cloud.facts(), STRANGER, provider(STRANGER, reserved=0)),
        "on offer",
    ),
    (
        "locked",
        "not-enrolled",
        lambda cloud: with_provider(cloud.facts(), STRANGER, provider(STRANGER)),
        "reserved [",
    ),
    ("profile", "approved", lambda cloud: cloud.facts(profiles={}), "profile 'p'"),
    (
        "older",
        "profile-features",
        lambda cloud: cloud.facts(profiles={"p": replace(PROFILE, features=OF_BEFORE)}),
        "profile 'p': 2 slots are enrolled with it, and an earlier release proposed it: it does "
        "not compare temperature threshold (04h), interrupt coalescing (08h), features 03h, 12h,",
    ),
    ("policy", "approved", lambda cloud: cloud.facts(policies=frozenset()), "policy 'purge'"),
    (
        "off",
        "own-settings",
        lambda cloud: cloud.facts(switched_off=("[gate]required",)),
        "required",
    ),
    (
        "one key",
        "keys-apart",
        lambda cloud: cloud.facts(shared_keys=("[erase]order_key is not set",)),
        "order_key",
    ),
    ("unknown", "host-registered", lambda cloud: cloud.facts(hosts=()), HOST),
    ("long", "host-silent", lambda cloud: cloud.facts(silent={HOST: 901.0}), "901 s"),
    ("never", "host-silent", lambda cloud: cloud.facts(silent={HOST: float("inf")}), "never"),
    (
        "clock-set-back",
        "host-silent",
        lambda cloud: cloud.facts(silent={HOST: -3600.0}),
        "last heard 3600 s after now",
    ),
    *(
        (
            str(defence),
            "host-rules" if defence in (Defence.RULES, Defence.WATCHER) else "host-defences",
            lambda cloud, defence=defence: cloud.facts(  # type: ignore[misc]
                hosts=(host_record(testimony=gate({defence: DefenceStanding.ABSENT})),)
            ),
            f"detail of {defence}",
        )
        for defence in Defence
    ),
    (
        "an older patch",
        "host-patch-version",
        lambda cloud: cloud.facts(hosts=(host_record(testimony=gate(patch="2")),)),
        f"version 2 in nova-compute of Nova 34.0.0, expected {nova_patch.VERSION}",
    ),
    (
        "hotplug",
        "guests-recorded",
        lambda cloud: cloud.facts(hosts=(host_record(testimony=gate(domains=(DOMAIN,))),)),
        "vm1",
    ),
]


@pytest.fixture
def cloud(tmp_path: Path) -> Cloud:
    """Where facts come from."""
    return Cloud(tmp_path)


def test_a_good_cloud_is_told_to_be_good(cloud: Cloud) -> None:
    results = judge(cloud.facts())
    assert [(r.check.name, f) for r in results for f in r.findings] == []
    assert max(r.level for r in results) is FindingLevel.SUCCESS


@pytest.mark.parametrize(
    ("check", "break_it", "words"),
    [case[1:] for case in CASES],
    ids=[f"{case[1]}-{case[0]}" for case in CASES],
)
def test_each_condition_is_named(cloud: Cloud, check: str, break_it: Break, words: str) -> None:
    findings = found(break_it(cloud))
    assert check in findings, findings
    assert any(words in f"{f.where}: {f.found}" for f in findings[check]), findings[check]


def test_every_check_has_a_case_and_says_what_to_do() -> None:
    assert {case[1] for case in CASES} == {check.name for check in CHECKS}
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    for check in CHECKS:
        assert check.why.endswith(".")
        assert check.do.rstrip(")").endswith((".", ";"))
        assert all(1 <= leak <= len(LEAKS) for leak in check.leaks)


def test_a_host_that_another_machine_s_clock_heard_is_not_silent(cloud: Cloud) -> None:
    """The service may run beside the command on a machine whose clock is somewhat ahead."""
    assert found(cloud.facts(silent={HOST: -59.0})) == {}


def test_what_placement_would_hand_out_once_more_is_on_offer(cloud: Cloud) -> None:
    """One server has it, and a ratio that somebody raised lets another have it too."""
    stranger = provider(STRANGER, server="server", reserved=0)
    assert stranger.view is not None
    (stock,) = stranger.view.inventories
    twice = replace(stranger.view, inventories=(replace(stock, allocation_ratio=2.0),))
    facts = cloud.facts()
    assert "not-enrolled" in found(with_provider(facts, STRANGER, stranger))
    shared = with_provider(facts, STRANGER, replace(stranger, view=twice))
    assert "not-enrolled-offered" in found(shared)
    assert "not-enrolled" not in found(shared)


def claimed(cloud: Cloud, seconds: float, *servers: str) -> Facts:
    """A server has had the one drive for so long, and Nova has not reserved it."""
    facts = cloud.facts()
    (record,) = (one for one in facts.slots if one.slot == USED)
    facts = replace(facts, now=record.entered_at + timedelta(seconds=seconds))
    return with_provider(facts, USED, provider(USED, server=next(iter(servers), None), reserved=0))


def test_a_drive_that_nova_is_about_to_reserve_for_its_server_is_no_failure(cloud: Cloud) -> None:
    """Nova reserves a drive some seconds after its claim; the service waits for that too."""
    assert found(claimed(cloud, 5, "server")) == {}
    assert "reserved" in found(claimed(cloud, 5))
    assert "reserved" in found(claimed(cloud, 121, "server"))
    assert "reserved" in found(claimed(cloud, -3600, "server"))


def test_a_slot_that_is_just_being_given_back_is_no_failure(cloud: Cloud) -> None:
    """Placement has it back a moment before the record says available."""

    def certified(**changes: object) -> Facts:
        facts = with_slot(cloud.facts(), FREE, state=State.CERTIFIED, **changes)
        return with_provider(facts, FREE, provider(FREE, reserved=0))

    assert found(certified(certificate="c", custody_stage=Custody.RETURNING)) == {}
    assert "reserved" in found(certified(certificate="c", custody_stage=Custody.HELD))
    assert "reserved" in found(certified(custody_stage=Custody.RETURNING))


def test_nothing_given_is_not_known_rather_than_good(cloud: Cloud) -> None:
    facts = cloud.facts(confs=(), hosts=(silent_gate(),), nova_release=None, placement_release=None)
    assert found(facts) == {}
    names = unknowns(facts)
    for name in ("pci-in-placement", "report-in-placement", "device-spec-order", "alias-same"):
        assert "--nova-conf" in names[name][0].found
    assert {"host-defences", "host-rules", "nova-release", "placement-release"} <= names.keys()
    assert all(r.level <= FindingLevel.WARNING for r in judge(facts))


def test_without_record_or_placement_no_check_of_slots_succeeds(cloud: Cloud) -> None:
    of_slots = {check.name for check in CHECKS if check.of_slots}
    for trouble in ({"record_trouble": "x"}, {"placement_trouble": "x"}):
        names = unknowns(replace(cloud.facts(slots=(), providers=()), **trouble))
        assert of_slots <= names.keys()
    assert {"host-silent", "host-defences"} <= unknowns(cloud.facts(record_trouble="x")).keys()


def test_a_host_that_says_nothing_of_a_drive_is_not_taken_for_good(cloud: Cloud) -> None:
    unread = host_record((seen(FREE, group=None, system=None), seen(USED)))
    names = unknowns(cloud.facts(hosts=(unread,)))
    assert str(FREE) in names["system-drive"][0].where
    assert HOST in names["iommu-group"][0].where
    unsure = host_record(testimony=gate({Defence.HOOK: DefenceStanding.UNKNOWN}))
    assert "hook" in unknowns(cloud.facts(hosts=(unsure,)))["host-defences"][0].found


def test_a_patch_of_unknown_version_is_not_taken_for_good(cloud: Cloud) -> None:
    mute = host_record(testimony=gate(patch="mute"))
    names = unknowns(cloud.facts(hosts=(mute,)))
    assert "nvme-quarantine-patch:mute" in names["host-patch-version"][0].found
    assert int(nova_patch.VERSION) == hosts.PATCH_VERSION


def test_a_host_s_own_configuration_stands_before_the_one_of_all(cloud: Cloud) -> None:
    good, short = cloud.nova(), cloud.nova(specs=WHOLE[:1])
    own_short = cloud.nova(Role.COMPUTE, HOST, specs=WHOLE[:1])
    own_good = cloud.nova(Role.COMPUTE, HOST)
    assert "device-spec-complete" in found(cloud.facts(confs=(good, own_short)))
    assert "device-spec-complete" not in found(cloud.facts(confs=(short, own_good)))
    other = cloud.nova(Role.COMPUTE, "cmp2", specs=WHOLE[:1])
    assert "device-spec-complete" not in found(cloud.facts(confs=(good, other)))


def test_what_is_not_on_a_host_is_no_missing_defence(cloud: Cloud) -> None:
    standings = dict.fromkeys(Defence, DefenceStanding.NOT_APPLICABLE)
    assert found(cloud.facts(hosts=(host_record(testimony=gate(standings)),))) == {}


def test_a_drive_whose_ids_nobody_knows_is_not_judged_by_them(cloud: Cloud) -> None:
    line = spec(FREE.address, vendor_id="8086", one_time_use=None)
    facts = cloud.facts(
        confs=(cloud.nova(specs=(WHOLE[0], line, WHOLE[1])),),
        hosts=(host_record((seen(FREE, identity=None), seen(USED))),),
    )
    assert "device-spec-one-time-use" not in found(facts)
    blind = with_slot(facts, FREE, identity=None)
    assert "device-spec-one-time-use" not in found(blind)
    other = spec(FREE.address, vendor_id="8086", one_time_use=None)
    blind = replace(blind, confs=(cloud.nova(specs=(WHOLE[0], other)),))
    assert str(FREE) in unknowns(blind)["device-spec-complete"][0].where


def test_an_old_word_about_a_drive_in_use_is_no_wrong_driver(cloud: Cloud) -> None:
    host = host_record((seen(FREE, driver="vfio-pci", identity=None), seen(USED)))
    before = replace(host, heard_at=cloud.facts().slots[1].entered_at)
    assert "driver-at-rest" not in found(cloud.facts(hosts=(before,)))


@pytest.mark.parametrize(
    ("heard", "entered", "wrong"),
    [(3600, 0, False), (0, 3600, True), (3600, 3500, True), (3500, 3600, False), (50, 0, True)],
    ids=["old hello", "old state", "both old, hello last", "both old, state last", "apart"],
)
def test_a_word_from_before_our_clock_was_set_back_is_older_than_what_came_since(
    cloud: Cloud, heard: int, entered: int, *, wrong: bool
) -> None:
    """Seconds after now: what is noted of far later than now was noted before the clock was set."""
    now = cloud.facts().slots[1].entered_at + timedelta(days=1)
    host = host_record((seen(FREE, driver="vfio-pci", identity=None), seen(USED)))
    host = replace(host, heard_at=now + timedelta(seconds=heard))
    facts = with_slot(cloud.facts(hosts=(host,)), FREE, entered_at=now + timedelta(seconds=entered))
    assert ("driver-at-rest" in found(replace(facts, now=now))) is wrong


def test_an_available_slot_with_its_certificate_is_rightly_free(cloud: Cloud) -> None:
    facts = with_slot(cloud.facts(), FREE, state=AVAILABLE, certificate="c")
    assert found(with_provider(facts, FREE, provider(FREE, reserved=0))) == {}


def test_devices_that_are_none_of_ours_are_left_alone(cloud: Cloud) -> None:
    gpu = '{"vendor_id": "10de", "product_id": "25b6", "managed": "no", "live_migratable": "yes"}'
    other = '{"name": "gpu", "vendor_id": "10de", "product_id": "25b6", "device_type": "type-VF"}'
    assert (
        found(cloud.facts(confs=(cloud.nova(specs=(gpu, *WHOLE), aliases=(alias(), other)),))) == {}
    )
    scratch = spec(STRANGER.address, one_time_use=None, resource_class=None)
    host = host_record(tuple(seen(slot) for slot in (SYSTEM, USED, FREE, STRANGER)))
    facts = cloud.facts(confs=(cloud.nova(specs=(*WHOLE, scratch)),), hosts=(host,))
    assert "device-spec-one-time-use" not in found(facts)


def test_a_line_by_address_stands_behind_lines_of_other_ids(cloud: Cloud) -> None:
    """What ``flavors --slot`` prints has no ids; a GPU's line before it takes no drive."""
    gpu = '{"vendor_id": "10de", "product_id": "25b6"}'
    plain = tuple(spec(s.address, vendor_id=None, product_id=None) for s in (USED, FREE))
    assert found(cloud.facts(confs=(cloud.nova(specs=(gpu, *plain)),))) == {}
    ours = '{"vendor_id": "144d", "product_id": "a824"}'
    nobody = spec(STRANGER.address, vendor_id=None, product_id=None)
    for lines in ((ours, *plain), (gpu, *plain, nobody)):
        assert "device-spec-order" in found(cloud.facts(confs=(cloud.nova(specs=lines),)))
    unread = with_slot(cloud.facts(confs=(cloud.nova(specs=(gpu, *plain)),)), USED, identity=None)
    assert "device-spec-order" in found(unread)


def test_an_alias_without_ids_is_fine_where_nova_does_not_ask_for_them(cloud: Cloud) -> None:
    ids = alias(vendor_id="144d", product_id="a824")
    named = (cloud.nova(), cloud.nova(Role.COMPUTE, HOST, scheduling="", aliases=(ids,)))
    assert "alias-valid" not in found(cloud.facts(confs=named))
    old = replace(split(scheduling="")(cloud), nova_release=29)
    assert "alias-valid" not in found(old)


def test_many_drives_are_fine_where_placement_is_ready_and_unknown_where_nobody_says(
    cloud: Cloud,
) -> None:
    ready = (
        "[workarounds]\noptimize_for_wide_provider_trees = true\n"
        "[placement]\nallocation_candidates_generation_strategy = breadth-first\n"
    )
    assert "wide-trees" not in found(wide(cloud, ready))
    assert "wide-trees" in unknowns(replace(wide(cloud), placement_confs=()))


@pytest.mark.parametrize(
    ("features", "older"),
    [
        ((), True),
        (OF_BEFORE, True),
        # By hand, one of the two: the others were never asked for all the same.
        ((*OF_BEFORE, FeatureRule(0x04, "temperature threshold", 343)), True),
        (PROFILE.features, False),
        # A person's own word about a drive that the new survey read.
        (
            tuple(replace(rule, comparator=Comparator.REPORTED) for rule in PROFILE.features),
            False,
        ),
        (tuple(rule for rule in PROFILE.features if not rule.select), False),
        ((*OF_BEFORE, FeatureRule(0xC0, "vendor specific", 0)), False),
    ],
)
def test_what_shows_who_proposed_a_profile(
    cloud: Cloud, features: tuple[FeatureRule, ...], older: bool
) -> None:
    facts = cloud.facts(profiles={"p": replace(PROFILE, features=features)})
    assert ("profile-features" in found(facts)) is older


def test_an_older_profile_that_no_slot_has_is_not_named(cloud: Cloud) -> None:
    before = replace(PROFILE, name="other", features=OF_BEFORE)
    assert found(cloud.facts(profiles={"p": PROFILE, "other": before})) == {}


def test_a_drive_that_is_surveyed_now_has_a_profile_of_now(tmp_path: Path) -> None:
    for many in (False, True):
        (tmp_path / str(many)).mkdir()
        rules = survey(lab_controller(tmp_path / str(many), replace(FULL, many_features=many)))
        assert newly_surveyed(replace(PROFILE, features=rules))
        named = {rule.fid: rule.comparator for rule in rules}
        assert all(named[fid] is Comparator.EQUAL for fid in ONLY_REPORTED)
    assert KNOWN.keys() - EARLIER == set(ADDED)


def test_the_page_is_the_table_s() -> None:
    shown = Path(__file__).parents[4] / "docs" / "upgrade-check.md"
    assert catalogue.table() in shown.read_text(), "run: tools/samples"


def test_each_release_of_the_patch_is_known_and_no_other() -> None:
    """A series that nova_patch learns has its line here too."""
    table = json.loads(compat.TABLE.read_text())
    assert {int(release.partition(".")[0]) for release in table} == NOVA_RELEASES.keys()
    assert release_of((2, 104)) == 34
    assert release_of((2, 100)) is None, "31 and 32 both have it"
