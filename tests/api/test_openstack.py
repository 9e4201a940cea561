"""The real ``openstack`` program with our commands in it, on a real Keystone and the API."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

pytest.importorskip("keystone", reason="tox env api has it")
pytest.importorskip("openstackclient", reason="tox env api has it")

from eraser.protocol import codec
from eraser.protocol.identity import Slot
from quarantine import cli
from quarantine.service.assembly import Assembly
from tests.lab.services.keystone import PASSWORD, Keystone
from tests.unit.quarantine.api.client import SLOTS, Site
from tests.unit.quarantine.smallcloud import Cloud as Placement
from tests.unit.quarantine.testimony import PROFILE

pytestmark = pytest.mark.api

TOP = Path(__file__).parents[2]
ONE = str(SLOTS[0])
PROGRAM = Path(sys.executable).with_name("openstack")


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *words: object) -> None:
        pass


@dataclass
class Cloud:
    """A site in a catalogue, and who asks."""

    environment: dict[str, str]
    file: Path
    """The site's configuration."""

    def __call__(self, *words: str, **changed: str) -> tuple[int, str, str]:
        """The program: its exit code, stdout and stderr. An empty variable is taken out."""
        found = {**self.environment, **changed}
        done = subprocess.run(
            [sys.executable, PROGRAM, *words],
            env={name: value for name, value in found.items() if value},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout, done.stderr


def _lent(directory: Path) -> Path:
    """What an installation says of our entry points."""
    points = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["entry-points"]
    info = directory / "lent-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lent\nVersion: 0\n")
    lines = []
    for group in ("openstack.cli.extension", "openstack.nvme.v1"):
        lines += [f"[{group}]", *(f"{name} = {place}" for name, place in points[group].items())]
    (info / "entry_points.txt").write_text("\n".join([*lines, ""]))
    return directory


def _in_catalogue(one: Keystone, token: str, url: str) -> None:
    said = {"service": {"type": "nvme-quarantine", "name": "nvme-quarantine"}}
    service = one.ask("POST", "/v3/services", said, token)[0]["service"]["id"]
    for interface in ("public", "internal"):
        place = {"service_id": service, "interface": interface, "region_id": "one", "url": url}
        one.ask("POST", "/v3/endpoints", {"endpoint": place}, token)


def _reader(one: Keystone) -> None:
    """Rita, who reads in her project."""
    rita = one.add_user("rita", "word-of-rita")
    one.grant(f"projects/{one.add_project('p1')}", rita, one.roles()["reader"])


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with Keystone(tmp_path_factory.mktemp("keystone")) as one:
        site = Site(tmp_path_factory.mktemp("site"), options=one.options(), strategy="keystone")
        server = make_server("127.0.0.1", 0, site.client().app, handler_class=_Quiet)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        _in_catalogue(one, one.admin(), f"http://127.0.0.1:{server.server_port}")
        _reader(one)
        home = tmp_path_factory.mktemp("home")
        lent = _lent(tmp_path_factory.mktemp("lent") / "site")
        yield Cloud(
            {
                "PATH": os.environ["PATH"],
                "PYTHONPATH": f"{lent}{os.pathsep}{TOP}",
                "PYTHONDONTWRITEBYTECODE": "1",
                "HOME": str(home),
                "OS_AUTH_URL": f"{one.url}/v3",
                "OS_USERNAME": "admin",
                "OS_PASSWORD": PASSWORD,
                "OS_PROJECT_NAME": "admin",
                "OS_USER_DOMAIN_ID": "default",
                "OS_PROJECT_DOMAIN_ID": "default",
                "OS_REGION_NAME": "one",
                "OS_IDENTITY_API_VERSION": "3",
            },
            site.file,
        )
        server.shutdown()


def test_the_program_has_the_commands(cloud: Cloud) -> None:
    assert cloud("--version")[:1] == (0,)
    code, out, _err = cloud("help", "nvme", "slot", "hold")
    assert (code, "--reason" in out, "--seen" in out) == (0, True, True)
    assert "--os-nvme-endpoint" in cloud("--help")[1]


def test_each_format(cloud: Cloud) -> None:
    code, out, err = cloud("nvme", "slot", "list", "-f", "json")
    assert (code, err) == (0, "")
    assert [one["slot"] for one in json.loads(out)] == [str(slot) for slot in SLOTS]
    code, out, err = cloud("nvme", "slot", "list", "-f", "csv", "-c", "slot", "-c", "state")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert rows[0] == {"slot": ONE, "state": "released"}
    assert len(rows) == len(SLOTS)
    code, out, err = cloud("nvme", "slot", "list", "--limit", "2")
    assert (code, err) == (0, "")
    assert ONE in out
    assert all(line.isprintable() for line in out.splitlines()), "whatever a drive is called"
    assert out.count("cmp") == 2


def test_what_an_administrator_decides(cloud: Cloud) -> None:
    before = json.loads(cloud("nvme", "slot", "show", ONE, "-f", "json")[1])
    code, out, err = cloud("nvme", "slot", "hold", ONE, "--reason", "noises", "-f", "json")
    assert (code, json.loads(out)["state"]) == (0, "held")
    assert err.startswith(f"nvme-quarantine: hold: {ONE} is released since ")
    line = json.loads(cloud("nvme", "slot", "history", ONE, "-f", "json")[1])[-1]
    assert (line["reason"], len(line["by"]["user"])) == ("noises", 32)
    old = ("--seen", before["version"])
    code, out, err = cloud("nvme", "slot", "release", ONE, "--reason", "good again", *old)
    assert (code, out) == (3, "")
    assert "HTTP 412, req-" in err
    now = json.loads(cloud("nvme", "slot", "show", ONE, "-f", "json")[1])
    assert now["state"] == "held"
    new = ("--seen", now["version"])
    assert cloud("nvme", "slot", "release", ONE, "--reason", "good again", *new)[0] == 0
    code, out, err = cloud("nvme", "slot", "release", ONE, "--reason", "good again")
    assert (code, out) == (4, "")
    assert "HTTP 409" in err


def test_a_host_s_slots_are_enrolled_as_planned(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    slots, placement = [Slot("cmp3", f"0000:0{bus}:00.0") for bus in (1, 2)], Placement()
    for slot in slots:
        placement.add(slot)
    monkeypatch.setattr(Assembly, "placement", property(lambda _assembly: placement))
    profile = tmp_path / "profile.json"
    profile.write_bytes(codec.canonical(PROFILE))
    head = ["--config-file", str(cloud.file)]
    assert cli.main([*head, "profile", "approve", str(profile), "--by", "Ada"]) == 0
    words = ("nvme", "slot", "enrol", "--host", "cmp3", "--profile", PROFILE.name)
    code, plan, err = cloud(*words, "--plan", "-f", "json")
    assert (code, [one["fate"] for one in json.loads(plan)]) == (0, ["free", "free"])
    seen = ("--seen", err.rpartition("--seen ")[2].split()[0])
    code, out, err = cloud(*words, *seen, "--reason", "rack 7", "-f", "json")
    assert (code, out) == (0, plan)
    assert "2 free; the running service goes on" in err
    line = json.loads(cloud("nvme", "slot", "history", str(slots[0]), "-f", "json")[1])[0]
    assert (line["reason"], len(line["by"]["user"])) == ("rack 7", 32)
    code, out, err = cloud(*words, *seen, "--reason", "rack 7")
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert "HTTP 412, req-" in err
    one = (*words, "--pci", slots[0].address, "--reason", "rack 7")
    code, out, err = cloud(*one)
    assert (code, out, "not enrolled" in err) == (3, "", True)
    rita = {"OS_USERNAME": "rita", "OS_PASSWORD": "word-of-rita", "OS_PROJECT_NAME": "p1"}
    code, out, err = cloud(*words, "--plan", **rita)
    assert (code, out, err.count("\n")) == (8, "", 1)


def test_a_projects_reader_is_refused(cloud: Cloud) -> None:
    rita = {"OS_USERNAME": "rita", "OS_PASSWORD": "word-of-rita", "OS_PROJECT_NAME": "p1"}
    for words in (("list",), ("hold", ONE, "--reason", "x")):
        code, out, err = cloud("nvme", "slot", *words, **rita)
        assert (code, out, err.count("\n")) == (8, "", 1)
        assert "HTTP 403, req-" in err


def test_words_and_clouds_that_are_wrong(cloud: Cloud) -> None:
    code, out, err = cloud("nvme", "slot", "hold", ONE)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--reason" in err
    code, _out, err = cloud("--os-nvme-endpoint", "http://127.0.0.1:1", "nvme", "host", "list")
    assert (code, err.count("\n")) == (6, 1)
    code, _out, err = cloud("nvme", "host", "list", OS_REGION_NAME="two")
    assert (code, err.count("\n")) == (2, 1)
    assert "--os-nvme-endpoint" in err


def test_a_certificate_is_checked_without_a_cloud(cloud: Cloud) -> None:
    nowhere = dict.fromkeys((name for name in cloud.environment if name.startswith("OS_")), "")
    code, out, err = cloud("nvme", "certificate", "verify", "/nowhere", **nowhere)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--key" in err


def test_a_shell_completes_the_words(cloud: Cloud, tmp_path: Path) -> None:
    code, out, _err = cloud("complete")
    assert code == 0
    script = tmp_path / "completion"
    script.write_text(out)
    assert completed(script, "_openstack", "openstack nvme slot h") == {"hold", "history"}
    assert "--reason" in completed(script, "_openstack", "openstack nvme slot hold --r")


def completed(script: Path, function: str, line: str) -> set[str]:
    """What bash offers; of its own helpers the script needs one."""
    code = (
        "_get_comp_words_by_ref() { words=(${COMP_WORDS[@]}); cur=${words[COMP_CWORD]}; }; "
        '. "$0"; COMP_WORDS=($2); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); "$1"; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", code, script, function, line],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return set(done.stdout.split())
