"""The sentry in every Python of Nova's environment, and the sign of nova-compute."""

from __future__ import annotations

import importlib
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nova_patch import VERSION, boot, start
from nova_patch.errors import PatchError

TOP = Path(__file__).resolve().parents[3]
STAND_IN = "a_manager_of_our_own"


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The sentry waits for a module of ours in place of Nova's manager."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(boot, "MANAGER", STAND_IN)
    monkeypatch.setattr(boot, "ENTRY", f"{STAND_IN}_entry")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f"{STAND_IN}.py").write_text("value = 1\n")
    (tmp_path / f"{STAND_IN}_entry.py").write_text("")
    boot.wait()
    yield tmp_path
    for name in (STAND_IN, f"{STAND_IN}_entry"):
        sys.modules.pop(name, None)


def test_it_waits_once(waiting: Path) -> None:
    boot.wait()
    assert [type(finder) for finder in sys.meta_path].count(boot.Finder) == 1


def test_the_patch_comes_after_the_manager_has_run(
    waiting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr(start, "apply", lambda: seen.append(sys.modules[STAND_IN].value))
    importlib.import_module(STAND_IN)
    assert seen == [1]


def test_the_entry_is_admitted_before_it_runs(
    waiting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr(start, "admit", lambda: seen.append(f"{STAND_IN}_entry" in sys.modules))
    importlib.import_module(f"{STAND_IN}_entry")
    assert seen == [False]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (PatchError("expected a,\nfound b"), "expected a, found b"),
        (KeyError("x"), "the patch failed with KeyError: 'x'; install it again"),
        (ImportError(), "the patch failed with ImportError: ImportError(); install it again"),
    ],
)
def test_any_failure_ends_the_process_with_one_line(
    waiting: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, text: str
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(start, "apply", fail)
    with pytest.raises(SystemExit) as caught:
        importlib.import_module(STAND_IN)
    line = f"nova-compute must not start (nvme-quarantine patch): {text}"
    assert caught.value.code == line
    assert STAND_IN not in sys.modules


def test_a_refusal_is_logged_where_stderr_is_not_the_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    with log.open("w") as stream:
        for handlers in ([logging.StreamHandler(sys.stderr)], [logging.StreamHandler(stream)]):
            monkeypatch.setattr(logging.root, "handlers", handlers)
            with pytest.raises(SystemExit):
                boot.refuse("why")
    assert log.read_text().count("why") == 1
    assert capsys.readouterr().err == "", "the line that the process ends with is all there"


class Syslog(logging.Handler):
    """Has no stream, like the handlers of syslog and of the journal."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.mark.parametrize("logger", [None, "nova"], ids=["root", "nova's own"])
def test_a_refusal_is_logged_wherever_nova_logs(
    monkeypatch: pytest.MonkeyPatch, logger: str | None
) -> None:
    syslog = Syslog()
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(logging.getLogger(logger), "handlers", [syslog])
    with pytest.raises(SystemExit):
        boot.refuse("why")
    assert syslog.lines == ["nova-compute must not start (nvme-quarantine patch): why"]


def test_it_imports_nothing_before_it_is_needed() -> None:
    code = f"import sys; sys.path.insert(0, {str(TOP)!r}); before = set(sys.modules);"
    code += "import nova_patch.boot; nova_patch.boot.wait(); print(sorted(set(sys.modules)-before))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['__future__', 'nova_patch', 'nova_patch.boot']"


def test_the_sign_is_for_this_process_and_not_for_what_it_executes() -> None:
    look = (
        "import os; print(sorted(t for t in (os.readlink(f'/proc/{p}/fd/{n}')"
        " for p in [os.getpid()] for n in os.listdir(f'/proc/{p}/fd')"
        " if os.path.lexists(f'/proc/{p}/fd/{n}')) if 'memfd' in t), flush=True)"
    )
    code = (
        f"from nova_patch import presence; presence.announce('34.0.0'); {look};"
        f"import sys; os.execv(sys.executable, [sys.executable, '-c', {look!r}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(TOP)},
    )
    own, executed = done.stdout.splitlines()
    assert own == f"['/memfd:nvme-quarantine-patch:{VERSION}:34.0.0 (deleted)']"
    assert executed == "[]"
