"""Slots are enrolled from the openstack program as a plan said, and each has a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import requests

from eraser.protocol import codec
from eraser.protocol.identity import Slot
from quarantine import cli
from quarantine.errors import BadInputError, ConflictError, QuarantineError, UnavailableError
from quarantine.operations.enrol import EnrolmentRequest, take
from quarantine.operations.plane import Plane
from quarantine.record.words.facts import SlotRecord
from quarantine.service.assembly import Assembly
from tests.unit.quarantine.api.client import ADMIN, READER, SERVER, SLOTS, Site
from tests.unit.quarantine.osc.shell import URL, Program, Wire, answer
from tests.unit.quarantine.smallcloud import RC, Cloud
from tests.unit.quarantine.testimony import PROFILE

HOST = "cmp_3"
USED, ONE, TWO = (Slot(HOST, f"0000:0{bus}:00.0") for bus in (1, 2, 3))
BY = ("slot", "enrol", "--profile", PROFILE.name)
ENROL = (*BY, "--host", HOST)
WHY = ("--reason", "rack 7")


@pytest.fixture(autouse=True)
def cloud(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Cloud:
    """Three drives of a host that nobody enrolled; a server has the first."""
    found = Cloud()
    for slot in (USED, ONE, TWO):
        found.add(slot)
    found.claim(USED, SERVER)
    found.burn(USED)
    monkeypatch.setattr(Assembly, "placement", property(lambda _assembly: found))
    profile = tmp_path / "profile.json"
    profile.write_bytes(codec.canonical(PROFILE))
    head = ("--config-file", str(site.file))
    assert cli.main([*head, "profile", "approve", str(profile), "--by", "Ada"]) == 0
    capsys.readouterr()
    return found


def on_record(site: Site) -> dict[Slot, SlotRecord]:
    """The host's slots that are enrolled."""
    with site.store() as store:
        return {one.slot: one for one in store.slots() if one.slot.host == HOST}


def here(site: Site, program: Program, *words: object) -> tuple[int, str, str]:
    """The same command on the record."""
    code = cli.main(["--config-file", str(site.file), *map(str, words)])
    said = program.capsys.readouterr()
    return code, said.out, said.err


def fates(out: str) -> dict[str, str]:
    """By slot, from JSON."""
    return {one["slot"]: one["fate"] for one in json.loads(out)}


def failed(found: tuple[int, str, str], code: int, words: str) -> None:
    """Nothing is printed but lines on stderr, of which the last one says why."""
    assert found[:2] == (code, ""), found
    assert words in found[2].splitlines()[-1]
    assert all(line.isprintable() for line in found[2].splitlines())


def planned(program: Program, *words: object) -> str:
    """The version of the plan that is now, as a person is told it."""
    code, _out, err = program(*ENROL, "--plan", *words)
    assert code == 0
    return err.rpartition("--seen ")[2].split()[0]


def test_as_planned(site: Site, program: Program) -> None:
    told = here(site, program, *ENROL, "--plan", "-f", "json")
    assert program(*ENROL, "--plan", "-f", "json") == told
    code, out, err = told
    assert (code, on_record(site)) == (0, {})
    assert fates(out) == {str(USED): "in_use", str(ONE): "free", str(TWO): "free"}
    assert err.startswith("nvme-quarantine: 2 free, 1 in_use; nothing was changed; --seen ")
    seen = ("--seen", planned(program))
    program.wire.carried.clear()
    code, again, err = program(*ENROL, *seen, *WHY, "-f", "json")
    assert (code, again) == (0, out)
    assert program.wire.carried == [f"POST {URL}/v1/hosts/{HOST}/enrolment"]
    assert err.startswith("nvme-quarantine: 2 free, 1 in_use; the running service goes on")
    states = {slot: str(one.state) for slot, one in on_record(site).items()}
    assert states == {USED: "in_use", ONE: "released", TWO: "released"}
    with site.store() as store:
        line = next(iter(store.history(ONE)))
    assert line.by is not None
    assert (line.reason, line.by.user) == ("rack 7", ADMIN[0])
    failed(program(*ENROL, *seen, *WHY), 3, "HTTP 412, req-")


def test_without_a_plan_it_looks_first(site: Site, program: Program) -> None:
    code, out, err = program(*ENROL, *WHY)
    assert (code, out.count(" free ")) == (0, 2)
    assert err.splitlines()[0] == f"nvme-quarantine: enrol: {HOST}: 2 free, 1 in_use"
    assert [line.split()[0] for line in program.wire.carried] == ["GET", "POST"]
    assert on_record(site).keys() == {USED, ONE, TWO}
    # Again: everything is known, and nothing changes.
    before = on_record(site)
    code, out, _err = program(*ENROL, *WHY, "-f", "json")
    assert (code, set(fates(out).values())) == (0, {"known"})
    assert on_record(site) == before


@pytest.mark.parametrize("is_seen", [False, True])
def test_somebody_was_quicker(site: Site, program: Program, cloud: Cloud, is_seen: bool) -> None:
    """A server that takes a drive between look and act, and a person who enrols a slot."""
    wish = EnrolmentRequest(PROFILE.name, host=HOST, address=TWO.address)
    for quicker in (
        lambda: cloud.claim(ONE, SERVER),
        lambda: take(Plane([site.file]), wish, reason="mine"),
    ):

        def before(request: Any, quicker: Any = quicker) -> None:
            if request.method == "POST":
                program.wire.before = lambda _request: None
                quicker()

        seen = ("--seen", planned(program)) if is_seen else ()
        program.wire.before = before
        failed(program(*ENROL, *WHY, *seen), 3, "HTTP 412, req-")
    assert on_record(site).keys() == {TWO}
    assert not cloud.seat(ONE).reserved
    assert program(*ENROL, *WHY)[0] == 0


def test_the_record_does_as_planned_too(site: Site, program: Program, cloud: Cloud) -> None:
    seen = ("--seen", planned(program))
    failed(here(site, program, *ENROL, *seen), 2, "--reason")
    cloud.claim(ONE, SERVER)
    failed(here(site, program, *ENROL, *seen, *WHY), 3, "look at it again")
    assert on_record(site) == {}
    seen = ("--seen", planned(program))
    assert here(site, program, *ENROL, *seen, *WHY)[0] == 0
    with site.store() as store:
        assert next(iter(store.history(TWO))).reason == "rack 7"
        assert store.slot(ONE) is not None


def test_each_slot_has_a_line_also_where_one_is_refused(
    site: Site, program: Program, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that never stands still, which the plan could not know."""
    real = cloud.put_reserved

    def put(view: Any, *, full: bool) -> int:
        if view.provider.slot == ONE:
            raise ConflictError("409")
        return real(view, full=full)

    monkeypatch.setattr(cloud, "put_reserved", put)
    code, out, err = program(*ENROL, *WHY, "-f", "json")
    assert (code, fates(out)) == (4, {str(USED): "in_use", str(ONE): "refused", str(TWO): "free"})
    assert "stand still" in out
    assert "1 free, 1 in_use, 1 refused" in err.splitlines()[-1]
    assert on_record(site).keys() == {USED, TWO}


def test_one_slot_by_name(site: Site, program: Program, cloud: Cloud) -> None:
    """What stands in its way is the error that it is on the record."""
    one = (*ENROL, "--pci", ONE.address.upper())
    code, out, _err = program(*one, *WHY, "-f", "json")
    assert (code, fates(out)) == (0, {str(ONE): "free"})
    assert on_record(site).keys() == {ONE}
    cloud.seat(TWO).burns = False
    other = (*ENROL, "--pci", TWO.address)
    nowhere = (*ENROL, "--pci", "0000:99:00.0")
    for words, code, why in (
        (one, 3, "expected a slot that is not enrolled"),
        (other, 2, "expected the trait"),
        (nowhere, 2, "expected"),
    ):
        failed(program(*words, *WHY), code, why)
        failed(here(site, program, *words), code, why)
    for words, code in ((one, 0), (other, 4)):
        told = here(site, program, *words, "--plan", "-f", "json")
        assert told[0] == code
        assert program(*words, "--plan", "-f", "json") == told


def test_a_policy_without_a_name_is_not_the_default_one(site: Site, program: Program) -> None:
    for words in (("--plan",), ()):
        failed(here(site, program, *ENROL, "--policy", "", *words), 2, "policy ''")
    assert on_record(site) == {}


def test_a_class_of_the_host(program: Program, site: Site) -> None:
    words = (*ENROL, "--resource-class", RC, "--policy", "purge", "--plan", "-f", "json")
    assert program(*words) == here(site, program, *words)
    failed(program(*ENROL, "--resource-class", "CUSTOM_NOT_THERE", "--plan"), 2, "HTTP 400")


@pytest.mark.parametrize("made", ['W/"{}"', '"{}-gzip"', 'W/"{}-br"', '"{}--gzip"'])
def test_a_proxy_that_compresses(
    program: Program, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    real = Wire.send

    def send(wire: Wire, request: Any, *words: Any, **more: Any) -> Any:
        found = real(wire, request, *words, **more)
        if "ETag" in found.headers:
            found.headers["ETag"] = made.format(found.headers["ETag"].strip('"'))
        return found

    monkeypatch.setattr(Wire, "send", send)
    assert program(*ENROL, *WHY, "--seen", planned(program))[0] == 0
    assert program(*ENROL, *WHY)[0] == 0


def test_the_answer_is_lost(site: Site, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was done, and who asked cannot know: so that is said, and a look tells."""
    real = Wire.send

    def send(wire: Wire, request: Any, *words: Any, **more: Any) -> Any:
        found = real(wire, request, *words, **more)
        if request.method == "POST":
            raise requests.ConnectionError("Remote end closed connection\x1b[2J")
        return found

    with monkeypatch.context() as lost:
        lost.setattr(Wire, "send", send)
        failed(program(*ENROL, *WHY), 6, "whether it was done is not known: look again first")
    assert on_record(site).keys() == {USED, ONE, TWO}
    code, out, _err = program(*ENROL, "--plan", "-f", "json")
    assert (code, set(fates(out).values())) == (0, {"known"})


@pytest.mark.parametrize(("status", "code"), [(502, 6), (503, 6), (504, 6), (500, 1)])
def test_a_proxy_answers(program: Program, status: int, code: int) -> None:
    def away(request: Any) -> Any:
        return answer(status, b"<html>\x1b[2J") if request.method == "POST" else None

    program.wire.before = away
    failed(program(*ENROL, *WHY), code, "whether it was done is not known")
    program.wire.before = lambda _request: answer(status, b"<html>")
    found = program(*ENROL, "--plan")
    failed(found, code, f"HTTP {status}")
    assert "whether" not in found[2], "a question changes nothing"


@pytest.mark.parametrize("kind", [UnavailableError, BadInputError])
def test_placement_goes_away_in_the_middle(
    site: Site,
    program: Program,
    cloud: Cloud,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[QuarantineError],
) -> None:
    """The API said that nothing was decided, when one slot was reserved already; or that its words
    were malformed, where Placement let us in no more."""
    real = cloud.put_reserved

    def put(view: Any, *, full: bool) -> int:
        if view.provider.slot == TWO:
            raise kind("placement: 10.0.0.7 said no")
        return real(view, full=full)

    with monkeypatch.context() as away:
        away.setattr(cloud, "put_reserved", put)
        found = program(*ENROL, *WHY)
        failed(found, 6, "some of it may be done, and nothing is undone")
        assert "HTTP 503, req-" in found[2]
        assert "10.0.0.7" not in found[2]
        failed(here(site, program, *ENROL), 6, "what is reserved stays reserved")
        assert (cloud.seat(ONE).reserved, on_record(site)) == (True, {})
    assert program(*ENROL, *WHY)[0] == 0
    assert on_record(site).keys() == {USED, ONE, TWO}


def test_placement_is_away(site: Site, program: Program, cloud: Cloud) -> None:
    cloud.broken["list"] = UnavailableError("placement: 10.0.0.7 does not answer")
    for words in (WHY, ("--plan",), (*WHY, "--seen", "x")):
        found = program(*ENROL, *words)
        failed(found, 6, "nothing was decided")
        assert "10.0.0.7" not in found[2]
    assert on_record(site) == {}


def test_who_may_not(site: Site, program: Program) -> None:
    seen = ("--seen", planned(program))
    for user, words in ((READER, "HTTP 403, req-"), (("ada", "guessed"), "401")):
        program.user = user
        failed(program(*ENROL, "--plan"), 8, words)
        failed(program(*ENROL, *WHY), 8, words)
        failed(program(*ENROL, *WHY, *seen), 8, words)
    assert on_record(site) == {}


@pytest.mark.parametrize(
    "host",
    ["..", ".", "", "../x", "a/../b", "x?a=b", "x#y", "x\x1b[2J", "x\r\nHost: y", "%2e%2e", "a b"],
)
def test_a_host_is_one_part_of_a_path(program: Program, host: str) -> None:
    for words in (("--plan",), WHY, (*WHY, "--seen", "x")):
        failed(program(*BY, "--host", host, *words), 2, "")
    assert program.wire.carried == []


def test_words_that_are_wrong(program: Program) -> None:
    """None of these reaches anybody, but the last ones."""
    failed(program(*BY, *WHY), 2, "--host")
    failed(program(*BY, "--all", *WHY), 2, "--host")
    failed(program(*BY, "--resource-class", RC, *WHY), 2, "--host")
    failed(program("slot", "enrol", "--host", HOST, *WHY), 2, "--profile")
    failed(program(*ENROL), 2, "--reason")
    failed(program(*ENROL, "--reason", " "), 2, "--reason")
    failed(program(*ENROL, "--plan", "--seen", "x"), 2, "--seen")
    failed(program(*ENROL, "--pci", "x", *WHY), 2, "PCI address")
    failed(program(*ENROL, "--pci", ONE.address, "--resource-class", RC, *WHY), 2, "--pci")
    for wrong in ('"', "\n", "\x7f", "é"):
        failed(program(*ENROL, *WHY, "--seen", wrong), 2, "--seen")
    assert program.wire.carried == []
    failed(program("slot", "enrol", "--profile", "x", "--host", HOST, *WHY), 2, "approved")
    failed(program(*ENROL, *WHY, "--policy", "none"), 2, "approved")
    failed(program(*BY, "--host", "nobody", *WHY), 2, "nobody")
    failed(program(*ENROL, "--reason", "x" * 9000, "--seen", "x"), 2, "HTTP 400")


@pytest.mark.parametrize(
    "content",
    [b"{}", b'{"slots": 5, "unacted": ""}', b'{"slots": [5]}', b"[]", b"<html>\x1b[2J", b"\xff",
     b'{"slots": [], "unacted": ""}', b'{"slots": {}, "unacted": ""}', b"[" * 99999],
)  # fmt: skip
def test_whoever_answers_is_not_the_api(program: Program, content: bytes) -> None:
    """No slot at all is no answer either: it read as if all were in care."""
    program.wire.before = lambda _request: answer(200, content, ETag='"x"')
    found = program(*ENROL, "--plan")
    failed(found, 1, "expected")
    assert "whether" not in found[2]
    failed(program(*ENROL, *WHY, "--seen", "x"), 1, "whether it was done is not known")


def test_an_error_of_the_apis_own(
    program: Program, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody expected it, so nobody knows how far it came."""

    def put(*_words: object, **_named: object) -> int:
        raise RuntimeError("a mistake")

    monkeypatch.setattr(cloud, "put_reserved", put)
    found = program(*ENROL, *WHY)
    failed(found, 1, "whether it was done is not known")
    assert "HTTP 500, req-" in found[2]


def test_a_later_api(program: Program) -> None:
    """A fate that we do not know is shown, and is none that a script takes for done."""
    line = {"slot": "cmp_3_0000:02:00.0", "reason": "\x1b[2J", "server": None}
    slots = [
        {**line, "fate": "parked\x1b", "resource_class": RC, "more": 1},
        {**line, "fate": "free", "resource_class": RC},
    ]
    said = json.dumps({"slots": slots, "unacted": "", "more": 1}).encode()
    program.wire.before = lambda _request: answer(200, said, ETag='"x"')
    code, out, err = program(*ENROL, *WHY)
    assert (code, "parked" in out) == (4, True)
    assert "1 free, 1 parked" in err
    assert "\x1b" not in out + err


@pytest.mark.parametrize("version", ["", " "])
def test_no_version_is_none_that_was_seen(site: Site, program: Program, version: str) -> None:
    """A script whose variable is empty: it was taken for no --seen at all."""
    failed(program(*ENROL, *WHY, "--seen", version), 2, "--seen")
    failed(here(site, program, *ENROL, *WHY, "--seen", version), 2, "--seen")
    assert (program.wire.carried, on_record(site)) == ([], {})


def test_why_none_was_looked_at_is_for_the_log(
    site: Site, program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    """The error names a cloud, an address or a file: the API handed it on."""
    code, _out, err = program(*ENROL, *WHY)
    assert (code, on_record(site).keys()) == (0, {USED, ONE, TWO})
    assert "the log says why" in err
    assert "no-such-cloud" not in err
    assert "no-such-cloud" in caplog.text


@pytest.mark.parametrize("tag", [None, "", '"', '"x y"'])
def test_a_plan_without_a_version(
    site: Site, program: Program, monkeypatch: pytest.MonkeyPatch, tag: str | None
) -> None:
    """A proxy took it away. It is shown, and is none to go by; nobody typed a wrong --seen."""
    tagged(monkeypatch, tag)
    code, _out, err = program(*ENROL, "--plan")
    assert (code, "--seen" in err) == (0, False)
    for words in ((*ENROL, *WHY), ("slot", "hold", str(SLOTS[0]), *WHY)):
        found = program(*words)
        failed(found, 1, "ETag")
        assert "--seen" not in found[2]
    assert {line.split()[0] for line in program.wire.carried} == {"GET"}
    assert on_record(site) == {}


def test_a_version_is_one_word_for_a_shell(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is copied from the terminal into the next command."""
    tagged(monkeypatch, '"x;reboot"')
    assert "--seen 'x;reboot' does" in program(*ENROL, "--plan")[2]


def tagged(monkeypatch: pytest.MonkeyPatch, tag: str | None) -> None:
    """Every answer has that ETag; None: it has none."""
    real = Wire.send

    def send(wire: Wire, request: Any, *words: Any, **more: Any) -> Any:
        found = real(wire, request, *words, **more)
        found.headers.pop("ETag", None)
        if tag is not None:
            found.headers["ETag"] = tag
        return found

    monkeypatch.setattr(Wire, "send", send)
