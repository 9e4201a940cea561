"""Drives through the API."""

from __future__ import annotations

import pytest

from tests.unit.quarantine.api.client import DRIVE, NAMES, SERVER, Client, code


def test_a_drive_and_where_it_is(reader: Client) -> None:
    (line,) = reader.get("/v1/drives").json["drives"]
    assert (line["digest"], line["model"], line["serial"]) == (
        DRIVE.digest,
        "<script>alert(1)</script>\x1b[2J",
        "S1",
    )
    one = reader.get(f"/v1/drives/{DRIVE.digest}").json
    assert one["drive"]["digest"] == DRIVE.digest
    assert [(slot["id"], slot["server"]) for slot in one["slots"]] == [(NAMES[0], SERVER)]
    assert (one["dirty"], one["cases"], one["seen_in"]) == (True, [], NAMES[0])


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("serial=S1", 1),
        ("serial=S2", 0),
        ("firmware=F", 0),
        ("model=x&serial=S1", 0),
        ("limit=1", 1),
    ],
)
def test_filters(reader: Client, query: str, count: int) -> None:
    found = reader.get(f"/v1/drives?{query}").json
    assert len(found["drives"]) == count
    if query == "limit=1":
        assert reader.get(found["drives_links"][0]["href"]).json["drives"] == []


@pytest.mark.parametrize("query", ["serial=", "firmware=" + "x" * 256, "host=cmp1", "limit=0"])
def test_bad_words(reader: Client, query: str) -> None:
    assert reader.get(f"/v1/drives?{query}").status_code == 400


@pytest.mark.parametrize("digest", ["0" * 64, "x", "%00"])
def test_one_that_nobody_saw(reader: Client, digest: str) -> None:
    found = reader.get(f"/v1/drives/{digest}")
    assert (found.status_code, code(found)) == (404, "unknown")


def test_who_may(still: Client) -> None:
    assert still.get("/v1/drives").status_code == 401
