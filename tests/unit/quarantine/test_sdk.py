"""What came of a request to a service of the cloud: its own answer, or that nobody asked it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from keystoneauth1 import exceptions as keystone
from openstack.config import loader

from eraser.protocol.identity import Slot
from quarantine.cloud.cloudsfile import believed
from quarantine.cloud.compute import Compute
from quarantine.cloud.placement import Placement
from quarantine.errors import OwnSetupError, QuarantineError, UnavailableError
from tests.lab.services.placement import CLOUD, write_clouds_yaml

SERVER = "5a1c6b42-0d3f-4b8e-9f43-2f9b4c1c8a11"


def _never_asked(error: Exception) -> Any:
    """A cloud whose Keystone gives no token: openstacksdk raises that instead of any answer."""

    def request(*_words: object, **_options: object) -> None:
        raise error

    return SimpleNamespace(
        compute=SimpleNamespace(request=request), placement=SimpleNamespace(request=request)
    )


@pytest.mark.parametrize(
    "error", [keystone.NotFound("no such page"), keystone.Conflict("try again")], ids=repr
)
def test_what_keystone_answers_is_no_word_of_the_service_about_a_server_or_a_slot(
    error: keystone.HttpError,
) -> None:
    """A proxy before Keystone that is set up anew answers 404 to the token that is renewed."""
    cloud = _never_asked(error)
    for ask in (
        lambda: Compute(cloud).server(SERVER),
        lambda: Compute(cloud).migrations_of(SERVER),
        lambda: Compute(cloud).service_host("cmp1"),
        lambda: Placement(cloud).holders(SERVER),
        lambda: Placement(cloud).traits(SERVER),
    ):
        with pytest.raises(UnavailableError, match="cannot be asked"):
            ask()


def test_a_cloud_whose_user_is_refused_is_a_matter_of_its_configuration() -> None:
    with pytest.raises(QuarantineError, match="needs the admin role"):
        Compute(_never_asked(keystone.Unauthorized("wrong password"))).server(SERVER)


def _answering(status: int, text: str) -> Any:
    """A cloud in which every request gets that answer."""

    def request(*_words: object, **_options: object) -> Any:
        content = text.encode()
        return SimpleNamespace(
            status_code=status, text=text, content=content, json=lambda: json.loads(text)
        )

    return SimpleNamespace(
        compute=SimpleNamespace(request=request), placement=SimpleNamespace(request=request)
    )


def test_a_proxys_page_does_not_say_that_a_server_or_a_slot_is_gone() -> None:
    """An unfinished migration whose server is gone keeps nobody from an erase."""
    proxy = _answering(404, "<html><body><h1>404 Not Found</h1></body></html>")
    for ask in (
        lambda: Compute(proxy).server(SERVER),
        lambda: Compute(proxy).migrations_of(SERVER),
        lambda: Placement(proxy).holders(SERVER),
    ):
        with pytest.raises(UnavailableError, match="is a proxy in between"):
            ask()
    nova = _answering(404, '{"itemNotFound": {"code": 404, "message": "no such server"}}')
    assert Compute(nova).server(SERVER) is None
    assert Compute(nova).migrations_of(SERVER) == []


def test_a_placement_on_mysql_finds_no_host_under_another_spelling() -> None:
    """Its collations take CMP1 for cmp1: a slot enrolled so would have the other one's provider."""
    row = {"uuid": SERVER, "name": "cmp1_0000:0A:00.0", "generation": 1}
    cloud = Placement(_answering(200, json.dumps({"resource_providers": [row]})))
    found = cloud.by_slot(Slot("cmp1", "0000:0a:00.0"))
    assert found is not None
    assert found.uuid == SERVER
    assert cloud.by_slot(Slot("CMP1", "0000:0a:00.0")) is None


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o1777, 0o702])
def test_no_cloud_is_believed_that_another_user_may_have_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, mode: int
) -> None:
    """openstacksdk looks into the working directory first; who is there answers as Placement."""
    file = write_clouds_yaml(tmp_path / "clouds.yaml", "http://127.0.0.1:9")
    tmp_path.chmod(mode)
    monkeypatch.delenv("OS_CLIENT_CONFIG_FILE", raising=False)
    monkeypatch.setattr(loader, "CONFIG_SEARCH_PATH", [str(tmp_path)])
    monkeypatch.setattr(loader, "CONFIG_FILES", [str(file)])
    if mode & 0o002:
        with pytest.raises(OwnSetupError):
            Placement.connect(CLOUD)
        assert f"{file} is passed over" in caplog.text
    else:
        Placement.connect(CLOUD).close()
        assert "passed over" not in caplog.text


@pytest.mark.parametrize("place", ["etc", "home/.config/openstack"])
def test_a_working_directory_that_is_a_place_of_its_own_is_read_as_that_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, place: str
) -> None:
    """Whoever goes to the site's directory to look at its clouds.yaml still has a cloud."""
    here = tmp_path / place
    here.mkdir(parents=True)
    file, other = str(here / "clouds.yaml"), str(tmp_path / "other" / "clouds.yaml")
    Path(file).touch()
    here.chmod(0o777)
    # The working directory, a user's, and the site's, as openstacksdk lists them.
    assert believed([file, other, file], str(here)) == [other, file]
    assert "passed over" not in caplog.text
    here.chmod(0o755)
    assert believed([file, other, file], str(here)) == [file, other, file]


def test_a_file_that_others_may_write_to_counts_in_no_working_directory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The directory is ours, and the file's own mode lets anybody change it."""
    file = tmp_path / "clouds.yaml"
    file.touch()
    files = [str(file), "/etc/openstack/clouds.yaml"]
    for mode, seen in ((0o644, files), (0o600, files), (0o666, files[1:])):
        file.chmod(mode)
        assert believed(files, str(tmp_path)) == seen
    assert f"{file} is passed over" in caplog.text
    if os.geteuid() == 0:
        file.chmod(0o644)
        os.chown(file, 12345, 0)
        assert believed(files, str(tmp_path)) == files[1:]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a directory away")
def test_a_directory_of_another_user_is_not_looked_into(tmp_path: Path) -> None:
    """Nor one whose group writes to it; files elsewhere count all the same."""
    here, files = str(tmp_path), [f"{tmp_path}/clouds.yaml", "/etc/openstack/clouds.yaml"]
    for user, group, mode, seen in (
        (0, 0, 0o770, files),
        (0, 12345, 0o770, files[1:]),
        (0, 12345, 0o750, files),
        (12345, 0, 0o700, files[1:]),
    ):
        os.chown(tmp_path, user, group)
        tmp_path.chmod(mode)
        assert believed(files, here) == seen
        # Whoever owns what is above it puts another one in its place.
        below = tmp_path / "below"
        below.mkdir(mode=0o700, exist_ok=True)
        inside = [f"{below}/clouds.yaml"]
        assert believed(inside, str(below)) == (inside if seen == files else [])
