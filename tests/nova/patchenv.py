"""A small environment beside the one that runs the tests: same Nova, its own ``site-packages``.

Nova's environment is shared by all tests and is never patched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path

from nova_patch import install

SCRIPT = """\
#!{python}
import sys
from nova.cmd.{module} import main
if __name__ == "__main__":
    sys.exit(main())
"""
CONFIG = """\
[DEFAULT]
transport_url = kombu+memory:////
state_path = {directory}
host = compute1
compute_driver = fake.FakeDriver
log_file = {directory}/nova.log
"""


class PatchEnvironment:
    """A virtual environment with the tests' Nova on its path, and a nova.conf."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        venv.create(directory / "venv", symlinks=True, with_pip=False)
        self.python = str(directory / "venv/bin/python")
        self.site = install.look(self.python).site
        (self.site / "zz-nova.pth").write_text(sysconfig.get_path("purelib") + "\n")
        self.config = directory / "nova.conf"
        self.config.write_text(CONFIG.format(directory=directory))

    @property
    def log(self) -> str:
        """What nova-compute logged."""
        path = self.directory / "nova.log"
        return path.read_text() if path.exists() else ""

    def script(self, program: str) -> str:
        """A console script as pip makes them."""
        path = Path(self.python).with_name(program)
        module = program.removeprefix("nova-")
        path.write_text(SCRIPT.format(python=self.python, module=module))
        path.chmod(0o755)
        return str(path)

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """A program of that environment, to its end."""
        return subprocess.run(
            argv, capture_output=True, text=True, timeout=600, check=False, env=_environ()
        )

    def code(self, text: str) -> str:
        """What that Python prints."""
        done = self.run(self.python, "-c", text)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def compute(self) -> subprocess.CompletedProcess[str]:
        """nova-compute that is expected to end by itself."""
        return self.run(self.script("nova-compute"), "--config-file", str(self.config))

    def compute_runs(self) -> tuple[set[str], str]:
        """The memfds of a nova-compute that started, and what it logged.

        Its manager was imported by then: ``nova.service`` asks for the conductor after that, and
        nobody is one. It is killed.
        """
        argv = [self.script("nova-compute"), "--config-file", str(self.config)]
        with subprocess.Popen(
            argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=_environ(), text=True
        ) as process:
            try:
                deadline = time.monotonic() + 90
                while process.poll() is None and time.monotonic() < deadline:
                    if "Timed out waiting for nova-conductor" in self.log:
                        break
                    time.sleep(0.2)
                signs = memfds(process.pid)
            finally:
                process.kill()
            return signs, self.log

    def copy_nova(self) -> Path:
        """Nova's own package in front of the shared one, file by file a link to it."""
        source = Path(sysconfig.get_path("purelib")) / "nova"
        ignore = shutil.ignore_patterns("tests", "locale")
        target = self.site / "nova"
        shutil.copytree(source, target, copy_function=os.symlink, ignore=ignore)
        return target

    def change(self, path: str, old: str, new: str) -> None:
        """One file of :meth:`copy_nova` becomes another."""
        target = self.site / path
        text = target.read_text()
        assert old in text
        target.unlink()
        for bytecode in (target.parent / "__pycache__").glob(f"{target.stem}.*"):
            bytecode.unlink()
        target.write_text(text.replace(old, new, 1))

    def pretend(self, version: str) -> None:
        """The metadata of another release in front of the real one."""
        directory = self.site / f"nova-{version}.dist-info"
        directory.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: nova\nVersion: {version}\n"
        (directory / "METADATA").write_text(metadata)


def memfds(pid: int) -> set[str]:
    """The memfds that a process holds open."""
    found = set()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(path)
        except OSError:
            continue
        if target.startswith("/memfd:"):
            found.add(target)
    return found


def _environ() -> dict[str, str]:
    # As an operator's: nothing of ours is on the path, and Nova chooses its own threads.
    drop = ("PYTHONPATH", "OS_NOVA_DISABLE_EVENTLET_PATCHING", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if name not in drop}
    return kept | {"PATH": f"{Path(sys.executable).parent}:{kept['PATH']}"}
