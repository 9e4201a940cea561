"""A worker whose unit is too small for its drives does not start."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from eraser import cli
from eraser.agent import memory
from eraser.cli import worker as cli_worker
from eraser.errors import BadInputError
from eraser.host.sysfs import Host

TOP = Path(__file__).parents[3]


def put(root: Path, absolute: str, text: str) -> None:
    path = root / absolute.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


V2 = "/sys/fs/cgroup/system.slice/nvme-eraser-worker.service/memory.max"
V1_TOP = "/sys/fs/cgroup/memory/memory.limit_in_bytes"
V1 = "/sys/fs/cgroup/memory/system.slice/memory.limit_in_bytes"


@pytest.mark.parametrize(
    ("groups", "files", "limit"),
    [
        ("0::/system.slice/nvme-eraser-worker.service\n", {V2: "872415232\n"}, 832),
        ("0::/system.slice/nvme-eraser-worker.service\n", {V2: "max\n"}, None),
        (
            "0::/system.slice/nvme-eraser-worker.service\n",
            {V2: "872415232\n", "/sys/fs/cgroup/system.slice/memory.max": "104857600\n"},
            100,
        ),
        (
            "9:name=systemd:/\n4:memory:/system.slice/nvme-eraser-worker.service\n0::/\n",
            {
                V1: "536870912\n",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
            },
            512,
        ),
        ("0::/\n", {}, None),
        ("nonsense\n", {}, None),
        (None, {}, None),
    ],
)
def test_the_least_limit_of_all_groups_around_us_counts(
    tmp_path: Path, groups: str | None, files: dict[str, str], limit: int | None
) -> None:
    if groups is not None:
        put(tmp_path, "/proc/self/cgroup", groups)
    for path, text in files.items():
        put(tmp_path, path, text)
    assert memory.limit(Host(tmp_path)) == (None if limit is None else limit * memory.MIB)


def test_a_unit_that_is_too_small_is_refused_in_a_line(tmp_path: Path) -> None:
    put(tmp_path, "/proc/self/cgroup", "0::/unit\n")
    put(tmp_path, "/sys/fs/cgroup/unit/memory.max", f"{832 * memory.MIB}")
    memory.check(Host(tmp_path), 24)
    with pytest.raises(BadInputError) as found:
        memory.check(Host(tmp_path), 25)
    assert str(found.value) == (
        "expected 864 MiB of memory for max_running = 25 (64 + 32 each), found that the unit may "
        "have 832 MiB: raise MemoryMax= (systemctl edit nvme-eraser-worker), or lower "
        "[worker]max_running"
    )
    memory.check(Host(tmp_path / "elsewhere"), 256)


def test_the_worker_asks_before_it_does_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(memory, "limit", lambda _host: 100 * memory.MIB)
    config = tmp_path / "worker.conf"
    config.write_text(f"[worker]\nstate_dir = {tmp_path}/none\n")
    assert cli.main(["worker", "--config-file", str(config)]) == BadInputError.exit_code
    assert "expected 320 MiB of memory for max_running = 8" in capsys.readouterr().err


def test_a_worker_in_a_container_that_does_not_see_the_host_does_not_start(tmp_path: Path) -> None:
    config = tmp_path / "worker.conf"
    config.write_text(f"[worker]\nstate_dir = {tmp_path}/none\n")
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").symlink_to("pid:[4026532281]")
    with pytest.raises(BadInputError) as found:
        cli_worker.serve([config], Host(tmp_path))
    assert str(found.value) == (
        "the worker does not start: expected to see every process of this host (/proc/self/ns/pid "
        "is pid:[4026531836]), found pid:[4026532281]: a container needs the host's PID namespace "
        "(--pid=host)"
    )


def test_the_unit_as_it_is_shipped_is_for_24_drives() -> None:
    unit = (TOP / "docs/samples/nvme-eraser-worker.service").read_text()
    (size,) = re.findall(r"^MemoryMax=(\d+)M$", unit, re.MULTILINE)
    assert int(size) * memory.MIB == memory.needed(24)
