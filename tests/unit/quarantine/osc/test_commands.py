"""The commands on the API say what they say on the record; what goes wrong is a line and a code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from eraser.protocol.identity import Slot
from eraser.protocol.report import Hello, SeenDrive
from eraser.protocol.ticket import (
    Defence,
    DefenceSeen,
    DefenceStanding,
    Exemption,
    GateTestimony,
)
from eraser.protocol.transport.signing import PrivateKey
from quarantine import cli
from quarantine.cli import base
from quarantine.cli.app import COMMANDS, Commands
from quarantine.osc.client import Api
from quarantine.record.alarms import AlarmCall
from quarantine.record.database import engine as door
from quarantine.record.database import models
from quarantine.record.words.facts import SlotChanges
from quarantine.record.words.reasons import HoldCode
from quarantine.rules import holds
from tests.unit.quarantine.api.client import ADMIN, DRIVE, READER, SLOTS, Site
from tests.unit.quarantine.api.test_reads import FIRST, issue
from tests.unit.quarantine.osc.shell import URL, Program, Wire, answer

TOP = Path(__file__).parents[4]
ONE = SLOTS[0]
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
MOVED = replace(DRIVE, serial="S2", model="m")
OURS = PROJECT["entry-points"]["openstack.nvme.v1"]


def failed(found: tuple[int, str, str], code: int, words: str) -> None:
    """One line, nothing else."""
    assert found[:2] == (code, ""), found
    assert found[2].count("\n") == 1
    assert found[2].startswith("nvme-quarantine: ")
    assert found[2].strip().isprintable()
    assert words in found[2]


def test_the_same_classes_by_the_same_words() -> None:
    named = {name.removeprefix("nvme_").replace("_", " "): place for name, place in OURS.items()}
    assert all(name.startswith("nvme_") for name in OURS)
    assert (
        named.items()
        <= {words: f"quarantine.cli.commands.{place}" for words, place in COMMANDS.items()}.items()
    )


def test_its_page_names_all_of_them() -> None:
    rows = re.findall(
        r"\| `openstack nvme (\w+)` \| (.*) \|", (TOP / "docs/openstackclient.md").read_text()
    )
    said = {f"nvme_{kind}_{verb}" for kind, verbs in rows for verb in re.findall(r"`(\w+)`", verbs)}
    assert said == OURS.keys()


def test_the_openstack_program_loads_nothing_heavy_for_us() -> None:
    """Not at its start; nor do the commands when it completes words or runs one."""
    modules = sorted({place.partition(":")[0] for place in OURS.values()})
    code = (
        "import sys, importlib\n"
        "import quarantine.osc.plugin\n"
        "third = {'cliff', 'keystoneauth1', 'cryptography', 'requests', 'stevedore'}\n"
        "heavy = {'sqlalchemy', 'alembic', 'celery', 'kombu', 'redis', 'openstack'}\n"
        "assert not (third | heavy) & sys.modules.keys(), sorted(sys.modules)\n"
        "assert len([n for n in sys.modules if n.startswith(('quarantine', 'eraser'))]) <= 3\n"
        f"[importlib.import_module(name) for name in {modules!r}]\n"
        "assert not 'oslo_config' in sys.modules\n"
        "import quarantine.osc.source, quarantine.osc.client\n"
        "assert not heavy & sys.modules.keys(), sorted(heavy & sys.modules.keys())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=TOP, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def _lived(site: Site) -> None:
    """Something to tell: a held slot, a host with a hello, certificates, a refusal."""
    issue(site)
    with site.store() as store, door.writing(store._engine) as db:
        db.execute(sa.update(models.certificates).values(drive=MOVED.digest))
    with site.store() as store:
        store.record_refusal("report", "cmp1", "bad\x1b[2J", "d", "x")
        calls = [
            AlarmCall("late", "sweep", "bad\x1b[2J", FIRST, FIRST, 1),
            AlarmCall("on-offer", str(SLOTS[0]), "free", FIRST, FIRST, 1),
            AlarmCall("host-silent", "host cmp1", "silent", FIRST, FIRST, 1),
        ]
        store.note_alarms({}, calls)
        key, life = PrivateKey.generate(), "incarnation-00001"
        store.register_host("cmp1", key.public, life, replace=False)
        defences = (DefenceSeen(Defence.HOOK, DefenceStanding.ABSENT, "run host-setup"),)
        exempt = (Exemption("0000:09:00.0", "a scratch disk", "ada", "2026-11-20T03:00:00Z"),)
        gate = GateTestimony(defences, (), (), (), exempt)
        drives = (SeenDrive("0000:01:00.0", "vfio-pci", DRIVE),)
        store.host_seen("cmp1", 1, Hello("cmp1", life, 1, "0.9", drives, (), (), gate))
        store.register_host("cmp2", PrivateKey.generate().public, life, replace=False)
        with door.writing(store._engine) as db:
            silent = sa.update(models.hosts).where(models.hosts.c.name == "cmp2")
            db.execute(silent.values(registered_at=FIRST))
        store.amend(store.slots()[1], SlotChanges(alarm="smoke"))
        for slot, serial in zip(store.slots()[2:5], ("S2", "S3", "S4"), strict=True):
            store.amend(slot, SlotChanges(identity=replace(DRIVE, serial=serial, model="m")))
    assert (
        cli.main(["--config-file", str(site.file), "slot", "hold", str(ONE), "--reason", "x"]) == 0
    )


QUESTIONS = [
    ("slot", "list"), ("slot", "list", "--state", "held"), ("slot", "list", "--host", "cmp2"),
    ("slot", "show", str(ONE)), ("slot", "show", str(SLOTS[4])), ("slot", "history", str(ONE)),
    ("host", "list"), ("host", "list", "--silent"), ("host", "show", "cmp1"),
    ("certificate", "list"),
    ("certificate", "list", "--slot", str(ONE)), ("capacity", "show"), ("refusal", "list"),
    ("alarm", "list"), ("alarm", "list", "--open", "--code", "late"),
    ("history", "list"), ("history", "list", "--limit", "2"),
    ("history", "list", "--host", "cmp1", "--event", "held"),
    ("alarm", "list", "--newest", "--severity", "critical", "--slot", str(SLOTS[0])),
    ("alarm", "list", "--newest", "--severity", "warning"),
    ("drive", "show", MOVED.digest), ("drive", "list"), ("drive", "list", "--limit", "1"),
    ("drive", "list", "--model", "m"),
]  # fmt: skip
DECIDED = [
    ("maintenance", "list"), ("maintenance", "list", "--limit", "1"),
    ("maintenance", "list", "--history", "cmp1"), ("maintenance", "list", "--history", str(ONE)),
    ("campaign", "list"), ("campaign", "list", "--limit", "1"), ("campaign", "show", "c1"),
    ("campaign", "slots", "c1"), ("campaign", "slots", "c1", "--limit", "1"),
    ("slot", "list"), ("slot", "list", "--host", "cmp1"),
]  # fmt: skip


def test_an_api_of_an_earlier_release_does_not_say_that_a_host_lacks_nothing(
    site: Site, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    _lived(site)
    get = Api.get

    def older(api: Api, *parts: str) -> Any:
        found = get(api, *parts)
        kept = {
            k: v for k, v in found.document.items() if k not in ("defences", "lacks", "exemptions")
        }
        return replace(found, document=kept)

    monkeypatch.setattr(Api, "get", older)
    said = json.loads(program("host", "show", "cmp1", "-f", "json")[1])
    assert (said["defences"], said["lacks"], said["exemptions"]) == (None, None, None)
    assert program("host", "show", "cmp1")[0] == 0


def test_alarms_that_are_over(site: Site, program: Program) -> None:
    _lived(site)
    with site.store() as store, door.writing(store._engine) as db:
        late = models.alarms.c.code == "late"
        db.execute(sa.update(models.alarms).where(late).values(over_at=FIRST))
    out = program("alarm", "list", "--over", "-f", "json")[1]
    assert {one["code"] for one in json.loads(out)} == {"late"}


def test_capacity_of_more_hosts_than_a_page_has(site: Site, program: Program) -> None:
    """[api]max_limit is 2 here."""
    with site.store() as store:
        for number in range(7):
            words = {"resource_class": "CUSTOM_NVME", "profile": "x", "policy": "purge"}
            slot = Slot(f"h{number}", "0000:01:00.0")
            store.enrol(slot, provider=f"p{number}", in_use=False, **words)
    _same(site, program, ("capacity", "show", "one"))
    found = json.loads(program("capacity", "show", "one", "-f", "json")[1])
    assert len({one["host"] for one in found}) == len(found) == 10


def _part(whole: Any, of: Any) -> Any:
    """What ``of`` has members for."""
    if isinstance(whole, dict) and isinstance(of, dict):
        return {name: _part(whole[name], value) for name, value in of.items()}
    if isinstance(whole, list) and isinstance(of, list) and len(whole) == len(of):
        return [_part(*pair) for pair in zip(whole, of, strict=True)]
    return whole


def _same(site: Site, program: Program, words: tuple[str, ...]) -> None:
    """For every member that the API has, and every column of a table but what hosts said."""
    capsys = program.capsys
    assert cli.main(["--config-file", str(site.file), *words, "-f", "json"]) == 0
    here = json.loads(capsys.readouterr().out)
    code, out, err = program(*words, "-f", "json")
    assert (code, err) == (0, ""), words
    there = json.loads(out)
    heres, theres = ([here], [there]) if isinstance(here, dict) else (here, there)
    assert len(heres) == len(theres) > 0, words
    for mine, theirs in zip(heres, theres, strict=True):
        assert theirs.keys() <= mine.keys()
        assert theirs == _part(mine, theirs), words
    made = Commands().find_command(list(words))[0]
    table = set(getattr(made, "table", ()))
    lost = {"version", "drives", "cases"} if words[:2] == ("host", "list") else set()
    assert table - lost <= theres[0].keys()
    for form in ("table", "csv", "value"):
        if (form, isinstance(here, dict)) != ("csv", True):
            code, out, _err = program(*words, "-f", form)
            assert code == 0
            assert all(line.isprintable() for line in out.splitlines())


def test_what_the_record_says(site: Site, program: Program) -> None:
    _lived(site)
    program.capsys.readouterr()
    for words in QUESTIONS:
        _same(site, program, words)


def test_a_slot_that_a_release_without_codes_held(site: Site, program: Program) -> None:
    """It is held for the same in a list, by itself, and in a filter."""
    with site.store() as store:
        store.hold(store.slots()[0], holds.because(HoldCode.BY_PERSON, "noises"))
        with door.writing(store._engine) as db:
            db.execute(sa.update(models.slots).values(hold_code=None))
    for words in (("slot", "list", "--state", "held"), ("slot", "show", str(ONE))):
        _same(site, program, words)
    found = site.client().as_user(READER).get("/v1/slots?hold_code=older").json["slots"]
    assert [one["hold_code"] for one in found] == ["older"]


def test_a_slot_that_waits_for_a_silent_host_says_so_in_a_list(
    site: Site, program: Program
) -> None:
    """Who looks at what is under way saw nothing wrong from elsewhere."""
    with site.store() as store:
        store.register_host("cmp1", PrivateKey.generate().public, "incarnation-00001")
        with door.writing(store._engine) as db:
            db.execute(sa.update(models.hosts).values(heard_at=FIRST))
            said = {"state": "erasing", "heard_at": FIRST, "detail": "slow"}
            db.execute(sa.update(models.slots).where(models.slots.c.id == 1).values(said))
    words = ("slot", "list", "--state", "erasing", "-f", "json")
    there = json.loads(program(*words)[1])
    assert cli.main(["--config-file", str(site.file), *words]) == 0
    # Between the two commands a minute may end.
    for one in (*there, *json.loads(program.capsys.readouterr().out)):
        assert re.fullmatch(
            r"host silent \d+ min, order unheard since 2026-11-20 12:00 UTC; slow", one["remarks"]
        )


def test_what_people_decided(site: Site, program: Program) -> None:
    why = ("--reason", "bad\x1b[2J", "--by", "ada")
    for words in (
        ("maintenance", "set", "cmp1", "--hours", "1", *why),
        ("maintenance", "set", str(ONE), "--hours", "1", *why),
        ("campaign", "begin", "c1", "--host", "cmp1", *why),
        ("campaign", "begin", "c2", "--host", "cmp2", "--keep", "0.5", *why),
        ("campaign", "pause", "c1", *why),
        ("slot", "hold", str(SLOTS[1]), "--at-next-release", "--reason", "smoke"),
    ):
        assert cli.main(["--config-file", str(site.file), *words]) == 0, words
    program.capsys.readouterr()
    for words in DECIDED:
        _same(site, program, words)


def test_a_host_in_maintenance_is_so_in_the_list(site: Site, program: Program) -> None:
    _lived(site)
    said = ("--hours", "1", "--reason", "new cables", "--by", "ada")
    assert cli.main(["--config-file", str(site.file), "maintenance", "set", "cmp1", *said]) == 0
    program.capsys.readouterr()
    _same(site, program, ("host", "list"))
    hosts = json.loads(program("host", "list", "-f", "json")[1])
    assert {one["host"] for one in hosts if "new cables" in one["maintenance"]} == {"cmp1"}


@pytest.mark.parametrize(
    "name", [f"{ONE.host}_{ONE.address}", "00000000-0000-0000-0000-000000000000"]
)
def test_a_slot_by_its_names_in_placement(program: Program, name: str) -> None:
    assert json.loads(program("slot", "show", name, "-f", "json")[1])["slot"] == str(ONE)


def test_pages_are_asked_for_as_they_are_needed(program: Program) -> None:
    def listed(*words: str) -> list[str]:
        program.wire.carried.clear()
        return program("slot", "list", "-f", "value", "-c", "slot", *words)[1].split()

    assert listed() == listed("--all") == [str(slot) for slot in SLOTS]
    assert len(program.wire.carried) == 4
    assert listed("--limit", "3") == [str(slot) for slot in SLOTS[:3]]
    assert len(program.wire.carried) == 2
    assert listed("--limit", "1") == [str(ONE)]
    assert "limit=1" in program.wire.carried[0]


def test_a_list_that_is_cut_says_so(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "REMOTE_LIMIT", 4)
    code, out, err = program("slot", "list", "-f", "value", "-c", "slot")
    assert (code, out.split()) == (0, [str(slot) for slot in SLOTS[:4]])
    assert "the first 4, and there are more" in err
    assert program("slot", "list", "--all")[2] == ""
    assert program("slot", "list", "--limit", "4")[2] == ""
    monkeypatch.setattr(base, "REMOTE_LIMIT", 6)
    assert program("slot", "list")[2] == ""


def test_what_was_read_is_printed_before_the_next_page(program: Program) -> None:
    """And what is cut off ends with a line and a code, not as if it were all."""

    def away(_request: Any) -> Any:
        return answer(503, b"<html>\x1b[2J") if len(program.wire.carried) == 3 else None

    program.wire.before = away
    code, out, err = program("slot", "list", "-f", "csv", "-c", "slot")
    assert (code, out.split()) == (6, ['"slot"', *(f'"{slot}"' for slot in SLOTS[:4])])
    assert err.count("\n") == 1
    assert "HTTP 503" in err
    assert "\x1b" not in err


def test_an_act_is_about_what_was_looked_at(site: Site, program: Program) -> None:
    code, out, err = program("slot", "hold", ONE, "--reason", "noises", "-f", "json")
    shown = json.loads(out)
    assert (code, shown["state"], shown["reason"]) == (0, "held", "noises")
    assert shown["slot"] == str(ONE)
    first, second = err.splitlines()
    assert first.startswith(f"nvme-quarantine: hold: {ONE} is released since ")
    assert "serial S1, server 1111" in first
    assert "\\x1b[2J" in first
    assert "the running service goes on" in second
    assert [line.split()[0] for line in program.wire.carried] == ["GET", "POST"]
    with site.store() as store:
        line = list(store.history(ONE))[-1]
        assert line.by is not None
        assert line.by.user == ADMIN[0]
    (said,) = json.loads(program("slot", "history", ONE, "-f", "json")[1])[-1:]
    assert said["by"]["user"] == ADMIN[0]
    assert program("slot", "release", ONE, "--reason", "good again", "--new-drive")[0] == 0
    code, out, err = program("slot", "release", ONE, "--reason", "and again")
    assert (code, out) == (4, "")
    assert "HTTP 409, req-" in err


def test_who_was_quicker(site: Site, program: Program) -> None:
    """Between the look and the decision, or since somebody looked long before."""
    seen = json.loads(program("slot", "show", ONE, "-f", "json")[1])["version"]

    def quicker(request: Any) -> None:
        if request.method == "POST":
            with site.store() as store:
                record = store.slots()[0]
                store.amend(record, SlotChanges(alarm=record.alarm + "smoke"))

    program.wire.before = quicker
    code, out, err = program("slot", "hold", ONE, "--reason", "noises")
    assert (code, out) == (3, "")
    assert err.count("\n") == 2
    assert "HTTP 412, req-" in err
    program.wire.before = lambda _request: None
    assert program("slot", "hold", ONE, "--reason", "noises", "--seen", seen)[0] == 3
    with site.store() as store:
        assert store.slots()[0].state == "released"
    for wrong in ('"', "\n", "\x7f", "é"):
        assert program("slot", "hold", ONE, "--reason", "x", "--seen", wrong)[0] == 2


@pytest.mark.parametrize("made", ['W/"{}"', '"{}-gzip"', '"{}-br"', 'W/"{}-gzip"'])
def test_a_proxy_that_compresses(
    program: Program, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    """It makes tags weak, or others: the bytes are others, the version is the same."""
    real = Wire.send

    def send(wire: Wire, request: Any, *words: Any, **more: Any) -> Any:
        found = real(wire, request, *words, **more)
        if "ETag" in found.headers:
            found.headers["ETag"] = made.format(found.headers["ETag"].strip('"'))
        return found

    monkeypatch.setattr(Wire, "send", send)
    seen = json.loads(program("slot", "show", ONE, "-f", "json")[1])["version"]
    assert program("slot", "hold", ONE, "--reason", "noises", "--seen", seen)[0] == 0
    assert program("slot", "release", ONE, "--reason", "good again")[0] == 0


def test_who_may_not(program: Program) -> None:
    program.user = READER
    code, out, err = program("slot", "hold", ONE, "--reason", "noises")
    assert (code, out) == (8, "")
    assert "HTTP 403, req-" in err
    program.user = ("ada", "guessed")
    failed(program("slot", "list"), 8, "401")


def test_words_that_are_wrong(program: Program) -> None:
    failed(program("slot", "hold", ONE), 2, "--reason")
    failed(program("slot", "list", "--limit", "0"), 2, "--limit")
    failed(program("slot", "show", "cmp1/nowhere"), 2, "PCI address")
    failed(program("slot", "show", "cmp9/0000:01:00.0"), 2, "HTTP 404")
    failed(program("certificate", "show", "abc123"), 2, "whole digest")
    failed(program("certificate", "show", str(SLOTS[2])), 2, "found none")
    failed(program("certificate", "verify", "/nowhere"), 2, "--key")
    failed(program("slot", "list", "-c", "colour"), 2, "colour")


@pytest.mark.parametrize(
    "words",
    [
        ("capacity", "show", "one", "--host", ""),
        ("capacity", "show", ""),
        ("certificate", "list", "--slot", ""),
        ("alarm", "list", "--slot", ""),
        ("slot", "list", "--host", ""),
    ],
)
def test_a_name_that_a_script_lost_is_not_all_of_them(
    site: Site, program: Program, words: tuple[str, ...]
) -> None:
    _lived(site)
    program.capsys.readouterr()
    failed(program(*words), 2, "")
    if words[:2] != ("slot", "list"):
        assert cli.main(["--config-file", str(site.file), *words]) == 2
    assert program.capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "name",
    [
        "a_0000:01:00.0/../../hosts",
        "x?limit=1",
        "x#y",
        "%2e%2e",
        "x\x1b[2J",
        "../x",
        "x\r\nHost: y",
    ],
)
def test_a_name_is_one_part_of_a_path(program: Program, name: str) -> None:
    """Those with a slash are no slot's before anybody is asked."""
    code, out, err = program("slot", "show", name)
    assert (code, out) == (2, "")
    assert err.strip().isprintable()
    for line in program.wire.carried:
        assert re.fullmatch(rf"GET {URL}/v1/slots/[A-Za-z0-9%._-]+", line)
    program.wire.carried.clear()
    assert program("host", "show", name)[0] == 2
    for line in program.wire.carried:
        assert re.fullmatch(rf"GET {URL}/v1/hosts/[A-Za-z0-9%._-]+", line)


@pytest.mark.parametrize("name", ["..", ".", ""])
def test_a_name_that_walks(program: Program, name: str) -> None:
    failed(program("host", "show", name), 2, "expected a name")
    assert program.wire.carried == []


def test_nobody_is_led_away(program: Program) -> None:
    """A token goes where the catalogue says, and nowhere else."""
    program.wire.before = lambda _request: answer(302, b"", Location="http://evil.test/v1/slots")
    failed(program("slot", "list"), 1, "HTTP 302")
    assert len(program.wire.carried) == 1
    slots = [{"href": "http://evil.test/v1/slots?marker=cmp1_0000%3A02%3A00.0", "rel": "next"}]
    page = json.dumps({"slots": [], "slots_links": slots}).encode()
    program.wire.before = lambda _request: answer(200, page)
    code, _out, err = program("slot", "list", "-f", "value")
    assert (code, "leads back" in err) == (1, True)
    assert {line.partition("?")[0] for line in program.wire.carried} == {f"GET {URL}/v1/slots"}


@pytest.mark.parametrize(
    "content",
    [b"<html>", b"[]", b'{"slots": 5}', b'{"slots": [5]}', b'{"slots": [{"host": 1}]}', b"\xff",
     b'{"hosts": []}'],
)  # fmt: skip
def test_whoever_answers_is_not_the_api(program: Program, content: bytes) -> None:
    program.wire.before = lambda _request: answer(200, content)
    code, _out, err = program("slot", "list", "-f", "value")
    assert code == 1
    assert err.count("\n") == 1
    assert "expected" in err


def test_nobody_answers(program: Program) -> None:
    import requests

    def away(_request: Any) -> Any:
        raise requests.ConnectionError("away\x1b[2J")

    program.wire.before = away
    failed(program("slot", "list"), 6, "away\\x1b[2J")
    program.endpoint = None
    failed(program("slot", "list"), 2, "--os-nvme-endpoint")


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/"])
def test_an_endpoint_with_or_without_its_version(program: Program, end: str) -> None:
    program.endpoint = URL + end
    assert program("host", "list")[0] == 0
    assert program.wire.carried[0].startswith(f"GET {URL}/v1/hosts?")


def test_an_alarm_of_no_kind(site: Site, program: Program, capsys: Any) -> None:
    assert cli.main(["--config-file", str(site.file), "alarm", "list", "--code", "x\x1b"]) == 2
    assert "expected one of allocation-left, chain-cut, " in capsys.readouterr().err
    failed(program("alarm", "list", "--code", "x\x1b"), 2, "code")
