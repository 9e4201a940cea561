"""Drives on the page: each with where it is and how it stands."""

from __future__ import annotations

import re

import pytest
import sqlalchemy as sa

from quarantine.record.database import engine as door
from quarantine.record.database import models
from tests.unit.quarantine.api.client import READER, Site
from tests.unit.quarantine.api.test_reads import issue
from tests.unit.quarantine.page.visitor import Visitor

PATH = "/page/drives"


def test_each_with_its_place_and_its_life(site: Site, admin: Visitor) -> None:
    issue(site)
    page = admin.page(PATH)
    (life,) = (link for link in page.links if re.fullmatch(r"/page/drives/[0-9a-f]{64}", link))
    assert "1 drive " in page.text
    assert admin.page(life).text
    places = [link for link in page.links if link.startswith("/page/slots/")]
    assert [admin.get(link).status_code for link in places] == [200]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"retired": True, "reason": "its <b>fan</b>"}, ("retired", "its <b>fan</b>")),
        ({"dirty": True, "retired": False}, ("not erased since its last use",)),
        ({"certificate": None, "dirty": False, "retired": False}, ("no certificate yet",)),
        ({"serial": None}, ("Drives",)),
        ({"serial": "<script>\u202e"}, ("<script>", "\\u202e")),
    ],
)
def test_how_it_stands(
    site: Site, admin: Visitor, values: dict[str, object], said: tuple[str, ...]
) -> None:
    issue(site)
    with site.store() as store, door.writing(store._engine) as db:
        db.execute(sa.update(models.drives).values(**values))
    text = admin.page(PATH).text
    assert [one for one in said if one not in text] == [], text


def test_pages_and_filters(site: Site, admin: Visitor) -> None:
    with site.store() as store, door.writing(store._engine) as db:
        (one,) = db.execute(sa.select(models.drives)).mappings().all()
        db.execute(sa.delete(models.drives))
        many = [{**one, "digest": f"{n:064x}", "serial": f"S{n % 2}"} for n in range(230)]
        db.execute(sa.insert(models.drives), many)
    path, lives = f"{PATH}?serial=S1&model=", list[str]()
    while path:
        page = admin.page(path)
        lives += [link for link in page.links if re.fullmatch(PATH + "/[0-9a-f]{64}", link)]
        path = next((link for link in page.links if "marker=" in link), "")
    assert lives == [f"{PATH}/{n:064x}" for n in range(1, 230, 2)]
    assert "None is like that." in admin.page(f"{PATH}?serial=S").text
    assert admin.get(f"{PATH}?unknown=1").status_code == 400


def test_who_may_see_them(site: Site, admin: Visitor) -> None:
    with site.store() as store, door.writing(store._engine) as db:
        db.execute(sa.delete(models.drives))
    assert "None was seen yet." in admin.as_user(READER).page(PATH).text
