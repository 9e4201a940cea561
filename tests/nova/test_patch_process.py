"""The patch in real processes: who loads it, who refuses to start, what root can see."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nova_patch import VERSION, __main__, compat, install, tree
from nova_patch.errors import PatchError
from tests.nova.patchenv import PatchEnvironment

NOVA = compat.installed_version()
TRANSLATOR = "nova/compute/pci_placement_translator.py"
OTHERS = ("nova.cmd.conductor", "nova.cmd.scheduler", "nova.cmd.manage", "nova.cmd.status")


once = pytest.mark.skipif(
    not NOVA.startswith("34."), reason="the same on every release, so it runs on one"
)


@pytest.fixture
def environment(tmp_path: Path) -> PatchEnvironment:
    return PatchEnvironment(tmp_path)


@pytest.fixture
def patched(environment: PatchEnvironment) -> PatchEnvironment:
    assert install.install(environment.python).state == install.INSTALLED
    return environment


def refusal(environment: PatchEnvironment) -> str:
    """The one line with which nova-compute ended; it is in the log as well."""
    done = environment.compute()
    assert done.returncode == 1, done.stderr
    lines = [line for line in done.stderr.splitlines() if "nvme-quarantine" in line]
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr + environment.log
    assert lines[0].startswith("nova-compute must not start (nvme-quarantine patch): ")
    return lines[0]


def other_programs_run(environment: PatchEnvironment) -> None:
    """Nova's other services import and the interpreter says nothing."""
    done = environment.run(environment.python, "-c", f"import {OTHERS[0]}")
    assert done.returncode == 0, done.stderr
    assert "nvme" not in done.stderr
    done = environment.run(environment.python, "-c", "")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_nova_compute_starts_with_it_and_root_can_see_that(patched: PatchEnvironment) -> None:
    signs, log = patched.compute_runs()
    assert signs == {f"/memfd:nvme-quarantine-patch:{VERSION}:{NOVA} (deleted)"}, log


def test_nova_compute_without_it_shows_nothing(environment: PatchEnvironment) -> None:
    signs, _ = environment.compute_runs()
    assert signs == set()


def test_a_program_that_nova_compute_executes_does_not_show_it(patched: PatchEnvironment) -> None:
    code = (
        "import subprocess, sys, nova.cmd.compute, nova.compute.manager;"
        'show = \'import os; print([t for t in (os.readlink(f"/proc/{p}/fd/{n}")'
        ' for p in [%s] for n in os.listdir(f"/proc/{p}/fd")'
        ' if os.path.lexists(f"/proc/{p}/fd/{n}")) if "memfd" in t])\';'
        "import os;"
        "print(subprocess.run([sys.executable, '-c', show % 'os.getpid()'],"
        " capture_output=True, text=True, close_fds=False).stdout.strip());"
        "exec(show % 'os.getpid()')"
    )
    child, own = patched.code(code).splitlines()
    assert child == "[]"
    assert "nvme-quarantine-patch" in own


@pytest.mark.parametrize("module", OTHERS)
def test_other_services_load_no_more_than_the_sentry(
    patched: PatchEnvironment, module: str
) -> None:
    code = f"""
import sys, json, {module}
import nova.compute.api, nova.compute.resource_tracker
from nova.compute import pci_placement_translator as translator
from nova.compute import resource_tracker
print(json.dumps([
    sorted(name for name in sys.modules if name.startswith({tree.PREFIX!r})),
    hasattr(translator.PciResourceProvider.update_provider_tree, "__wrapped__"),
]))
"""
    copy = install.look(patched.python).copies[0].name
    assert json.loads(patched.code(code)) == [[copy, f"{copy}.boot"], False]


def test_what_is_measured_anew_is_the_table_s_row(
    environment: PatchEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    assert __main__.main(["digests", "--python", environment.python]) == 0
    rows = json.loads(compat.TABLE.read_text())
    assert json.loads(capsys.readouterr().out) == {NOVA: rows[NOVA]}


@once
def test_however_nova_compute_is_started(patched: PatchEnvironment) -> None:
    patched.pretend("35.0.0")
    for argv in (
        ["-m", "nova.cmd.compute"],
        ["-c", "from nova.cmd.compute import main; main()"],
        ["-c", "import nova.cmd.compute"],
        ["-c", "import nova.compute.manager"],
        ["-I", "-m", "nova.cmd.compute"],
    ):
        done = patched.run(patched.python, *argv)
        assert done.returncode == 1, argv
        assert "found 35.0.0" in done.stderr


def test_an_unknown_release_is_refused(patched: PatchEnvironment) -> None:
    # As after "pip install --upgrade nova", which leaves the patch where it is.
    patched.pretend("35.0.0")
    line = refusal(patched)
    known = ", ".join(compat.releases())
    assert f"expected Nova {known} or another of their series, found 35.0.0" in line
    other_programs_run(patched)
    assert install.status(patched.python).state == install.REFUSES


@once
def test_another_release_of_the_series_starts_with_a_warning(patched: PatchEnvironment) -> None:
    patched.pretend("34.7.0")
    signs, log = patched.compute_runs()
    assert signs == {f"/memfd:nvme-quarantine-patch:{VERSION}:34.7.0 (deleted)"}, log
    assert "Nova 34.7.0 was not tested with the patch" in log
    assert f"nvme-quarantine patch {VERSION} is in Nova 34.7.0: born_reserved, keep_absent" in log
    assert install.status(patched.python).state == install.INSTALLED


@once
def test_an_older_patch_is_replaced_and_brought_back(environment: PatchEnvironment) -> None:
    """Upgrade and rollback: each install leaves one copy, the caller's."""
    older = environment.directory / "older" / "nova_patch"
    shutil.copytree(install.PACKAGE, older)
    text = (older / "__init__.py").read_text()
    (older / "__init__.py").write_text(text.replace(f'VERSION = "{VERSION}"', 'VERSION = "1"'))
    command = ["-m", "nova_patch", "install", "--python", environment.python]
    for directory, version in ((older.parent, "1"), (None, VERSION), (older.parent, "1")):
        if directory is None:
            install.install(environment.python)
        else:
            done = subprocess.run([sys.executable, *command], cwd=directory, check=False)
            assert done.returncode == 0
        assert len(install.look(environment.python).copies) == 1
        code = "import os, nova.cmd.compute, nova.compute.manager as m;"
        code += "print([t for n in os.listdir('/proc/self/fd') if"
        code += " os.path.lexists(f'/proc/self/fd/{n}') and"
        code += " 'quarantine' in (t := os.readlink(f'/proc/self/fd/{n}'))])"
        assert f"nvme-quarantine-patch:{version}:" in environment.code(code)
    assert install.remove(environment.python).state == install.ABSENT


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        (TRANSLATOR, "provider_tree.update_inventory(", "provider_tree.update_inventory ("),
        ("nova/compute/provider_tree.py", "cur = self.inventory", "cur = {}"),
        ("nova/scheduler/client/report.py", "do_put(url, payload)", "do_put(url,payload)"),
    ],
)
def test_a_changed_source_is_refused_by_name(
    patched: PatchEnvironment, path: str, old: str, new: str
) -> None:
    patched.copy_nova()
    patched.change(path, old, new)
    line = refusal(patched)
    assert f"expected the source of Nova {NOVA} as tested, found changes in {path}:" in line
    assert "must not start" in patched.log
    other_programs_run(patched)
    with pytest.raises(PatchError, match="found changes in"):
        install.install(patched.python)


@once
def test_a_change_beside_what_is_watched_is_fine(patched: PatchEnvironment) -> None:
    patched.copy_nova()
    patched.change(TRANSLATOR, "LOG = logging", "UNUSED = 1\nLOG = logging")
    assert patched.code("import nova.cmd.compute, nova.compute.manager; print('up')") == "up"


def test_another_patch_of_the_same_function_is_refused(patched: PatchEnvironment) -> None:
    code = """
import functools, nova.cmd.compute
from nova.compute import pci_placement_translator as translator
cls = translator.PciResourceProvider
cls.update_provider_tree = functools.wraps(cls.update_provider_tree)(lambda *a: None)
import nova.compute.manager
"""
    done = patched.run(patched.python, "-c", code)
    assert done.returncode == 1
    assert "some other patch is loaded" in done.stderr


@once
@pytest.mark.parametrize("damage", ["gone", "no boot", "bad boot", "changed", "no table", "empty"])
def test_a_damaged_copy_is_refused(patched: PatchEnvironment, damage: str) -> None:
    copy = install.look(patched.python).copies[0]
    if damage == "gone":
        copy.rename(copy.with_name("elsewhere"))
    elif damage == "no boot":
        (copy / "boot.py").unlink()
        for bytecode in (copy / "__pycache__").glob("boot.*"):
            bytecode.unlink()
    elif damage == "bad boot":
        (copy / "boot.py").write_text("def wait(:\n")
    elif damage == "changed":
        with (copy / "born_reserved.py").open("a") as stream:
            stream.write("# by hand\n")
    elif damage == "no table":
        (copy / "releases.json").unlink()
    else:
        (copy / "start.py").write_text("")
    refusal(patched)
    other_programs_run(patched)
    assert install.status(patched.python).state == install.BROKEN
    assert install.install(patched.python).state == install.INSTALLED
    assert patched.code("import nova.cmd.compute, nova.compute.manager; print('up')") == "up"


def test_removed_means_removed(patched: PatchEnvironment) -> None:
    assert install.remove(patched.python).state == install.ABSENT
    assert list(patched.site.glob("*quarantine*")) == []
    assert "quarantine" not in patched.code("import sys; print(sys.modules.keys(), sys.meta_path)")
    code = "import nova.cmd.compute, nova.compute.manager; print('up')"
    assert patched.code(code) == "up"


def test_the_table_holds_this_release() -> None:
    row = compat.release(NOVA)
    assert compat.measure(NOVA, row.mechanism, compat.installed_top()) == row
