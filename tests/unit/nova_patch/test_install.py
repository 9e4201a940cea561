"""Installing, removing and looking, in real environments with a nova that is none.

What nova-compute makes of it is tested with the real Nova: ``tests/nova/test_patch_process.py``.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import types
import venv
from pathlib import Path

import pytest

from nova_patch import VERSION, compat, install, replacements, tree
from nova_patch import __main__ as command
from nova_patch.digest_targets import DIGEST_TARGETS
from nova_patch.errors import PatchError


@pytest.fixture
def python(tmp_path: Path) -> str:
    """The Python of an environment without Nova."""
    venv.create(tmp_path / "venv", symlinks=True, with_pip=False)
    return str(tmp_path / "venv/bin/python")


@pytest.fixture
def site(python: str) -> Path:
    """Its ``site-packages``, with a package ``nova`` that has an entry and a manager."""
    site = install.look(python).site
    for path in ("cmd/compute", "compute/manager", "service", *map(_inner, DIGEST_TARGETS)):
        file = site / "nova" / f"{path}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        for package in file.relative_to(site).parents:
            if package != Path("."):
                (site / package / "__init__.py").touch()
    metadata = site / "nova-34.0.0.dist-info/METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: nova\nVersion: 34.0.0\n")
    return site


def _inner(path: str) -> str:
    return path.removeprefix("nova/").removesuffix(".py")


@pytest.fixture
def supported(site: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A copy of the patch whose table knows that nova; what is installed is that copy."""
    package = tmp_path / "nova_patch"
    package.mkdir()
    for path in tree.files(install.PACKAGE):
        (package / path.name).write_bytes(path.read_bytes())
    row = compat.measure("34.0.0", "born_reserved", site)
    table = {"34.0.0": {"mechanism": row.mechanism, "files": row.files, "functions": row.functions}}
    (package / "releases.json").write_text(json.dumps(table))
    monkeypatch.setattr(install, "PACKAGE", package)
    monkeypatch.setattr(compat, "releases", lambda: {"34.0.0": row})
    return package


def run(python: str, code: str) -> subprocess.CompletedProcess[str]:
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=False, env=environ
    )


def test_the_life_of_an_installation(supported: Path, site: Path, python: str) -> None:
    assert install.status(python).state == install.ABSENT
    first = install.install(python)
    assert first.state == install.INSTALLED
    before = {path: path.stat().st_mtime_ns for path in site.glob("nvme*/*.py")}
    assert install.install(python) == first
    assert {path: path.stat().st_mtime_ns for path in site.glob("nvme*/*.py")} == before
    assert run(python, "").stderr == ""
    assert install.remove(python).state == install.ABSENT
    assert install.remove(python).state == install.ABSENT
    assert list(site.glob("*nvme*")) == []


def test_another_version_takes_the_place_of_the_first(
    supported: Path, site: Path, python: str
) -> None:
    install.install(python)
    old = install.look(python).copies
    (supported / "replacements.py").write_text(
        (supported / "replacements.py").read_text() + "# newer\n"
    )
    install.install(python)
    new = install.look(python).copies
    assert len(new) == 1
    assert new != old
    assert new[0].name in (site / install.PTH).read_text()


def test_the_version_that_is_told_is_that_of_the_installed_copy(
    supported: Path, site: Path, python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newer checkout that asks must not say that the newer patch is installed."""
    ours = supported / "__init__.py"
    ours.write_text(ours.read_text().replace(f'VERSION = "{VERSION}"', 'VERSION = "1"'))
    assert install.install(python).patch == "1"
    monkeypatch.setattr(install, "PACKAGE", Path(install.__file__).parent)
    assert install.status(python).patch == "1"


def test_what_an_interrupted_command_leaves_is_known_and_mended(
    supported: Path, site: Path, python: str
) -> None:
    install.install(python)
    copy = install.look(python).copies[0]
    text = (site / install.PTH).read_text()
    # A removal that stopped after its first step, and an installation before its last.
    install._delete(copy)
    assert install.status(python).state == install.BROKEN
    for module in ("nova.cmd.compute", "nova.compute.manager"):
        done = run(python, f"import {module}")
        assert done.returncode == 1
        assert done.stderr.startswith("nova-compute must not start (nvme-quarantine patch): ")
        assert len(done.stderr.splitlines()) == 1
    assert run(python, "import nova.service; print('up')").stdout == "up\n"
    assert install.install(python).state == install.INSTALLED
    (site / install.PTH).unlink()
    left = install.status(python)
    assert left.state == install.ABSENT
    assert "left over" in left.detail
    assert install.install(python).state == install.INSTALLED
    assert (site / install.PTH).read_text() == text


def test_what_a_deletion_of_the_same_process_id_left_is_deleted(
    supported: Path, site: Path, python: str
) -> None:
    """In a container, where an image is built, each run has the same number."""
    install.install(python)
    left = site / f"{tree.PREFIX}old-{os.getpid()}"
    left.mkdir()
    (left / "replacements.py").touch()
    assert install.remove(python).state == install.ABSENT
    assert list(site.glob("*nvme*")) == []


def test_half_a_pth_file_of_an_interrupted_installation_is_removed_too(
    supported: Path, site: Path, python: str
) -> None:
    (site / f".{install.PTH}.k3jx9q_1").write_text("import sys")
    assert install.remove(python).state == install.ABSENT
    assert list(site.glob("*nvme*")) == []


def test_names_and_bytes_are_on_the_disk_before_it_says_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that loses power right after would start nova-compute without the patch."""
    synced: set[str] = set()
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    install._write(tmp_path / install.PTH, "x")
    assert str(tmp_path) in synced
    assert any(install.PTH in name for name in synced)
    synced.clear()
    target = tmp_path / f"{tree.PREFIX}copy"
    install._copy(install.Environment(sys.executable, tmp_path, None, None, ()), target)
    assert str(tmp_path) in synced
    assert {Path(name).name for name in synced} >= {path.name for path in tree.files(target)}


def test_an_unsupported_nova_is_refused_and_nothing_is_written(site: Path, python: str) -> None:
    with pytest.raises(PatchError, match="found changes in"):
        install.install(python)
    (site / "nova-34.0.0.dist-info").rename(site / "nova-31.3.1.dist-info")
    metadata = site / "nova-31.3.1.dist-info/METADATA"
    metadata.write_text(metadata.read_text().replace("34.0.0", "31.3.1"))
    with pytest.raises(PatchError, match=r"expected Nova 34\.0\.0, .*, found 31\.3\.1"):
        install.install(python)
    assert list(site.glob("*nvme*")) == []


def test_no_nova_and_no_python(python: str, tmp_path: Path) -> None:
    with pytest.raises(PatchError, match="expected nova in the environment"):
        install.install(python)
    with pytest.raises(PatchError, match="expected a Python at"):
        install.look(str(tmp_path / "nowhere"))
    with pytest.raises(PatchError, match="expected a Python at /bin/false"):
        install.look("/bin/false")


def test_what_a_removed_nova_left_does_not_keep_the_patch(
    supported: Path, site: Path, python: str
) -> None:
    """pip leaves a directory in which others have put files: a package without metadata, then one
    without a file of its own."""
    install.install(python)
    metadata = site / "nova-34.0.0.dist-info"
    for left in (metadata / "METADATA", site / "nova/__init__.py"):
        left.unlink()
        if metadata.exists():
            metadata.rmdir()
        with pytest.raises(PatchError, match="expected nova in the environment of"):
            install.install(python)
        assert install.look(python).nova is None
    assert install.remove(python).state == install.ABSENT
    assert list(site.glob("*nvme*")) == []


@pytest.mark.parametrize("stuck", ["compileall", "status"])
def test_a_python_that_does_not_end_is_no_traceback(
    supported: Path, site: Path, python: str, monkeypatch: pytest.MonkeyPatch, stuck: str
) -> None:
    """Bytecode is a comfort, an answer is not."""
    real = subprocess.run

    def run(argv: list[str], **more: object) -> object:
        if stuck in argv or (stuck == "status" and "start.admit" in argv[-1]):
            raise subprocess.TimeoutExpired(argv, 60)
        return real(argv, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "run", run)
    if stuck == "compileall":
        assert install.install(python).state == install.INSTALLED
    else:
        with pytest.raises(PatchError, match=r"expected .* to end in 60 s"):
            install.install(python)


def test_the_command_line(
    supported: Path, site: Path, python: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def call(*argv: str) -> tuple[int, str]:
        code = command.main([*argv, "--python", python])
        return code, capsys.readouterr().out.strip()

    assert call("status")[0] == 3
    assert call("install", "--check") == (
        0,
        "supported: nova 34.0.0: can be installed: born_reserved",
    )
    assert call("status")[0] == 3
    assert call("install")[0] == 0
    code, text = call("status", "-f", "json")
    assert code == 0
    assert json.loads(text)["state"] == "installed"
    (site / "nova/service.py").write_text("class Service:\n    def create(self):\n        pass\n")
    code, text = call("status")
    assert code == 4
    assert text.startswith("refuses: nova 34.0.0: expected the source of Nova 34.0.0 as tested")
    assert call("install")[0] == 1
    code, text = call("digests")
    assert code == 0
    assert sorted(json.loads(text)["34.0.0"]["files"]) == sorted(DIGEST_TARGETS)
    assert call("remove")[0] == 0
    assert call("status")[0] == 3


def test_a_copy_knows_that_it_was_changed(tmp_path: Path) -> None:
    copy = tmp_path / tree.name(install.PACKAGE)
    copy.mkdir()
    for path in tree.files(install.PACKAGE):
        (copy / path.name).write_bytes(path.read_bytes())
    tree.check(copy)
    tree.check(install.PACKAGE)
    (copy / "extra.py").write_text("")
    with pytest.raises(PatchError, match="found changed files"):
        tree.check(copy)
    (copy / "releases.json").unlink()
    with pytest.raises(PatchError, match=r"releases\.json"):
        tree.check(copy)


LOCK = """
import functools

def synchronized(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs)
    return inner
"""


class Theirs:
    def method(self) -> str:
        return "theirs"


def test_only_a_function_that_nobody_replaced_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = replacements.unbroken(Theirs, "method")
    assert original is Theirs.method
    monkeypatch.setattr(Theirs, "method", Theirs.method)
    replacements.put([replacements.Replacement(Theirs, "method", lambda self: "ours")])
    assert Theirs().method() == "ours"
    monkeypatch.setattr(Theirs, "method", json.dumps)
    with pytest.raises(PatchError, match="some other patch is loaded"):
        replacements.unbroken(Theirs, "method")
    with pytest.raises(PatchError, match="some other patch is loaded"):
        replacements.unbroken(Theirs, "gone")


def test_a_function_under_nova_s_lock_is_nova_s(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its claims are ``utils.synchronized``, of oslo.concurrency."""
    source = tmp_path / "lockutils.py"
    source.write_text(LOCK)
    lock = types.ModuleType("lockutils")
    vars(lock)["__file__"] = str(source)
    exec(compile(LOCK, str(source), "exec"), vars(lock))  # noqa: S102
    monkeypatch.setattr(Theirs, "method", lock.synchronized(Theirs.method))
    with pytest.raises(PatchError, match="some other patch is loaded"):
        replacements.unbroken(Theirs, "method")
    monkeypatch.setitem(sys.modules, "oslo_concurrency.lockutils", lock)
    assert replacements.unbroken(Theirs, "method") is Theirs.method
    for wrong in (lock.synchronized(json.dumps), functools.wraps(Theirs.method)(json.dumps)):
        monkeypatch.setattr(Theirs, "method", wrong)
        with pytest.raises(PatchError, match="some other patch is loaded"):
            replacements.unbroken(Theirs, "method")
