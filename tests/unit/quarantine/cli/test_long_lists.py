"""Lists that grow with the years are read as far as they are shown, and without what is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quarantine import cli
from quarantine.cli.sources import chunks
from quarantine.operations import slots
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotChanges
from tests.unit.quarantine.api.client import SLOTS, Site
from tests.unit.quarantine.api.test_attacked import damage
from tests.unit.quarantine.api.test_reads import issue


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def listed(site: Site, *words: str) -> int:
    return cli.main(["--config-file", str(site.file), *words])


def limits_of(patch: pytest.MonkeyPatch, name: str) -> list[int]:
    """How many a method of the store is asked for, each time."""
    real, found = getattr(Store, name), list[int]()

    def asked(store: Store, *words: Any, **more: Any) -> Any:
        found.append(more["limit"])
        return real(store, *words, **more)

    patch.setattr(Store, name, asked)
    return found


@pytest.mark.parametrize(
    ("words", "limits"), [(("--limit", "1"), [1]), ((), [2] * 5), (("--limit", "3"), [2, 1])]
)
def test_certificates(
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    limits: list[int],
) -> None:
    """One alone is 12 kB and more with its text."""
    made = issue(site)
    capsys.readouterr()
    monkeypatch.setattr(chunks, "CHUNK", 2)
    monkeypatch.setattr(Store, "certificates", None)
    asked = limits_of(monkeypatch, "certificate_page")
    assert listed(site, "certificate", "list", "-f", "json", *words) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["digest"] for one in found] == [one.digest for one in made][: len(found)]
    assert len(found) == min(len(made), sum(limits))
    assert asked == limits
    assert all("token" not in one for one in found)


def test_a_damaged_certificate_ends_no_list(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """It ended all of it with an error, and the API's went on."""
    made = issue(site)
    capsys.readouterr()
    damage(site, "certificates", host="x'ff'")
    assert listed(site, "certificate", "list", "-f", "json") == 0
    found = capsys.readouterr()
    assert len(json.loads(found.out)) == len(made)
    assert "host of this row cannot be read" in found.err


@pytest.mark.parametrize(("words", "limits"), [(("--limit", "1"), [1]), (("--limit", "3"), [2, 1])])
def test_a_slots_history(
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    limits: list[int],
) -> None:
    with site.store() as store:
        for number in range(5):
            record = store.slot(SLOTS[0])
            assert record is not None
            store.amend(record, SlotChanges(), note=f"note {number}")
    monkeypatch.setattr(slots, "_LINES", 2)
    asked = limits_of(monkeypatch, "history_page")
    assert listed(site, "slot", "history", str(SLOTS[0]), "-f", "json", *words) == 0
    assert len(json.loads(capsys.readouterr().out)) == sum(limits)
    assert asked == limits


def test_an_unknown_slots_history_is_one_line(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the head of a list that would be printed while it is read."""
    assert listed(site, "slot", "history", "cmp9/0000:01:00.0", "-f", "csv") == 2
    found = capsys.readouterr()
    assert (found.out, found.err.count("\n")) == ("", 1)
