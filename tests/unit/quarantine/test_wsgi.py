"""What a WSGI server imports: alarms of a decision are counted, whatever the server forks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.unit.quarantine.api.client import Site

PROGRAM = """
import os, sys, time
import quarantine.wsgi.api as api
from quarantine.record.words.reasons import AlarmCode
from quarantine.rules.alarmbook import alarm

def ask():
    list(api.application({"REQUEST_METHOD": "GET", "PATH_INFO": "/"}, lambda *_: None))

ask(), ask()
alarm("cmp1", AlarmCode.LATE, "before the fork")
store, end = api._PLANE.open_store(), time.monotonic() + 60
while not store.alarm_totals():
    assert time.monotonic() < end
    time.sleep(0.02)
store.close()
child = os.fork()
if child == 0:
    ask(), ask()
    alarm("cmp1", AlarmCode.ON_OFFER, "in a process that was forked off")
    sys.exit(0)  # at once: what was heard is written all the same
assert os.waitpid(child, 0)[1] == 0
alarm("cmp1", AlarmCode.LATE, "after it")
"""


LOOK_WITH_NO_AUDIT_FILE = """
from wsgiref.util import setup_testing_defaults

import quarantine.wsgi.api as api

for _ in range(2):
    environ, said = {}, []
    setup_testing_defaults(environ)
    list(api.application(environ, lambda status, *_: said.append(status)))
    assert said[0][0] in "23", said
"""


def test_alarms_of_each_process_are_counted_once_and_at_its_end(tmp_path: Path) -> None:
    site = Site(tmp_path)
    done = _run(PROGRAM, site)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("before the fork") == 1
    with site.store() as store:
        assert store.alarm_totals() == {"late": 2, "on-offer": 1}


def test_what_only_looks_is_answered_also_where_acts_cannot_be_written_down(tmp_path: Path) -> None:
    """The log says so once, at the start."""
    site = Site(tmp_path)
    with site.file.open("a") as file:
        file.write(f"\n[run]\naudit_file = {tmp_path}/nowhere/audit.log\n")
    done = _run(LOOK_WITH_NO_AUDIT_FILE, site)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("ERROR quarantine.wsgi.api: [run]audit_file: ") == 1
    assert "acts of people are refused" in done.stderr


def _run(program: str, site: Site) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        env={"NVME_QUARANTINE_CONFIG": str(site.file), "PATH": "/usr/bin"},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
