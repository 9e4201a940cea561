"""The cache of built things: complete or absent, built once, keyed by content."""

import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.lab.errors import BuildError
from tests.lab.guest.cache import CACHE_VARIABLE, Cache, default_root, digest, digest_files


def test_an_entry_is_built_once_by_parallel_builders(tmp_path: Path) -> None:
    built: list[Path] = []
    start = threading.Barrier(4)
    results: list[Path] = []

    def build(part: Path) -> None:
        built.append(part)
        time.sleep(0.1)
        (part / "file").write_text("whole")

    def ask() -> None:
        # A cache object of its own, as another process would have.
        cache = Cache(tmp_path)
        start.wait()
        results.append(cache.entry("thing", "key", build))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(built) == 1
    assert results == [tmp_path / "thing-key"] * 4
    assert (tmp_path / "thing-key" / "file").read_text() == "whole"


def test_a_failed_build_leaves_nothing_and_may_be_tried_again(tmp_path: Path) -> None:
    cache = Cache(tmp_path)

    def fail(part: Path) -> None:
        (part / "half").touch()
        raise BuildError("the mirror is away")

    with pytest.raises(BuildError, match="the mirror is away"):
        cache.entry("thing", "key", fail)
    assert [path.name for path in tmp_path.iterdir()] == ["locks"]

    assert list(cache.entry("thing", "key", lambda part: None).iterdir()) == []


def test_an_entry_is_not_visible_before_it_is_complete(tmp_path: Path) -> None:
    seen: list[bool] = []
    Cache(tmp_path).entry(
        "thing", "key", lambda part: seen.append((tmp_path / "thing-key").exists())
    )

    assert seen == [False]


def test_only_what_was_not_used_for_long_is_removed(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for key in ("old", "used"):
        long_ago = time.time() - 30 * 24 * 3600
        os.utime(cache.entry("thing", key, lambda part: None), (long_ago, long_ago))
    cache.entry("thing", "used", lambda part: None)
    cache.entry("thing", "new", lambda part: None)

    assert {path.name for path in tmp_path.glob("thing-*")} == {"thing-used", "thing-new"}


def test_the_directory_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    assert default_root() == tmp_path
    monkeypatch.delenv(CACHE_VARIABLE)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert default_root() == Path("/home/somebody/.cache/nvme-quarantine")


def test_a_digest_tells_the_borders_of_its_parts() -> None:
    assert digest(["ab", "c"]) != digest(["a", "bc"])
    assert digest(["ab"]) == digest([b"ab"])


def test_a_digest_of_files_follows_name_content_and_mode(tmp_path: Path) -> None:
    name = Path("script")
    (tmp_path / name).write_text("one")
    before = digest_files(tmp_path, [name])
    (tmp_path / name).chmod(0o755)
    executable = digest_files(tmp_path, [name])
    (tmp_path / name).write_text("two")
    changed = digest_files(tmp_path, [name])
    (tmp_path / name).rename(tmp_path / "other")
    renamed = digest_files(tmp_path, [Path("other")])

    assert len({before, executable, changed, renamed}) == 4


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"XDG_CACHE_HOME": "/elsewhere"},
        {"XDG_CACHE_HOME": ""},
        {"XDG_CACHE_HOME": "/elsewhere", "NVME_QUARANTINE_CACHE": "/named"},
    ],
)
def test_tools_and_tests_have_one_cache(
    given: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_CACHE_HOME", "NVME_QUARANTINE_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    lib = Path(__file__).parents[3] / "tools" / "lib.sh"
    script = f'. "{lib}" && printf %s "$cache"'
    said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert str(default_root()) == said.stdout
