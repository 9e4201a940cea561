"""What a tenant saved in a drive's features: set back, or the drive is held and says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eraser.drive.featuresurvey import survey
from eraser.protocol import codec
from eraser.protocol.profile import Comparator, FeatureRule, Profile
from tests.lab.nvme import features as labfeatures
from tests.lab.nvme.composed.host import Answer
from tests.lab.nvme.leftovers import Leftovers
from tests.lab.nvme.profile import SanitizeProfile
from tests.lab.nvme.spec import Fid
from tests.lab.nvme.state import SavedFeature
from tests.unit.case.bed import Bed, Firmware, mortal
from tests.unit.case.test_restore import ONE_METHOD, fit, make_bed
from tests.unit.controller.labdrive import FULL, lab_controller

MANY = replace(ONE_METHOD, many_features=True)

VALUES = {
    "every completion 25.5 ms late": (Fid.INTERRUPT_COALESCING, 0xFFFF),
    "reads give up at once": (Fid.READ_RECOVERY, 15),
    "LBA status interval": (Fid.LBA_STATUS, 0x1234_5678),
    "limit of power": (Fid.POWER_LIMIT, 2 << 16 | 500),
    "threshold of power": (Fid.POWER_THRESHOLD, 1 << 31 | 5),
    "vendor's power state": (Fid.VENDOR_POWER, 1),
}
TEXTS = {
    "label of a namespace": Fid.ADMIN_LABEL,
    "address of a management controller": Fid.MANAGEMENT_ADDRESS,
    "address of an agent": Fid.AGENT_ADDRESS,
    "LBA ranges": Fid.LBA_RANGES,
    "vendor's error injection": Fid.VENDOR_ERRORS,
}
UNSAVED = {
    "level of read recovery": (Fid.READ_RECOVERY, 15, ""),
    "label of a namespace": (Fid.ADMIN_LABEL, 0, "hello, next tenant"),
    "address of an agent": (Fid.AGENT_ADDRESS, 0, "hello, next tenant"),
}
THRESHOLDS = {"over": 0, "under": 0x10, "sensor 1, over": 1, "sensor 1, under": 0x11}


@pytest.fixture
def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bed:
    return make_bed(tmp_path, monkeypatch, MANY)


def saved(bed: Bed, fid: int) -> SavedFeature:
    nsid = int(labfeatures.MANY.get(fid, labfeatures.FeatureRule()).per_namespace)
    return bed.bench.drive.state.features[f"{fid:02x}/{nsid}/0"]


def test_a_drive_with_all_of_them_is_erased_like_any_other(bed: Bed) -> None:
    report = bed.run()
    fit(report)
    assert bed.sent(report) == ["84"]


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_set_back(bed: Bed, name: str) -> None:
    fid, value = VALUES[name]
    bed.leave(Leftovers(features={fid: value}))
    fit(bed.run())
    rule = labfeatures.MANY.get(fid, labfeatures.FeatureRule())
    assert saved(bed, fid).value == rule.default


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_gone(bed: Bed, name: str) -> None:
    fid = TEXTS[name]
    bed.leave(Leftovers(texts={fid: "hello, next tenant"}))
    fit(bed.run())
    assert "hello" not in bytes.fromhex(saved(bed, fid).data).decode("latin-1")


def unsaved(monkeypatch: pytest.MonkeyPatch, fid: int, **others: Any) -> None:
    """The drive does not save this feature, and keeps what it was set to."""
    rule = replace(labfeatures.MANY[fid], saveable=False, lasting=True, **others)
    monkeypatch.setitem(labfeatures.MANY, fid, rule)


def in_force(bed: Bed, fid: int) -> tuple[int, bytes]:
    nsid = int(labfeatures.MANY[fid].per_namespace)
    reply = bed.bench.admin(0x0A, nsid=nsid, cdw10=fid)
    return reply.dw0, reply.data or b""


@pytest.mark.parametrize("name", UNSAVED)
@pytest.mark.parametrize("known", [True, False], ids=["profile", "older profile"])
def test_what_lasts_without_being_saved_is_set_back(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, name: str, known: bool
) -> None:
    """A question for the saved value of such a feature is answered with the default."""
    fid, value, text = UNSAVED[name]
    unsaved(monkeypatch, fid)
    if known:
        bed.profile = bed.approved()
        assert [rule.current for rule in bed.profile.features if rule.fid == fid] == [True]
    before = in_force(bed, fid)
    if text:
        bed.leave(Leftovers(texts={fid: text}))
    else:
        bed.leave(Leftovers(features={fid: value}))
    bed.bench.drive.features.reset()
    assert in_force(bed, fid) != before
    fit(bed.run())
    bed.bench.drive.features.reset()
    assert in_force(bed, fid) == before


def untold(opcode: int, words: dict[str, Any], done: Callable[[], Answer]) -> Answer:
    """It refuses SEL 011b, which says what can be done with a feature."""
    asked = opcode == 0x0A and words["cdw10"] >> 8 & 7 == 3
    return replace(done(), code=0x002) if asked else done()


@pytest.mark.parametrize("tells", [True, False], ids=["told", "untold"])
@pytest.mark.parametrize("known", ["told", "untold", "as unsaved"])
def test_what_is_saved_of_a_namespace_is_set_back_whoever_tells_of_it(
    bed: Bed, known: str, tells: bool
) -> None:
    """The value in force is ours before the last look: reads of deallocated blocks must succeed.
    The saved one comes back with the next tenant's reset."""
    told = bed.firmware
    bed.firmware = untold if known == "untold" else told
    bed.profile = bed.approved()
    rules = [rule for rule in bed.profile.features if rule.fid == Fid.ERROR_RECOVERY]
    assert [rule.current for rule in rules] == [False]
    if known == "as unsaved":
        others = (rule for rule in bed.profile.features if rule.fid != Fid.ERROR_RECOVERY)
        changed = (*others, replace(rules[0], current=True))
        bed.profile = replace(bed.profile, features=changed)
    bed.firmware = told if tells else untold
    bed.drive.state.features["05/1/0"] = SavedFeature(1 << 16)
    bed.drive.features.reset()
    fit(bed.run())
    bed.drive.features.reset()
    assert bed.drive.features.current(Fid.ERROR_RECOVERY, 1) == 0


@pytest.mark.parametrize("fid", [Fid.READ_RECOVERY, Fid.AGENT_ADDRESS, Fid.ADMIN_LABEL])
def test_what_one_of_several_controllers_resets_over_is_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fid: int
) -> None:
    """A tenant sets it without saving it: it lasts until the next power cycle."""
    made = make_bed(tmp_path, monkeypatch, replace(MANY, other_controllers=(2,)))
    before, nsid = in_force(made, fid), int(labfeatures.MANY[fid].per_namespace)
    text = b"hello".ljust(labfeatures.MANY[fid].data_length, b"\0")
    made.bench.admin(0x09, text, nsid=nsid, cdw10=fid, cdw12=15)
    assert in_force(made, fid) != before
    fit(made.run())
    assert in_force(made, fid) == before


def nonsense(fid: int) -> Firmware:
    """It answers a question for the saved value of what it does not save with zeros."""

    def firmware(opcode: int, words: dict[str, Any], done: Callable[[], Answer]) -> Answer:
        asked = (opcode, words["cdw10"]) == (0x0A, fid | 2 << 8)
        return replace(done(), dw0=0) if asked else done()

    return firmware


def test_a_value_of_the_makers_own_is_the_profiles(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what is not saved the value in force counts, though the default is another one."""
    unsaved(monkeypatch, Fid.READ_RECOVERY)
    bed.leave(Leftovers(features={Fid.READ_RECOVERY: 7}))
    bed.profile = bed.approved()
    bed.firmware = nonsense(Fid.READ_RECOVERY)
    report = bed.run()
    fit(report)
    assert bed.sent(report) == ["84"]


def test_a_default_that_an_older_profile_has_not_is_nobodys(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has what the drive said of a value that it does not save, which may be nonsense."""
    fid = Fid.READ_RECOVERY
    unsaved(monkeypatch, fid)
    rules = (replace(r, value=0) if r.fid == fid else r for r in bed.profile.features)
    bed.profile = replace(bed.profile, features=tuple(rules))
    bed.firmware = nonsense(fid)
    report = bed.run()
    fit(report)
    assert bed.sent(report) == ["84"]


@pytest.mark.parametrize("tells", [True, False], ids=["told", "untold"])
def test_placement_that_an_older_profile_does_not_know_holds_no_fleet(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, tells: bool
) -> None:
    """The drives have it in force and do not save it; no command changes it under namespaces."""
    unsaved(monkeypatch, Fid.DATA_PLACEMENT)
    bed.leave(Leftovers(features={Fid.DATA_PLACEMENT: 1}))
    bed.firmware = bed.firmware if tells else untold
    report = bed.run()
    fit(report)
    assert bed.sent(report) == ["84"]


def test_placement_in_force_that_a_profile_knows_is_compared(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsaved(monkeypatch, Fid.DATA_PLACEMENT)
    bed.leave(Leftovers(features={Fid.DATA_PLACEMENT: 1}))
    bed.profile = bed.approved()
    bed.leave(Leftovers(features={Fid.DATA_PLACEMENT: 0}))
    report = bed.run()
    assert report.fit is False
    [line] = report.profile_differences
    assert line == "profile: expected feature 0x1d (flexible data placement) 0x1, found 0x0"


@pytest.mark.parametrize("name", THRESHOLDS)
def test_a_temperature_threshold_is_set_back(bed: Bed, name: str) -> None:
    key = f"04/0/{THRESHOLDS[name]}"
    bed.bench.drive.state.features[key] = SavedFeature(200)
    fit(bed.run())
    assert bed.bench.drive.state.features[key].value == 343


def test_what_cannot_be_set_back_holds_the_drive_and_is_named(bed: Bed) -> None:
    bed.leave(Leftovers(features={Fid.DATA_PLACEMENT: 1}))
    report = bed.run()
    assert report.fit is False
    [line] = report.profile_differences
    assert line == "profile: expected feature 0x1d (flexible data placement) 0x0, found 0x1"


def test_a_limit_of_power_that_the_maker_set_comes_back(bed: Bed) -> None:
    """Set Features takes it in dword 13."""
    bed.leave(Leftovers(features={Fid.POWER_LIMIT: 2 << 16 | 2500}))
    bed.profile = bed.approved()
    bed.leave(Leftovers(features={Fid.POWER_LIMIT: 2 << 16 | 500}))
    report = bed.run()
    fit(report)
    assert saved(bed, Fid.POWER_LIMIT).value == 2 << 16 | 2500
    [command] = [c for c in report.commands if c.opcode == 0x09]
    assert command.argv[-1] == "--cdw13=0x000209c4"


def test_an_older_profile_without_the_features_of_today_holds_nothing(bed: Bed) -> None:
    late = {Fid.PERSONALITY, Fid.POWER_LIMIT, Fid.POWER_THRESHOLD}
    assert late <= {rule.fid for rule in bed.profile.features}
    rules = tuple(rule for rule in bed.profile.features if rule.fid not in late)
    bed.profile = replace(bed.profile, features=rules)
    bed.leave(Leftovers(features={Fid.PERSONALITY: 0, Fid.POWER_LIMIT: 2 << 16 | 500}))
    report = bed.run()
    fit(report)
    assert bed.sent(report) == ["84"]


def test_a_changed_personality_holds_the_drive_and_is_never_sent(bed: Bed) -> None:
    """To change one may freeze it, or change what is on the drive."""
    bed.leave(Leftovers(features={Fid.PERSONALITY: 0}))
    report = bed.run()
    assert report.fit is False
    [line] = report.profile_differences
    assert line == (
        "profile: expected feature 0x22 (configurable device personality) 0x400, found 0x0, "
        "a personality changed; set the drive to its manufacturing default personality and order "
        "again"
    )
    assert bed.sent(report) == ["84"]


@pytest.mark.parametrize("pending", [True, False])
def test_a_pending_personality_is_named_where_it_keeps_sanitize_from_the_drive(
    bed: Bed, pending: bool
) -> None:
    """Base 2.3, 8.1.6.1: such a drive denies access, as a locked one does."""

    def firmware(opcode: int, words: dict[str, Any], done: Callable[[], Answer]) -> Answer:
        if opcode == 0x84:
            return Answer(0x286, 0, again=False, data=b"", metadata=b"")
        asked = (opcode, words["cdw10"], words.get("cdw13")) == (0x0A, 0x22, 0xFF)
        return replace(done(), dw0=0x201 if pending else 0xFF) if asked else done()

    bed.firmware = firmware
    report = bed.run()
    assert report.fit is False
    said = "a change of its personality 1 is pending" in " ".join(report.reasons)
    assert said is pending


def test_what_moves_or_cannot_be_changed_is_not_compared(tmp_path: Path) -> None:
    rules = {rule.fid: rule for rule in survey(lab_controller(tmp_path, MANY))}
    assert rules[Fid.VENDOR_COUNTER].comparator is Comparator.REPORTED
    assert Fid.VENDOR_FIXED not in rules
    assert rules[Fid.VENDOR_POWER].comparator is Comparator.EQUAL
    assert Fid.TIMESTAMP not in rules
    assert rules[Fid.KEEP_ALIVE].current, "it is not saved, so it is read as it is"


def test_each_threshold_has_a_rule_of_its_own(tmp_path: Path) -> None:
    rules = [rule for rule in survey(lab_controller(tmp_path)) if rule.fid == 0x04]
    assert [rule.select for rule in rules] == [0, 1 << 20, 1 << 16, 1 << 20 | 1 << 16]
    assert rules[-1].name == "temperature threshold, under, sensor 1"


@pytest.mark.parametrize("text", ["", "hello"])
def test_another_drives_own_default_is_as_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """A GUID in the LBA ranges is each drive's own: nobody left it there."""
    made = make_bed(tmp_path, monkeypatch, replace(MANY, serial="ANOTHER1"))
    (tmp_path / "first").mkdir()
    approved = make_bed(tmp_path / "first", monkeypatch, MANY).profile
    mortal(monkeypatch, made)
    assert [rule.digest for rule in approved.features if rule.fid == 3] != [
        rule.digest for rule in made.profile.features if rule.fid == 3
    ]
    made.profile = approved
    if text:
        made.leave(Leftovers(texts={Fid.LBA_RANGES: text}))
    report = made.run()
    fit(report)
    assert made.sent(report) == (["84", "09"] if text else ["84"])
    if text:
        default = made.bench.profile.nguid(1).hex()
        assert saved(made, Fid.LBA_RANGES).data.startswith(default)


def test_an_erase_asks_for_nothing_that_the_drive_refuses(bed: Bed) -> None:
    bed.run()
    asked = [entry for entry in bed.bench.commands("get_features") if not entry.succeeded]
    bed.files.clear()
    bed.run()
    again = [entry for entry in bed.bench.commands("get_features") if not entry.succeeded]
    assert len(again) == len(asked), "only the survey, once for a model"


def test_a_drive_without_a_list_of_its_features_is_asked_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refuses the log of supported features."""
    made = make_bed(tmp_path, monkeypatch, MANY)
    refused = []

    def firmware(opcode: int, words: dict[str, Any], done: Callable[[], Answer]) -> Answer:
        answer = done()
        if (opcode, words["cdw10"] & 0xFF) == (0x02, 0x12):
            refused.append(answer.code)
            return replace(answer, code=0x109, data=b"")
        return answer

    told = [each for each in made.profile.features if each.fid != Fid.VENDOR_COUNTER]
    made.firmware = firmware
    found = made.approved().features
    assert [each for each in found if each.fid != Fid.VENDOR_COUNTER] == told
    assert len(found) == len(made.profile.features)
    assert refused == [0]


def test_a_profile_says_it_all(bed: Bed) -> None:
    text = codec.canonical(bed.profile)
    assert codec.load(Profile, text, "profile") == bed.profile
    plain = FeatureRule(6, "volatile write cache", 1)
    assert b"select" not in codec.canonical(plain)
    assert b"current" not in codec.canonical(plain)


def test_an_older_profile_compares_what_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_bed(
        tmp_path,
        monkeypatch,
        replace(FULL, sanitize=SanitizeProfile(crypto=False, block_seconds=0)),
    )
    made.profile = replace(
        made.profile,
        features=(
            FeatureRule(4, "temperature threshold", 343, Comparator.REPORTED),
            FeatureRule(5, "error recovery", 0),
            FeatureRule(6, "volatile write cache", 1),
        ),
    )
    made.leave(Leftovers(features={4: 200, 6: 0}))
    fit(made.run())
    assert made.bench.drive.state.features["06/0/0"].value == 1
    assert made.bench.drive.state.features["04/0/0"].value == 200
