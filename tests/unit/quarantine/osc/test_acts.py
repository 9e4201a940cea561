"""Maintenances and campaigns from the openstack program: about what was seen, by who asks."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quarantine import cli
from quarantine.cli.sources import chunks
from quarantine.operations import campaigns, maintenance
from quarantine.operations.maintenance import Subject
from quarantine.operations.plane import Plane
from tests.unit.quarantine.api.client import ADMIN, READER, SLOTS, Site
from tests.unit.quarantine.osc.shell import URL, Program, answer

WHY = ("--reason", "ticket 4711")
BEGIN = ("maintenance", "set", "cmp1", "--hours", "1", *WHY)
CAMPAIGN = ("campaign", "begin", "fw1", "--host", "cmp1", *WHY)


def shown(program: Program, *words: object) -> Any:
    """What one command answers, as JSON."""
    code, out, err = program(*words, "-f", "json")
    assert code == 0, err
    return json.loads(out)


def failed(found: tuple[int, str, str], code: int, words: str) -> None:
    """Nothing is printed but lines on stderr, of which the last one says why."""
    assert found[:2] == (code, ""), found
    assert words in found[2].splitlines()[-1]
    assert all(line.isprintable() for line in found[2].splitlines())


@pytest.mark.parametrize("subject", ["cmp1", str(SLOTS[0])])
def test_a_maintenance(site: Site, program: Program, subject: str) -> None:
    words = ("maintenance", "set", subject, *WHY)
    begun = shown(program, *words, "--hours", "1")
    assert (begun["by"], begun["reason"], begun["version"]) == (ADMIN[0], "ticket 4711", 1)
    ahead = datetime.fromisoformat(begun["until"]) - datetime.now(UTC)
    assert timedelta(minutes=59) < ahead < timedelta(hours=1)
    until = (datetime.now(UTC) + timedelta(hours=2)).isoformat(timespec="seconds")
    code, out, err = program(*words, "--until", until, "-f", "json")
    again = json.loads(out)
    assert (code, again["version"]) == (0, 2)
    assert datetime.fromisoformat(again["until"]) == datetime.fromisoformat(until)
    assert "is in maintenance until" in err
    assert err.count("\n") == 1
    ended = shown(program, "maintenance", "unset", subject, "--reason", "in")
    assert (ended["until"], ended["version"]) == (None, 3)
    failed(program("maintenance", "unset", subject, *WHY), 2, "not")
    said = shown(program, "maintenance", "list", "--history", subject)
    assert [one["reason"] for one in said] == ["ticket 4711", "ticket 4711", "in"]
    with site.store() as store:
        host, _, address = subject.partition("/")
        kept = store.maintenance_history(Subject(host, address), limit=9, after=0)
    assert all(one.by.user == ADMIN[0] and one.by.request.startswith("req-") for one in kept)


def test_two_people_say_it_at_once(site: Site, program: Program) -> None:
    """Between the look and the word, or since somebody looked long before."""

    def quicker(request: Any) -> None:
        if request.method != "GET":
            program.wire.before = lambda _request: None
            maintenance.begin(
                Plane([site.file]),
                Subject("cmp1"),
                until=datetime.now(UTC) + timedelta(hours=1),
                reason="mine",
                by=maintenance.Initiator("eve"),
            )

    for words in (BEGIN, BEGIN, ("maintenance", "unset", "cmp1", *WHY)):
        program.wire.before = quicker
        failed(program(*words), 3, "HTTP 412, req-")
    for seen in ("0", "2"):
        failed(program(*BEGIN, "--seen", seen), 3, "HTTP 412")
    assert maintenance.show(Plane([site.file]), Subject("cmp1")).reason == "mine"
    assert shown(program, *BEGIN, "--seen", "3")["version"] == 4


def test_a_campaign(site: Site, program: Program) -> None:
    query = ("--host", "cmp1", "--keep", "0.5")
    before = shown(program, "campaign", "preview", *query)
    assert (before["slots"], before["in_quarantine"]) == (3, 3)
    assert before["which"][0]["address"] == SLOTS[0].address
    here = ["--config-file", str(site.file), "campaign", "preview", *query, "-f", "json"]
    assert cli.main(here) == 0
    told = json.loads(program.capsys.readouterr().out)
    assert {name: told[name] for name in before if name != "which"} == {
        name: before[name] for name in before if name != "which"
    }
    assert shown(program, "campaign", "list") == []
    begun = shown(program, *CAMPAIGN)
    assert (begun["state"], begun["slots"], begun["keep"]) == ("running", {"waiting": 3}, 0.9)
    assert shown(program, *CAMPAIGN) == begun, "the same again does nothing"
    failed(program(*CAMPAIGN, "--keep", "0.5"), 3, "HTTP 412, req-")
    for act, state in (("pause", "paused"), ("resume", "running"), ("stop", "stopped")):
        code, out, err = program("campaign", act, "fw1", *WHY, "-f", "json")
        assert (code, json.loads(out)["state"]) == (0, state)
        assert err.startswith(f"nvme-quarantine: {act}: campaign fw1 is ")
    failed(program("campaign", "resume", "fw1", *WHY), 4, "it is stopped, for good")
    acts = campaigns.show(Plane([site.file]), "fw1").acts
    assert [one.state for one in acts] == ["running", "paused", "running", "stopped"]
    assert all(one.by and one.by.user == ADMIN[0] for one in acts)
    assert all(one.by and one.by.request.startswith("req-") for one in acts)
    lines = shown(program, "campaign", "slots", "fw1")
    assert [(one["host"], one["address"]) for one in lines] == [
        (slot.host, slot.address) for slot in SLOTS[:3]
    ]


def test_a_campaign_is_begun_as_it_was_seen(site: Site, program: Program) -> None:
    seen = shown(program, "campaign", "preview", "--host", "cmp1")["version"]
    here = ["--config-file", str(site.file), *CAMPAIGN, "--by", "ada"]
    failed(program(*CAMPAIGN, "--seen", "of another time"), 3, "HTTP 412, req-")
    failed(program(*CAMPAIGN, "--seen", " "), 2, "expected a version as it was shown, found none")
    assert cli.main([*here, "--seen", "of another time"]) == 3
    assert "look at the preview again" in program.capsys.readouterr().err
    assert campaigns.page(Plane([site.file]), limit=9) == ()
    assert shown(program, *CAMPAIGN, "--seen", seen)["slots"] == {"waiting": 3}
    assert cli.main([*here, "--seen", seen]) == 0, "the same again"
    program.capsys.readouterr()


def test_a_campaign_is_put_as_it_was_seen(site: Site, program: Program) -> None:
    seen = str(shown(program, *CAMPAIGN)["version"])
    pause = ("campaign", "pause", "fw1", *WHY)
    assert shown(program, *pause, "--seen", seen)["state"] == "paused"
    failed(program("campaign", "stop", "fw1", *WHY, "--seen", seen), 3, "HTTP 412")

    def quicker(request: Any) -> None:
        if request.method != "GET":
            program.wire.before = lambda _request: None
            running, by = campaigns.CampaignState.RUNNING, campaigns.Initiator("eve")
            campaigns.put(Plane([site.file]), "fw1", running, reason="go on", by=by)

    program.wire.before = quicker
    failed(program("campaign", "stop", "fw1", *WHY), 3, "HTTP 412")
    assert campaigns.show(Plane([site.file]), "fw1").campaign.state == "running"


def test_who_may_not(site: Site, program: Program) -> None:
    assert program(*CAMPAIGN)[0] == 0
    program.user = READER
    stop = ("campaign", "stop", "fw1", *WHY)
    for words in (BEGIN, ("campaign", "begin", "x", "--host", "cmp1", *WHY), stop):
        failed(program(*words), 8, "HTTP 403, req-")
    assert program("campaign", "preview", "--host", "cmp1")[0] == 0
    program.user = ("ada", "guessed")
    for words in (BEGIN, stop, ("maintenance", "list"), ("campaign", "list")):
        failed(program(*words), 8, "401")
    assert maintenance.page(Plane([site.file]), limit=9) == ()
    assert [one.id for one in campaigns.page(Plane([site.file]), limit=9)] == ["fw1"]


def test_words_that_are_wrong(program: Program) -> None:
    """The first ones reach nobody."""
    failed(program(*BEGIN, "--by", "eve"), 2, "--by")
    failed(program("maintenance", "set", "cmp1", *WHY), 2, "--hours")
    failed(program("maintenance", "set", "cmp1", *WHY, "--until", "soon"), 2, "--until")
    for hours in ("nan", "inf", "1e308"):
        failed(program("maintenance", "set", "cmp1", *WHY, "--hours", hours), 2, "--hours")
    failed(program(*CAMPAIGN, "--keep", "nan"), 2, "--keep")
    failed(program(*CAMPAIGN, "--keep", "1.1"), 2, "--keep")
    failed(program("campaign", "preview", "--host", "cmp1", "--keep", "0.905"), 2, "--keep")
    assert program.wire.carried == []
    failed(program("maintenance", "set", "cmp1", *WHY, "--hours", "-1"), 2, "HTTP 400")
    failed(program("maintenance", "set", "nowhere", *WHY, "--hours", "1"), 2, "HTTP 404")
    failed(program("campaign", "begin", "a", "--model", "x" * 300, *WHY), 2, "HTTP 400")
    failed(program("campaign", "begin", "a", *WHY), 2, "HTTP 400")
    failed(program("campaign", "show", "nowhere"), 2, "HTTP 404")


@pytest.mark.parametrize("name", ["../hosts", "x?a=b", "x#y", "%2e%2e", "a/../b", "x\x1b[2J"])
def test_a_name_is_one_part_of_a_path(program: Program, name: str) -> None:
    for words in (
        ("campaign", "show", name),
        ("campaign", "slots", name),
        ("campaign", "begin", name, "--host", "cmp1", *WHY),
        ("campaign", "stop", name, *WHY, "--seen", "1"),
        ("maintenance", "list", "--history", f"{name}/0000:01:00.0"),
        ("maintenance", "unset", name, *WHY, "--seen", "1"),
    ):
        code, out, err = program(*words)
        assert code == 2 or words[:2] == ("maintenance", "list"), (words, err)
        assert "\x1b" not in out + err
    one = r"[A-Za-z0-9%._-]+"
    kinds = rf"campaigns/{one}(/slots|/stop)?|(hosts|slots)/{one}/maintenance(/end|/history)?"
    for line in program.wire.carried:
        assert re.fullmatch(rf"(GET|PUT|POST) {URL}/v1/({kinds})(\?limit=\d+)?", line), line


@pytest.mark.parametrize("name", ["..", ".", ""])
def test_a_name_that_walks(program: Program, name: str) -> None:
    failed(program("campaign", "stop", name, *WHY), 2, "expected a name")
    failed(program("maintenance", "unset", name, *WHY), 2, "expected a name")
    assert program.wire.carried == []


@pytest.mark.parametrize("content", [b"{}", b'{"acts": 5}', b'{"slot": 7, "by": null}', b"[]"])
def test_whoever_answers_is_not_the_api(program: Program, content: bytes) -> None:
    program.wire.before = lambda _request: answer(200, content)
    failed(program("campaign", "show", "fw1"), 1, "expected")
    failed(program("campaign", "stop", "fw1", *WHY), 1, "expected")
    failed(program(*BEGIN), 1, "expected")


def test_a_list_on_the_record_goes_on_to_its_end(
    site: Site, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They ended after the first part that was read, and did not say so."""
    monkeypatch.setattr(chunks, "CHUNK", 2)

    def here(*words: str) -> Any:
        assert cli.main(["--config-file", str(site.file), *words, "-f", "json"]) == 0
        return json.loads(program.capsys.readouterr().out)

    for name in ("a", "b", "c"):
        here("campaign", "begin", name, "--host", "cmp1", *WHY, "--by", "ada")
    for slot in SLOTS[:3]:
        here("maintenance", "set", str(slot), "--hours", "1", *WHY, "--by", "ada")
        here("maintenance", "set", "cmp1", "--hours", "1", *WHY, "--by", "ada")
    for words, count in (
        (("campaign", "list"), 3),
        (("campaign", "slots", "a"), 3),
        (("maintenance", "list"), 4),
        (("maintenance", "list", "--history", "cmp1"), 3),
    ):
        whole = here(*words)
        assert len(whole) == count, words
        assert here(*words, "--limit", "3") == whole[:3]
        assert here(*words, "--limit", "1") == whole[:1]


@pytest.mark.parametrize("words", [BEGIN, CAMPAIGN, ("slot", "hold", str(SLOTS[0]), *WHY)])
@pytest.mark.parametrize("answered", [(200, b"{}"), (200, b"<html>"), (204, b""), (500, b"{}")])
def test_a_change_whose_answer_cannot_be_read(
    site: Site, program: Program, words: tuple[str, ...], answered: tuple[int, bytes]
) -> None:
    """It reached whoever answered. That it may have been made was said of outages alone."""
    program.wire.before = lambda request: None if request.method == "GET" else answer(*answered)
    failed(program(*words), 1, "whether it was done is not known")
