"""The log as objects, the ids of a line, and who decided what, in a file apart."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import resource
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from quarantine import cli, logs, users
from quarantine.cli.app import ACTS, COMMANDS
from quarantine.errors import BadInputError
from quarantine.operations.overview import health
from tests.unit.quarantine.api.client import ADMIN, NAMES, READER, SLOTS, Site

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

HOSTILE = "\x1b[2J\n2026-11-20 INFO all is well\u202e"


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before, level
    logs.keep_audit("")


def test_a_line_of_json_has_the_ids_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up_logging("INFO", "json")
    log = logging.getLogger("of.json")
    with logs.named(request_id="req-1", case="order-1", nothing=""), logs.named(case="order-2"):
        log.warning("held %s", HOSTILE + "y" * 9999, extra={"secret": 1})
    log.info("after")
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert (first["levelname"], first["name"]) == ("WARNING", "of.json")
    assert first["message"].startswith(f"held {HOSTILE}y")
    assert len(first["message"]) == logs.MAX_LINE
    assert first["args"] is None, "they may be megabytes"
    assert first["extra"] == {"request_id": "req-1", "case": "order-2"}
    assert second["extra"] == {}


def test_an_exception_is_in_its_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up_logging("INFO", "json")
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logging.getLogger("of.json").exception("ours")
    (line,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert "ValueError" in line["traceback"]


def test_ids_stand_before_a_line_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up_logging("INFO")
    with logs.named(request_id="req-1"), logs.named(case="order-1"):
        logging.getLogger("x").info("said")
    assert capsys.readouterr().err.rstrip().endswith("INFO x: [req-1 order-1] said")


def test_json_is_loaded_where_it_is_wanted_alone() -> None:
    code = (
        "import sys, quarantine.logs\n"
        "quarantine.logs.set_up_logging('INFO')\n"
        "sys.exit('oslo_log' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_each_act_in_the_shell_is_written_down_also_one_that_was_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audit = tmp_path / "audit.log"
    site = _site(tmp_path, audit)
    words = ["--config-file", str(site.file), "slot"]
    assert cli.main([*words, "hold", str(SLOTS[0]), "--reason", HOSTILE]) == 0
    assert cli.main([*words, "hold", "cmp9/0000:01:00.0", "--reason", "x"]) != 0
    assert cli.main([*words, "list"]) == 0
    done, refused = audit.read_text().splitlines()
    assert done.isprintable()
    assert "slot hold reason=" in done
    assert f"slot='{SLOTS[0]}'" in done
    assert ": 0, by " in done
    assert "cmp9/0000:01:00.0" in refused
    assert "UnknownError, by " in refused
    audit.rename(tmp_path / "audit.log.1")
    assert cli.main([*words, "retire", str(SLOTS[0]), "--reason", "x"]) == 0
    (line,) = audit.read_text().splitlines()
    assert "slot retire" in line


def test_who_acted_is_not_taken_from_what_anybody_may_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable in ("LOGNAME", "USER", "SUDO_USER"):
        monkeypatch.setenv(variable, "mallory")
    audit = tmp_path / "audit.log"
    site = _site(tmp_path, audit)
    words = ["--config-file", str(site.file), "slot", "hold", str(SLOTS[0]), "--reason", "x"]
    assert cli.main(words) == 0
    (line,) = audit.read_text().splitlines()
    assert "mallory" not in line
    assert line.endswith(f": 0, by {users.who()}")


def test_an_act_that_cannot_be_written_down_is_not_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = _site(tmp_path, tmp_path / "nowhere" / "audit.log")
    file = ["--config-file", str(site.file)]
    assert cli.main([*file, "slot", "hold", str(SLOTS[0]), "--reason", "x"]) == 2
    assert "[run]audit_file: expected a file that can be written" in capsys.readouterr().err
    with site.store() as store:
        record = store.slot(SLOTS[0])
    assert record is not None
    assert record.state != "held"
    assert cli.main([*file, "slot", "list"]) == 0, "who only looks needs none"


def test_what_is_done_is_done_also_where_it_cannot_be_written_down(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A log that is rotated away is begun anew, and its directory may be gone by then."""
    directory = tmp_path / "log"
    directory.mkdir()
    audit = directory / "audit.log"
    logs.keep_audit(str(audit))
    logs.AUDIT.info("first")
    shutil.rmtree(directory)
    for number in range(3):
        logs.AUDIT.info("lost %d %s", number, HOSTILE)
    (told,) = _told(caplog)
    assert told.levelno == logging.ERROR
    text = told.getMessage()
    assert text.startswith(f"[run]audit_file: {audit} cannot be written: ")
    assert "lost 0" in text
    assert text.isprintable()
    directory.mkdir()
    logs.AUDIT.info("found")
    logs.AUDIT.info("and more")
    assert _said(audit.read_bytes()) == ["found", "and more"]
    _, again = _told(caplog)
    assert again.getMessage().endswith("is written again; 3 lines are missing in it")
    shutil.rmtree(directory)
    logs.AUDIT.info("lost")
    assert caplog.records[-2].levelno == logging.ERROR, "of each time that it begins"


def test_a_request_is_answered_as_it_ended_also_where_that_cannot_be_written_down(
    tmp_path: Path,
) -> None:
    site = Site(tmp_path)
    logs.keep_audit("/dev/full")
    assert _hold(site) == 200
    assert "lines are missing in it" in _checks(site)["audit file"]


def test_a_request_whose_act_cannot_be_written_down_is_refused_before_it_is_done(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the start, and when its file is rotated away; who only looks needs none."""
    monkeypatch.setattr(health, "SAME_SECONDS", 0.0)
    audit = tmp_path / "log" / "audit.log"
    site = Site(tmp_path)
    assert "audit file" not in _checks(site), "where there is none"
    with pytest.raises(BadInputError):
        logs.keep_audit(str(audit))
    assert _hold(site) == 503
    assert f"[run]audit_file: expected a file that can be written, found {audit}" in caplog.text
    with site.store() as store:
        record = store.slot(SLOTS[0])
    assert record is not None
    assert record.state != "held"
    problem = _checks(site)["audit file"]
    assert "acts of people are refused" in problem
    assert str(tmp_path) not in problem
    audit.parent.mkdir()
    assert "1 lines are missing in it" in _checks(site)["audit file"]
    assert _hold(site) == 200
    assert _checks(site)["audit file"] == ""
    shutil.rmtree(audit.parent)
    assert _hold(site) == 503
    audit.parent.mkdir()
    assert _hold(site) == 409, "it is held by now"
    assert len(audit.read_text().splitlines()) == 1


def test_a_disk_that_was_full_loses_what_is_said_to_be_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No line that was said to be missing comes later; a file that was closed loses none."""
    file = tmp_path / "audit.log"
    logs.keep_audit(str(file))
    with _room(file, 0):
        logs.AUDIT.info("full")
    logs.AUDIT.info("written")
    os.close(_descriptor_of(file))
    logs.AUDIT.info("closed")
    assert _said(file.read_bytes()) == ["written", "closed"]
    assert caplog.text.count("1 lines are missing in it") == 1


def test_a_line_that_the_disk_takes_a_part_of_is_missing_and_spoils_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "audit.log"
    logs.keep_audit(str(file))
    logs.AUDIT.info("first")
    with _room(file, 10):
        logs.AUDIT.info("cut")
        assert [r.levelno for r in _told(caplog)] == [logging.ERROR]
        assert _told(caplog)[0].getMessage().endswith("nor what comes: cut")
    logs.AUDIT.info("second")
    lines = file.read_bytes().split(b"\n")
    assert len(lines[1]) == 10, "the disk took a part"
    assert [_said(line) for line in (lines[0], *lines[2:])] == [["first"], ["second"], []]
    assert "1 lines are missing in it" in _told(caplog)[1].getMessage()


def test_a_line_that_another_process_left_half_spoils_no_other(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    file.write_bytes(b"half")
    logs.keep_audit(str(file))
    logs.AUDIT.info("first")
    with file.open("ab") as other:
        other.write(b"half")
    logs.AUDIT.info("second")
    lines = file.read_bytes().split(b"\n")
    assert lines[0] == lines[2] == b"half"
    assert _said(lines[1] + b"\n" + lines[3]) == ["first", "second"]


def test_a_collector_that_is_slow_misses_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """More than a pipe holds, while nobody reads yet."""
    file = tmp_path / "audit.fifo"
    os.mkfifo(file)
    reader = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    logs.keep_audit(str(file))
    found = bytearray()

    def collect() -> None:
        time.sleep(0.2)
        while part := os.read(reader, 65536):
            found.extend(part)

    collector = threading.Thread(target=collect)
    collector.start()
    for number in range(40):
        logs.AUDIT.info("%s: %d", "x" * 3500, number)
    logs.keep_audit("")
    collector.join()
    os.close(reader)
    assert _said(found) == [str(number) for number in range(40)]
    assert not _told(caplog)


def test_a_collector_that_stops_reading_stops_nobody_and_what_it_misses_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "PATIENCE", 0.2)
    file = tmp_path / "audit.fifo"
    os.mkfifo(file)
    reader = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    logs.keep_audit(str(file))
    begun = time.monotonic()
    for number in range(200):
        logs.AUDIT.info("%s: %d", "x" * 3500, number)
    assert time.monotonic() - begun < 5, "it waits once, not for each line"
    assert [r.levelno for r in _told(caplog)] == [logging.ERROR]
    there = _read(reader)
    logs.AUDIT.info("after")
    missing = 200 - len(_said(there))
    assert 0 < missing < 200
    assert f"{missing} lines are missing in it" in _told(caplog)[1].getMessage()
    assert _said(_read(reader)) == ["after"]
    os.close(reader)
    logs.AUDIT.info("nobody reads")
    assert _told(caplog)[2].levelno == logging.ERROR


def test_a_line_that_a_pipe_takes_a_part_of_is_missing_and_spoils_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "PATIENCE", 0.2)
    file = tmp_path / "audit.fifo"
    os.mkfifo(file)
    reader = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    logs.keep_audit(str(file))
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
    logs.AUDIT.info("\u00e4" * 3900)
    assert [r.levelno for r in _told(caplog)] == [logging.ERROR]
    assert len(_read(reader)) == 4096
    logs.AUDIT.info("after")
    logs.AUDIT.info("and more")
    found = _read(reader)
    os.close(reader)
    assert found.startswith(b"\n")
    assert _said(found[1:]) == ["after", "and more"]
    assert "1 lines are missing in it" in _told(caplog)[1].getMessage()


def test_root_follows_nothing_that_others_may_have_planted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    tmp_path.chmod(0o777)
    file, elsewhere = tmp_path / "audit.log", tmp_path / "elsewhere"
    file.symlink_to(elsewhere)
    with pytest.raises(BadInputError, match="root follows no"):
        logs.keep_audit(str(file))
    assert not elsewhere.exists()
    file.unlink()
    os.mkfifo(file)
    reader = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(BadInputError, match="root follows no"):
        logs.keep_audit(str(file))
    os.close(reader)


@AS_ROOT
def test_root_follows_its_own_links_as_far_as_they_are_its_own(tmp_path: Path) -> None:
    own, open_to_all = tmp_path / "own", tmp_path / "open"
    own.mkdir(mode=0o755)
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    first, second, file = own / "first", own / "second", open_to_all / "audit.log"
    first.symlink_to("second")
    second.symlink_to(file)
    for word in ("begun", "found"):
        logs.keep_audit(str(first))
        logs.AUDIT.info(word)
    assert _said(file.read_bytes()) == ["begun", "found"]
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadInputError, match="root follows no"):
        logs.keep_audit(str(first))
    file.unlink()
    os.chown(first, 1, 1, follow_symlinks=False)
    with pytest.raises(BadInputError, match="root follows no"):
        logs.keep_audit(str(first))
    second.unlink()
    second.symlink_to("second")
    with pytest.raises(BadInputError, match="symbolic links"):
        logs.keep_audit(str(second))
    pipe = own / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    logs.keep_audit(str(pipe))
    logs.AUDIT.info("piped")
    assert _said(_read(reader)) == ["piped"]
    os.close(reader)


def test_who_is_not_root_follows_any_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    tmp_path.chmod(0o777)
    link, file = tmp_path / "audit.log", tmp_path / "elsewhere"
    link.symlink_to(file)
    for word in ("begun", "found"):
        logs.keep_audit(str(link))
        logs.AUDIT.info(word)
    assert _said(file.read_bytes()) == ["begun", "found"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


@pytest.mark.parametrize("is_pipe", [True, False])
@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_the_file_may_be_what_a_container_writes_to(
    tmp_path: Path, name: str, is_pipe: bool
) -> None:
    code = (
        "import quarantine.logs as logs\n"
        f"logs.keep_audit({name!r})\n"
        "logs.AUDIT.info('said')\n"
        "logs.AUDIT.info('and more')"
    )
    with (tmp_path / "out").open("w+b") as out:
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE if is_pipe else out,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert _said(done.stdout or (tmp_path / "out").read_bytes()) == ["said", "and more"]
    assert not done.stderr


def test_the_file_is_the_services_whoever_begins_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root's ``db upgrade`` is the first act of all; what it begins, the service goes on with."""
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", lambda _file, user, group: given.append((user, group)))
    audit, there = tmp_path / "audit.log", tmp_path.stat()
    before = os.umask(0)
    try:
        logs.keep_audit(str(audit))
        logs.AUDIT.info("first")
        audit.rename(tmp_path / "audit.log.1")
        os.umask(0o777)
        logs.AUDIT.info("rotated")
    finally:
        os.umask(before)
    for file in (audit, tmp_path / "audit.log.1"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert given == [(there.st_uid, there.st_gid)] * 2
    audit.chmod(0o600)
    logs.keep_audit(str(audit))
    logs.AUDIT.info("found")
    assert stat.S_IMODE(audit.stat().st_mode) == 0o600, "a file that is there is left as it is"
    assert len(given) == 2


def test_each_act_by_the_api_is_written_down(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also one that was refused. What nobody asked for is in the log alone: whoever reaches the API
    could fill the disk with it."""
    audit = tmp_path / "audit.log"
    site = Site(tmp_path)
    caplog.set_level(logging.INFO)
    logs.keep_audit(str(audit), "json")
    admin = site.client().as_user(ADMIN)
    where = f"/v1/slots/{NAMES[0]}"
    etag = admin.get(where).headers["ETag"]
    held = admin.ask("POST", f"{where}/hold", {"reason": "smoke"}, If_Match=etag)
    assert held.status_code == 200
    for caller, status in ((site.client().as_user(READER), 403), (site.client(), 401)):
        found = caller.ask("POST", f"{where}/release", {"reason": "x"}, If_Match=etag)
        assert found.status_code == status
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [line["message"].split(" from ")[0] for line in lines] == [
        f"POST '{where}/hold': 200, by user ada of project unknown",
        f"POST '{where}/release': 403, by user rita of project unknown",
    ]
    assert f"POST '{where}/release' 401 " in caplog.text
    assert lines[0]["extra"]["request_id"] == held.headers["x-openstack-request-id"]


def test_a_key_is_made_where_there_is_no_configuration_yet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, key, audit = tmp_path / "bad.conf", tmp_path / "key.pem", tmp_path / "audit.log"
    bad.write_text("[run]\nlog_format = smoke\n")
    for file in (tmp_path / "none.conf", bad):
        words = ["--config-file", str(file), "key", "create"]
        assert cli.main([*words, "--output", str(key)]) == 0
        key.unlink()
        assert cli.main(words) == 2, "the configuration says where"
    site = _site(tmp_path, audit)
    assert cli.main(["--config-file", str(site.file), "key", "create", "--output", str(key)]) == 0
    (line,) = audit.read_text().splitlines()
    assert " key create " in line, "where there is one, it is written down"


def test_looking_needs_no_audit_and_some_no_configuration(tmp_path: Path) -> None:
    file = ["--config-file", str(tmp_path / "none.conf")]
    assert cli.main([*file, "upgrade", "check", "list"]) == 0


LOOKS = {
    *("alarm list", "capacity show", "drive list", "drive show", "drive history", "refusal list"),
    *("campaign list", "campaign preview", "campaign show", "campaign slots"),
    *("certificate export", "certificate for-server", "certificate html", "certificate list"),
    *("certificate save", "certificate show", "certificate verify"),
    *("flavor config", "flavor list", "history list", "host list", "host show", "key show"),
    "maintenance list",
    *("ledger export", "ledger verify", "policy list", "policy show", "profile list"),
    *("profile show", "slot held", "slot history", "slot list", "slot show"),
    *("upgrade check", "upgrade check list"),
}
"""Commands that change nothing but files of whoever runs them."""

SERVES = {"run", "worker", "listener"}
"""The service, which writes down what it does by other ways, and a word that does nothing."""


def test_each_command_either_looks_or_acts() -> None:
    """One that is new is put where it belongs, by hand: no last word decides."""
    assert set(COMMANDS) == LOOKS | ACTS | SERVES
    assert not LOOKS & ACTS
    assert not SERVES & ACTS


@pytest.mark.parametrize("words", [["campaign", "advance", "none"], ["slot", "reconcile"]])
def test_who_takes_a_turn_by_hand_is_written_down(tmp_path: Path, words: list[str]) -> None:
    audit = tmp_path / "audit.log"
    site = _site(tmp_path, audit)
    cli.main(["--config-file", str(site.file), *words])
    (line,) = audit.read_text().splitlines()
    assert f" {' '.join(words[:2])} " in line
    assert f"by {users.who()}" in line


def _hold(site: Site) -> int:
    """How the API answers an act."""
    admin = site.client().as_user(ADMIN)
    where = f"/v1/slots/{NAMES[0]}"
    etag = admin.get(where).headers["ETag"]
    return admin.ask("POST", f"{where}/hold", {"reason": "smoke"}, If_Match=etag).status_code


def _checks(site: Site) -> dict[str, str]:
    """What is wrong with what, by the API's word."""
    found = site.client().get("/healthcheck").json
    return {one["name"]: one["problem"] for one in found["checks"]}


@contextlib.contextmanager
def _room(file: Path, size: int) -> Iterator[None]:
    """As a disk that has so many bytes left for a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _descriptor_of(file: Path) -> int:
    """By which this process has a file open."""
    return next(
        int(entry.name)
        for entry in Path("/proc/self/fd").iterdir()
        if entry.is_symlink() and os.readlink(entry) == str(file)
    )


def _read(pipe: int) -> bytes:
    """What is in it now."""
    found = b""
    with contextlib.suppress(BlockingIOError):
        while part := os.read(pipe, 65536):
            found += part
    return found


def _said(lines: bytes | bytearray) -> list[str]:
    return [line.rpartition(": ")[2] for line in lines.decode().splitlines()]


def _told(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What the process's own log says of the file."""
    return [record for record in caplog.records if record.name == "quarantine.logs"]


def _site(path: Path, audit: Path) -> Site:
    site = Site(path)
    with site.file.open("a") as file:
        file.write(f"\n[run]\naudit_file = {audit}\n")
    return site
