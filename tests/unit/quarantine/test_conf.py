"""The options: every module listed, every mistake one line, the sample file current."""

from __future__ import annotations

import pkgutil
from pathlib import Path

import pytest
from oslo_config import cfg

import quarantine.conf
from quarantine.conf import list_opts, load, opts, register_opts
from quarantine.errors import BadInputError

ROOT = Path(__file__).parents[3]
SAMPLE = ROOT / "docs" / "samples" / "nvme-quarantine.conf.sample"


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode("latin-1"))
    return path


def test_every_module_is_a_group_of_its_name() -> None:
    modules = {found.name for found in pkgutil.iter_modules(quarantine.conf.__path__)} - {"opts"}
    assert {group.name for group, _ in list_opts()} == modules


def test_a_module_without_its_options_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "forgetful.py", "OPTIONS = []\n")
    monkeypatch.setattr(quarantine.conf, "__path__", [*quarantine.conf.__path__, str(tmp_path)])
    with pytest.raises(RuntimeError, match=r"forgetful: expected list_opts"):
        list_opts()


@pytest.mark.parametrize("is_default", [True, False])
def test_a_file_that_cannot_be_looked_for_is_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_default: bool
) -> None:
    """As the default one for a user who may not look into its directory; a name that is too long is
    refused by the same call, whoever asks. The defaults do not take its place."""
    file = tmp_path / ("x" * 300)
    monkeypatch.setattr(opts, "DEFAULT_FILE", file)
    with pytest.raises(BadInputError, match=r"expected a file to read at .*xxx: File name too"):
        load([] if is_default else [file])


def test_two_configurations_know_nothing_of_each_other(tmp_path: Path) -> None:
    one = load([write(tmp_path / "one", "[erase]\nmax_attempts = 3\n")])
    two = load([write(tmp_path / "two", "[erase]\nmax_attempts = 4\n")])
    assert (one.erase.max_attempts, two.erase.max_attempts) == (3, 4)
    one.set_override("max_attempts", 7, group="erase")
    assert two.erase.max_attempts == 4
    assert load([tmp_path / "one"]).erase.max_attempts == 3
    bare = cfg.ConfigOpts()
    register_opts(bare)
    bare([])
    assert bare.erase.max_attempts == 5


def test_later_files_win_and_the_environment_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OS_ERASE__MAX_ATTEMPTS", "9")
    one = write(tmp_path / "one", "[erase]\nmax_attempts = 3\n[run]\nworker = no\n")
    two = write(tmp_path / "two", "[erase]\nmax_attempts = 4\n")
    conf = load([one, str(two)])
    assert conf.erase.max_attempts == 4
    assert conf.run.worker is False


def test_without_a_file_the_default_one_is_read_if_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opts, "DEFAULT_FILE", tmp_path / "default.conf")
    assert load().placement.cloud == "nvme-quarantine"
    write(tmp_path / "default.conf", "[placement]\ncloud = mine\n")
    assert load().placement.cloud == "mine"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[erase]\nmax_attempts = many\n", r"\[erase\]max_attempts.*'many'"),
        ("[erase]\nmax_attempts = 0\n", r"\[erase\]max_attempts.*greater than or equal to 1"),
        ("[erase]\nmax_attemps = 3\n", r"option of \[erase\].*found max_attemps"),
        ("[eraser]\nmax_attempts = 3\n", r"one of the groups.*found \[eraser\]"),
        ("[DEFAULT]\nmax_attempts = 3\n", r"one of the groups.*found \[DEFAULT\]"),
        ("max_attempts = 3\n", r"Section must be started"),
        ("[erase\n", r"Invalid section"),
        ("certainly not\n", r"certainly not"),
        ("\xff\xfe\x00", r"decode"),
        ("[run]\nlog_level = LOUD\n", r"\[run\]log_level.*LOUD"),
        ("[run]\nworker = perhaps\n", r"\[run\]worker.*perhaps"),
        ("[detection]\nsweep_interval = nan\n", r"number of seconds.*nan"),
        ("[detection]\nsweep_interval = 300\n", r"sweep_interval of at most in_use_reread"),
        ("[erase]\norder_seconds = 100\n", r"resend_after below order_seconds"),
    ],
)
def test_a_bad_file_is_one_line_that_names_it(tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path / "bad.conf", text)
    with pytest.raises(BadInputError, match=said) as raised:
        load([path])
    assert "\n" not in str(raised.value)
    assert str(path) in str(raised.value)


def test_a_missing_or_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"expected a file at .*nowhere"):
        load([tmp_path / "nowhere"])
    with pytest.raises(BadInputError, match=r"expected a file at"):
        load([tmp_path])


def test_every_help_says_when_to_change_it() -> None:
    for group, options in list_opts():
        assert group.help
        for option in options:
            name = f"[{group.name}]{option.name}"
            assert option.help, name
            assert any(
                word in option.help
                for word in (
                    "When to change",
                    "When to set",
                    "When to lower",
                    "When to raise",
                    "When to switch",
                )
            ), name


def test_what_holds_a_password_is_secret() -> None:
    secret = {
        f"{group.name}.{option.name}"
        for group, options in list_opts()
        for option in options
        if option.secret
    }
    assert secret == {"database.url", "broker.url"}


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "amqp://host//",
        "redis://:s3cret@host:99999/0",
        "redis://:s3cret@host:port/0",
        "redis://:s3cret@host/database",
        "redis:///0",
    ],
)
def test_a_broker_that_is_none_is_found_at_once_and_not_shown(tmp_path: Path, url: str) -> None:
    file = tmp_path / "x.conf"
    file.write_text(f"[broker]\nurl = {url}\n")
    with pytest.raises(BadInputError, match=r"\[broker\]url") as caught:
        load([file])
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["redis://h", "rediss://u:p@h:6380/1?ssl_cert_reqs=required", "redis+socket:///run/redis.sock"],
)
def test_a_broker(tmp_path: Path, url: str) -> None:
    file = tmp_path / "x.conf"
    file.write_text(f"[broker]\nurl = {url}\n")
    assert load([file]).broker.url == url


def test_the_sample_is_a_valid_file(tmp_path: Path) -> None:
    text = SAMPLE.read_text()
    assert load([write(tmp_path / "as-is", text)]).erase.policy == "purge"
    # And with every default spelled out.
    spelled = "\n".join(
        line[1:]
        if line.startswith("#") and not line.startswith("# ") and "<None>" not in line
        else line
        for line in text.splitlines()
        if line.strip("#")
    )
    assert load([write(tmp_path / "spelled", spelled)]).erase.policy == "purge"


def test_the_group_of_the_listener_that_is_gone_keeps_no_program_from_starting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "x.conf"
    file.write_text("[notifications]\ntransport_url = rabbit://nova:s3cret@bus:5672/\n")
    assert load([file]).erase.policy == "purge"
    assert "[notifications] is gone" in caplog.text
    assert "stop and remove nvme-quarantine-listener" in caplog.text
    assert "s3cret" not in caplog.text
