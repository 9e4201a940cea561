"""The worker's options: every mistake is one line, the sample is a valid file."""

from __future__ import annotations

from pathlib import Path

import pytest

from eraser.agent import conf
from eraser.agent.admission import StartQueue
from eraser.errors import BadInputError

SAMPLE = Path(__file__).parents[3] / "docs" / "samples" / "nvme-eraser-worker.conf.sample"


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode("latin-1"))
    return path


def test_the_sample_says_the_defaults() -> None:
    assert conf.load([SAMPLE]) == conf.load([])


def test_a_later_file_wins(tmp_path: Path) -> None:
    first = write(tmp_path / "a", "[worker]\nmax_running = 2\nhello_interval = 7\n")
    second = write(tmp_path / "b", "[worker]\nmax_running = 3\n")
    settings = conf.load([first, second])
    assert (settings.max_running, settings.hello_interval) == (3, 7.0)


@pytest.mark.parametrize(
    "text",
    [
        "[worker\n",
        "[worker]\nmax_running = many\n",
        "[worker]\nmax_running = 0\n",
        "[worker]\nhello_interval = nan\n",
        "[worker]\nbrokr = redis://x\n",
        "[wroker]\nbroker = redis://x\n",
        "no section at all\n",
        "[worker]\nbroker = \xff\n",
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadInputError) as caught:
        conf.load([write(tmp_path / "worker.conf", text)])
    assert "\n" not in str(caught.value)
    assert "worker.conf" in str(caught.value)


def test_an_empty_pause_file_is_none_and_not_the_working_directory(tmp_path: Path) -> None:
    """That is always there, and no erase would ever start."""
    settings = conf.load([write(tmp_path / "worker.conf", "[worker]\npause_file =\n")])
    assert settings.pause_file is None
    assert StartQueue(1, settings.pause_file).round(0).take() == ""


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="expected a file at"):
        conf.load([tmp_path / "none.conf"])


def test_an_option_of_an_earlier_release_keeps_no_worker_from_starting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "worker.conf"
    file.write_text("[worker]\nbroker = redis://b\nthermal_pause = 70\n")
    assert conf.load([file]).broker == "redis://b"
    assert "[worker]thermal_pause is gone" in caplog.text
