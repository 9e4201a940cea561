"""What a hostile review of the API did, and what comes of it now."""

from __future__ import annotations

from pathlib import Path

import bcrypt
import pytest
import sqlalchemy as sa

from quarantine.api import auth
from quarantine.errors import BadInputError, UnavailableError
from quarantine.operations import servers
from quarantine.operations import slots as operations
from quarantine.operations.plane import ServingPlane
from quarantine.record import engine as door
from tests.unit.quarantine.api.client import ADMIN, NAMES, SERVER, SLOTS, Site, code
from tests.unit.quarantine.api.test_reads import issue


def test_a_hosts_word_for_its_last_owner_puts_nothing_into_a_tenants_view(site: Site) -> None:
    """Of two certificates one has the server by our record, one by the host's word alone."""
    made = issue(site)
    found = servers.show(ServingPlane([site.file]), SERVER)
    assert found.certificates == (made[0].digest,)


def test_a_record_that_another_release_upgraded_meanwhile_is_not_written(site: Site) -> None:
    client = site.client().as_user(ADMIN)
    path = f"/v1/slots/{NAMES[0]}"
    version = client.get(path).headers["ETag"]
    with door.writing(door.make_engine(f"sqlite:///{site.path}/record.db")) as db:
        db.execute(sa.text("UPDATE alembic_version SET version_num = '0099'"))
    found = client.ask("POST", f"{path}/hold", {"reason": "no"}, If_Match=version)
    assert (found.status_code, code(found)) == (503, "unavailable")
    assert client.get("/healthcheck").status_code == 503


def test_a_decision_whose_outcome_cannot_be_read_is_not_called_undecided(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = site.client().as_user(ADMIN)
    path = f"/v1/slots/{NAMES[0]}"
    version = client.get(path).headers["ETag"]

    def away(*_arguments: object, **_options: object) -> None:
        raise UnavailableError("expected the record, found none")

    with monkeypatch.context() as patched:
        patched.setattr(operations, "_views", away)
        found = client.ask("POST", f"{path}/hold", {"reason": "look at it"}, If_Match=version)
    assert (found.status_code, code(found)) == (503, "outcome-unread")
    assert "on record" in found.json["errors"][0]["detail"]
    with site.store() as store:
        record = store.slot(SLOTS[0])
    assert record is not None
    assert record.reason == "look at it"


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00%2B14:00", "9999-12-31T23:00:00-14:00"])
def test_a_time_beyond_the_calendar_is_bad_input(site: Site, moment: str) -> None:
    client = site.client().as_user(ADMIN)
    found = client.get(f"/v1/exports/certificates?since={moment}")
    assert (found.status_code, code(found)) == (400, "schema")


def test_an_unknown_name_costs_what_a_known_one_does() -> None:
    for cost in (4, 9):
        users = {"ada": bcrypt.hashpw(b"x", bcrypt.gensalt(cost)), "bob": b"$2b$04$" + b"." * 53}
        nobody = auth._nobody(users)
        assert nobody.startswith(b"$2b$%02d$" % cost)
        assert not bcrypt.checkpw(b"x", nobody)


@pytest.mark.parametrize(("mode", "digest", "said"), [
    (0o666, "$2b$04$" + "." * 53, "mode 666"),
    (0o600, "$2b$14$" + "." * 53, "cost of bcrypt from 4 to 12"),
    (0o600, "$2b$xx$" + "." * 53, "cost of bcrypt"),
])  # fmt: skip
def test_files_of_names_that_are_refused(tmp_path: Path, mode: int, digest: str, said: str) -> None:
    file = tmp_path / "users"
    file.write_text(f"ada:{digest}\n")
    file.chmod(mode)
    with pytest.raises(BadInputError, match=said):
        auth.HttpBasic(file, ["ada"], lambda *_: [], lambda *_: [])
