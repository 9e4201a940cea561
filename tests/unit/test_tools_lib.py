"""What tools/lib.sh does to the machine that it installs packages on."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

LIB = Path(__file__).resolve().parents[2] / "tools" / "lib.sh"
BROKEN_OFF = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SCRIPT = """set -euo pipefail
. "$LIB"
policy=$SCRATCH/policy-rc.d
id() { echo 0; }
wanted_packages() { echo no-such-package-of-a-test; }
install_packages
echo went on
"""
APT = """#!/bin/sh
[ "$1" = update ] && exit 0
cp "$SCRATCH/policy-rc.d" "$SCRATCH/seen"
exec $APT_DOES
"""


def start(scratch: Path, does: str) -> subprocess.Popen[bytes]:
    (scratch / "bin").mkdir()
    for name, text in (("apt-get", APT), ("dpkg-query", "#!/bin/sh\nexit 1\n")):
        (scratch / "bin" / name).write_text(text)
        (scratch / "bin" / name).chmod(0o755)
    env = {
        "PATH": f"{scratch}/bin:{os.environ['PATH']}",
        "LIB": str(LIB),
        "SCRATCH": str(scratch),
        "HOME": str(scratch),
        "APT_DOES": does,
    }
    argv = ["bash", "-c", SCRIPT]
    # It inherits what becomes of signals, and no shell can catch one that was ignored at its start:
    # whoever runs the tests may have left some so.
    before = {number: signal.signal(number, signal.SIG_DFL) for number in BROKEN_OFF}
    try:
        return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, start_new_session=True)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.parametrize("number", BROKEN_OFF)
def test_an_installation_that_is_broken_off_keeps_no_later_server_from_starting(
    tmp_path: Path, number: signal.Signals
) -> None:
    process = start(tmp_path, "sleep 60")
    ends = time.monotonic() + 20
    while not (tmp_path / "seen").exists():
        assert time.monotonic() < ends
        time.sleep(0.01)
    os.killpg(process.pid, number)
    process.communicate(timeout=20)
    assert process.returncode != 0
    assert not (tmp_path / "policy-rc.d").exists()


@pytest.mark.parametrize(("does", "code"), [("true", 0), ("false", 2)])
def test_servers_are_not_started_while_packages_are_installed_and_are_after_that(
    tmp_path: Path, does: str, code: int
) -> None:
    process = start(tmp_path, does)
    out, _ = process.communicate(timeout=20)
    assert (process.returncode, out) == (code, b"" if code else b"went on\n")
    assert b"exit 101" in (tmp_path / "seen").read_bytes()
    assert not (tmp_path / "policy-rc.d").exists()


def test_a_policy_that_was_there_stays(tmp_path: Path) -> None:
    (tmp_path / "policy-rc.d").write_text("somebody's")
    start(tmp_path, "true").communicate(timeout=20)
    assert (tmp_path / "policy-rc.d").read_text() == "somebody's"
