"""The table of releases, and what is held against it; Nova is not needed for any of it."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
from pathlib import Path

import pytest

from nova_patch import compat, digests
from nova_patch.digest_targets import DIGEST_TARGETS
from nova_patch.errors import PatchError

TOP = Path(__file__).resolve().parents[3]
NAMES = [f"{path}:{name}" for path, names in DIGEST_TARGETS.items() for name in names]


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A tree with every watched function, one line each."""
    for path, names in DIGEST_TARGETS.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = []
        for name in names:
            owner, _, function = name.rpartition(".")
            indent = ""
            if owner:
                lines.append(f"class {owner}:")
                indent = "    "
            lines += [f"{indent}def {function}(self):", f"{indent}    return {name!r}", ""]
        file.write_text("\n".join(lines))
    return tmp_path


def test_a_digest_is_of_the_function_alone_decorators_included() -> None:
    source = b"import x\n@x.y\ndef f():\n    return 1\n\nclass C:\n    def f(self):\n        pass\n"
    whole = digests.of_functions(source, ["f", "C.f", "g"])
    assert whole["g"] == digests.ABSENT
    assert whole["f"] == digests.of_bytes(b"@x.y\ndef f():\n    return 1\n")
    assert whole["C.f"] == digests.of_bytes(b"    def f(self):\n        pass\n")
    moved = digests.of_functions(b"# above\n" + source, ["f", "C.f"])
    assert moved == {name: whole[name] for name in ("f", "C.f")}
    other = digests.of_functions(source.replace(b"@x.y", b"@x.z"), ["f", "C.f"])
    assert other["f"] != whole["f"]
    assert other["C.f"] == whole["C.f"]


def test_each_definition_of_one_name_counts() -> None:
    source = b"class C:\n    @property\n    def p(self):\n        pass\n"
    setter = b"    @p.setter\n    def p(self, v):\n        pass\n"
    one = digests.of_functions(source, ["C.p"])
    assert one != digests.of_functions(source + setter, ["C.p"])


def test_every_row_of_the_table_is_complete() -> None:
    rows = compat.releases()
    assert len(rows) >= 4
    for version, row in rows.items():
        # Nova has one-time-use devices since 32 (spec 2025.2/approved/one-time-use-devices).
        old = int(version.partition(".")[0]) < 32
        assert row.mechanism == ("one_time_use" if old else "born_reserved")
        assert sorted(row.files) == sorted(DIGEST_TARGETS)
        assert sorted(row.functions) == sorted(NAMES)
        wanted = re.compile(r"[0-9a-f]{64}")
        assert all(wanted.fullmatch(digest) for digest in row.files.values())
        assert all(wanted.fullmatch(d) or d == digests.ABSENT for d in row.functions.values())
        # Whatever is replaced is there to be replaced.
        key = "nova/compute/pci_placement_translator.py:PciResourceProvider.update_provider_tree"
        assert row.functions[key] != digests.ABSENT


def test_every_release_of_the_table_has_an_environment_that_tests_it() -> None:
    files = (TOP / "tools").glob("requirements-nova-*.txt")
    tested = {re.sub(r"requirements-nova-(.*)\.txt", r"\1", file.name) for file in files}
    assert set(compat.releases()) <= tested
    default = subprocess.run(
        [TOP / "tools/nova-env", "--list"], capture_output=True, text=True, check=True
    ).stdout.split()[0]
    tox = (TOP / "tox.ini").read_text()
    assert f"nova-env {default} -m pytest -n 2 --dist loadscope" in tox
    assert "nova-env --others -m pytest {[testenv:nova]patch}" in tox


@pytest.mark.parametrize("version", ["30.3.0", "31.3.1", "35.0.0", "3.4.0", "0"])
def test_other_series_are_refused(version: str) -> None:
    with pytest.raises(PatchError, match=re.escape(f"found {version}: the patch was not tested")):
        compat.release(version)


@pytest.mark.parametrize(
    ("version", "like"),
    [("32.0.0", "32.2.1"), ("33.0.3", "33.0.2"), ("34.0.0.dev1", "34.0.0"), ("29.2.0", "29.4.0")],
)
def test_another_release_of_a_series_is_held_against_its_row(version: str, like: str) -> None:
    row = compat.release(version)
    assert row == compat.releases()[like]
    assert compat.untested(row, like) == ""
    warning = compat.untested(row, version)
    assert warning.startswith(f"Nova {version} was not tested")
    assert f"as in Nova {like}" in warning


def test_of_several_of_a_series_the_newest_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {name: compat.Release(name, "kept", {}, {}) for name in ("34.1.0", "34.0.0")}
    monkeypatch.setattr(compat, "releases", lambda: rows)
    assert compat.release("34.0.1").version == "34.1.0"
    assert compat.release("34.0.0").version == "34.0.0"


def test_what_was_measured_passes(top: Path) -> None:
    compat.check_sources(compat.measure("1", "born_reserved", top), top)


@pytest.mark.parametrize("name", NAMES)
def test_a_change_of_any_watched_function_is_named(top: Path, name: str) -> None:
    row = compat.measure("1", "born_reserved", top)
    path, _, function = name.partition(":")
    file = top / path
    file.write_text(file.read_text().replace(f"return {function!r}", "return None"))
    with pytest.raises(PatchError) as caught:
        compat.check_sources(row, top)
    assert f"found changes in {name};" in str(caught.value)


def test_a_change_elsewhere_in_the_file_passes(top: Path) -> None:
    row = compat.measure("1", "born_reserved", top)
    file = top / next(iter(DIGEST_TARGETS))
    file.write_text("# another comment\n" + file.read_text())
    compat.check_sources(row, top)


def test_a_row_that_does_not_know_a_watched_function_is_refused(top: Path) -> None:
    row = compat.measure("1", "born_reserved", top)
    functions = {name: digest for name, digest in row.functions.items() if name != NAMES[0]}
    with pytest.raises(PatchError, match="found changes in"):
        compat.check_sources(dataclasses.replace(row, functions=functions), top)


def test_a_function_that_went_or_came_is_a_change(top: Path) -> None:
    row = compat.measure("1", "born_reserved", top)
    file = top / "nova/service.py"
    file.write_text("")
    with pytest.raises(PatchError, match=r"Service\.create"):
        compat.check_sources(row, top)
    functions = dict(row.functions) | {NAMES[0]: digests.ABSENT}
    row = dataclasses.replace(row, functions=functions, files={})
    with pytest.raises(PatchError, match="found changes in"):
        compat.check_sources(row, top)


def test_files_that_cannot_be_read_are_refused(top: Path) -> None:
    row = compat.measure("1", "born_reserved", top)
    file = top / "nova/service.py"
    file.write_text("def (:")
    with pytest.raises(PatchError, match="expected Python in"):
        compat.check_sources(row, top)
    file.unlink()
    with pytest.raises(PatchError, match="expected Nova's source"):
        compat.check_sources(row, top)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"34.0.0": {"files": {}}}', '{"34.0.0": 1}'])
def test_a_damaged_table_is_refused(tmp_path: Path, text: str) -> None:
    table = tmp_path / "releases.json"
    table.write_text(text)
    with pytest.raises(PatchError, match="expected the patch's table of releases"):
        compat.releases(table)


def test_the_table_is_written_as_the_command_writes_it() -> None:
    rows = json.loads(compat.TABLE.read_text())
    assert compat.TABLE.read_text() == json.dumps(rows, indent=1) + "\n"
