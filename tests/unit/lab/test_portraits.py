"""Portraits of models: each figure has a source, and the drive and the plan are what it says."""

from __future__ import annotations

import re
import struct
import time
from dataclasses import replace
from pathlib import Path

import pytest

from eraser.controller.spec import IdentifyController, IdentifyNamespace
from eraser.erase.plan import Capabilities, FormatTarget, make_plan
from eraser.protocol.policy import Label, Policy
from tests.lab.guest.payload import REPOSITORY
from tests.lab.nvme.errors import DriveError
from tests.lab.nvme.identify import controller
from tests.lab.nvme.portraits.fields import REQUIRED
from tests.lab.nvme.portraits.page import tables
from tests.lab.nvme.portraits.portrait import Portrait, portraits
from tests.lab.nvme.presetkind import Expected
from tests.lab.nvme.presets import PRESETS
from tests.lab.nvme.profile import DriveProfile
from tests.lab.nvme.state import factory_state
from tests.unit.lab.model import DEADLINE_SECONDS, SIZE, Bench

ALL = {each.name: each for each in portraits()}
COMPLETE = {name: each for name, each in ALL.items() if each.complete}

IDENTIFY = {
    "vid": (0, "<H"),
    "ssvid": (2, "<H"),
    "rab": (72, "<B"),
    "cmic": (76, "<B"),
    "mdts": (77, "<B"),
    "cntlid": (78, "<H"),
    "ver": (80, "<I"),
    "rtd3r": (84, "<I"),
    "rtd3e": (88, "<I"),
    "oacs": (256, "<H"),
    "frmw": (260, "<B"),
    "wctemp": (266, "<H"),
    "cctemp": (268, "<H"),
    "fwug": (319, "<B"),
    "sanicap": (328, "<I"),
    "nn": (516, "<I"),
    "oncs": (520, "<H"),
    "fna": (524, "<B"),
    "vwc": (525, "<B"),
    "nwpc": (531, "<B"),
}
"""Base 2.0, figure 275, written down here once more: the drive's own table is what is tested."""
NAMESPACE = {"flbas": (26, "<B"), "fpi": (32, "<B"), "dlfeat": (33, "<B")}
"""NVM Command Set 1.0, figure 97."""


def _bench(directory: Path, portrait: Portrait) -> Bench:
    return Bench(directory, replace(portrait.profile(), size=SIZE))


def test_the_models_that_were_asked_for_have_a_file() -> None:
    asked = "pm983 pm9a3 pm1733 p4510 p5510 p5520 micron-7300 micron-7450 cd6 cm7 sn640 sn840 660p"
    assert sorted(ALL) == sorted(asked.split())
    assert set(COMPLETE) == {"pm1733", "p4510"}


@pytest.mark.parametrize("portrait", ALL.values(), ids=ALL)
def test_every_figure_has_a_public_source(portrait: Portrait) -> None:
    for name, figure in portrait.figures.items():
        assert figure.sources, name
        assert all(source in portrait.sources for source in figure.sources)
    for source in portrait.sources:
        assert re.match(r"https://(github\.com|lore\.kernel\.org)/\S+$", source.where)
        assert source.what
    used = {source for figure in portrait.figures.values() for source in figure.sources}
    assert used == set(portrait.sources)
    # What has no source was looked for, and it is told where.
    assert portrait.complete or portrait.searched


@pytest.mark.parametrize("portrait", ALL.values(), ids=ALL)
def test_only_a_model_with_all_that_decides_its_erase_is_a_preset(portrait: Portrait) -> None:
    if portrait.complete:
        assert PRESETS[portrait.name] == portrait.preset()
        assert PRESETS[portrait.name].expected is Expected.ERASED
        return
    assert portrait.name not in PRESETS
    with pytest.raises(DriveError, match="no source for all of sanicap, oacs, fna"):
        portrait.profile()


@pytest.mark.parametrize("portrait", COMPLETE.values(), ids=COMPLETE)
def test_the_drive_identifies_as_its_portrait(tmp_path: Path, portrait: Portrait) -> None:
    bench = _bench(tmp_path, portrait)
    raw = bench.identify(1)
    for name, (offset, form) in IDENTIFY.items():
        [found] = struct.unpack_from(form, raw, offset)
        assert found == portrait.number(name), name
    assert raw[24:64].decode().rstrip() == portrait.text("mn")
    assert raw[64:72].decode().rstrip() == portrait.text("fr")
    assert raw[75:72:-1].hex() == f"{portrait.number('ieee'):06x}"
    if portrait.text("subnqn", "a name") == "":
        assert not any(raw[768:1024])
    namespace = bench.identify(0, 1)
    for name, (offset, form) in NAMESPACE.items():
        if name in portrait.figures:
            [found] = struct.unpack_from(form, namespace, offset)
            assert found == portrait.number(name), name
    formats = portrait.text("lbaf").split()
    for index, text in enumerate(formats):
        metadata, shift, performance = struct.unpack_from("<HBB", namespace, 128 + 4 * index)
        assert f"{shift}:{metadata}:{performance}" == text
    assert namespace[25] + 1 == (len(formats) or 2)


@pytest.mark.parametrize("portrait", COMPLETE.values(), ids=COMPLETE)
def test_what_the_drive_says_beside_it_also_acts_on(portrait: Portrait) -> None:
    """Bytes that are shown as they stand hide no bit that the model of the drive decides."""
    profile = portrait.profile()
    plain = replace(profile, stated=())
    bits = {"oacs": 0b0100_0000_1111, "oncs": 0b1010_1000}
    for name, mask in bits.items():
        offset, form = IDENTIFY[name]
        [shown] = struct.unpack_from(form, _identify(profile), offset)
        [decided] = struct.unpack_from(form, _identify(plain), offset)
        assert shown & mask == decided & mask, name


def _identify(profile: DriveProfile) -> bytes:
    return controller(profile, factory_state(replace(profile, size=SIZE)))


PURGE, CLEAR = Policy(), Policy(label=Label.CLEAR)
ALLOWED = Policy(allow_clear=True)
SANITIZE, FORMAT = 0x84, 0x80
BY_HAND: dict[tuple[str, str], tuple[tuple[int, int, int], ...]] = {
    # SANICAP 3h: crypto erase (SANACT 100b), then block erase (SANACT 010b), of the subsystem.
    ("pm1733", "purge"): ((SANITIZE, 0, 0b100), (SANITIZE, 0, 0b010)),
    ("pm1733", "allowed"): ((SANITIZE, 0, 0b100), (SANITIZE, 0, 0b010)),
    # Format with user data erase (SES 001b in bits 11:9) in LBA format 2, which is in use.
    ("pm1733", "clear"): ((FORMAT, 1, 0x202),),
    # SANICAP 0: no Purge, which the built-in policy refuses. FNA 0: no cryptographic Format.
    ("p4510", "purge"): (),
    ("p4510", "allowed"): ((FORMAT, 1, 0x200),),
    ("p4510", "clear"): ((FORMAT, 1, 0x200),),
}
"""Opcode, NSID and command dword 10, written from Base 2.0 (5.14, 5.24) and the figures."""


@pytest.mark.parametrize(("name", "policy"), BY_HAND)
def test_the_plan_is_the_one_written_by_hand(tmp_path: Path, name: str, policy: str) -> None:
    """From the bytes that the drive answers, as the eraser reads them."""
    bench = _bench(tmp_path, COMPLETE[name])
    identify = IdentifyController.parse(bench.identify(1))
    target = FormatTarget.of(1, IdentifyNamespace.parse(bench.identify(0, 1)))
    asked = {"purge": PURGE, "allowed": ALLOWED, "clear": CLEAR}[policy]
    plan = make_plan(asked, Capabilities.of(identify), (target,))
    sent = tuple((each.opcode, each.nsid, each.cdw10) for each in plan.commands)
    assert sent == BY_HAND[name, policy]
    assert bool(plan.refusal) is not bool(sent)
    assert plan.downgraded is (name == "p4510" and policy == "allowed")


@pytest.mark.parametrize(("name", "policy"), [one for one, sent in BY_HAND.items() if sent])
def test_the_drive_takes_the_plan_and_is_empty(tmp_path: Path, name: str, policy: str) -> None:
    bench = _bench(tmp_path, COMPLETE[name])
    secret = b"a tenant's data!" * 256
    assert bench.write(0, secret) == 0
    for opcode, nsid, cdw10 in BY_HAND[name, policy]:
        if opcode == FORMAT:
            assert bench.format(cdw10, nsid) == 0
        else:
            assert bench.sanitize(cdw10) == 0
            assert bench.wait_sanitize().outcome == 1
    assert secret[:16] not in bench.stored()
    assert not any(bench.read(0, len(secret)))


def test_a_format_with_metadata_is_shown_and_refused(tmp_path: Path) -> None:
    """The lab has no buffers for them: it says so, as a drive may (Invalid Format, 10Ah)."""
    bench = _bench(tmp_path, COMPLETE["pm1733"])
    assert [bench.format(0x200 | index) for index in range(6)] == [0, 0x10A, 0, 0x10A, 0x10A, 0x10A]


def test_what_no_source_says_is_listed() -> None:
    assert COMPLETE["p4510"].not_known == ("lbaf", "dlfeat", "eto", "etbe", "etce")
    assert COMPLETE["pm1733"].not_known == ("device", "eto", "etbe", "etce")
    assert set(REQUIRED) <= set(ALL["cm7"].not_known)
    assert "sgls" in COMPLETE["pm1733"].not_played


def test_the_660p_stands_where_the_labs_stuck_drive_stands(tmp_path: Path) -> None:
    """SPROG 655 in three threads: one per cent of 65536, where ``sanitize-stuck`` halts too."""
    stuck = PRESETS["sanitize-stuck"]
    bench = Bench(tmp_path, replace(stuck.profile, size=SIZE), stuck.faults)
    assert bench.sanitize(0b010) == 0
    figure = ALL["660p"].figures["sprog"]
    assert len(figure.sources) == 3
    deadline = time.monotonic() + DEADLINE_SECONDS
    while (log := bench.sanitize_log()).sprog < int(figure.value):
        assert time.monotonic() < deadline, "the sanitize operation did not get so far"
    bench.drive.sanitizer.halt()
    assert (log.sprog, log.outcome) == (int(figure.value), 2)


def test_the_page_has_the_tables_of_the_portraits() -> None:
    """``python -m tests.lab.nvme.portraits`` makes them."""
    assert tables() in (REPOSITORY / "docs/portraits.md").read_text()
