"""What is put on a guest's disks."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.errors import BuildError
from tests.lab.guest import packages, payload


def test_requirements_are_those_of_the_project() -> None:
    text = '[project]\ndependencies = ["celery[redis]>=5.7", "oslo.config>=9.6", "SQLAlchemy<2.1"]'

    assert payload.guest_requirements(text, ["oslo.config", "celery"]) == [
        "celery[redis]>=5.7",
        "oslo.config>=9.6",
    ]
    with pytest.raises(BuildError, match="expected pyudev among the dependencies"):
        payload.guest_requirements(text, ["celery", "pyudev"])


def test_the_projects_own_file_names_all_that_guests_need() -> None:
    text = (payload.REPOSITORY / "pyproject.toml").read_text()

    found = payload.guest_requirements(text, packages.GUEST_DISTRIBUTIONS)
    assert len(found) == len(packages.GUEST_DISTRIBUTIONS)


@pytest.mark.skipif(
    sys.version_info[:2] != packages.GUEST_PYTHON, reason="only that version can compile for guests"
)
def test_precompiled_modules_run_without_a_look_at_their_source(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("print('compiled')")
    (tmp_path / "template.py").write_text("{{ no python }}")
    payload.precompile(tmp_path, "/opt/src")
    (tmp_path / "module.py").write_text("print('source')")

    done = subprocess.run(
        [sys.executable, "-c", "import module"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == "compiled\n"
