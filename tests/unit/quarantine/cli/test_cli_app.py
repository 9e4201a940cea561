"""The shell around the commands: its table, its formats, what it loads, which words are gone."""

from __future__ import annotations

import argparse
import csv
import io
import json
import locale
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from cliff.app import App
from cliff.command import Command
from cliff.commandmanager import CommandManager

from eraser.protocol.identity import Slot
from quarantine.cli.app import COMMANDS, GROUP, Commands
from quarantine.cli.commands import slots
from quarantine.cli.output import Lines, plain, text
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotChanges
from quarantine.record.words.reasons import HoldCode
from quarantine.rules import holds
from tests.unit.quarantine.cli.test_cli import Cli, conf, enrolled, ready, refused, run
from tests.unit.quarantine.testimony import IDENTITY, SLOT

__all__ = ["conf", "ready", "run"]

TOP = Path(__file__).parents[4]

GONE = """
slots show reconcile release hold retire enrol keygen public-key rotate-key head flavors
refusals upgrade-check
"""
"""What people typed before: nobody may be told to type it any more."""

NAMED = re.compile(r"(?<![/\w.-])nvme-quarantine[\s#]+([a-z][a-z-]*)(?:[\s#]+([a-z][a-z-]+))?")
"""A command in a text of ours, wherever a line ends in it."""

TEXTS = ("*.py", "*.md", "*.conf", "*.acl", "*.html", "*.sample", "*.service", "*.yml", "*.sh")
NO_COMMAND = {"patch", "authors", "listener"}


def ours() -> Iterator[tuple[str, str]]:
    """Every text of the repository but the notes of what was."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *TEXTS]
    listed = subprocess.run(argv, cwd=TOP, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        path = TOP / name
        if path.is_file() and name != "docs/release-notes.md":
            yield name, path.read_text(encoding="utf-8", errors="replace")


def test_no_text_names_a_command_that_is_none() -> None:
    """What an alarm, a hold or a page says to type, can be typed."""
    nouns = {words.partition(" ")[0] for words in COMMANDS}
    wrong = []
    for name, said in ours():
        for found in NAMED.finditer(said):
            first, second = found.groups()
            gone = first in GONE.split() and first not in NO_COMMAND
            half = first in nouns - COMMANDS.keys() and f"{first} {second}" not in COMMANDS
            if gone or half:
                wrong.append(f"{name}: {' '.join(found.group().split())}")
    assert wrong == []


@pytest.mark.parametrize("words", GONE.split())
def test_the_older_words_are_gone(
    words: str, ready: Cli, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(ready(words), 2, "expected a command")


@pytest.mark.parametrize("words", ["r", "w", "sl list", "slot rel", "k show", "db u"])
def test_half_a_word_is_no_command(words: str, ready: Cli) -> None:
    """What begins one command today begins two tomorrow, and "r" would start a second service."""
    refused(ready(*words.split()), 2, "expected a command")


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_is_what_its_words_say(words: str) -> None:
    made, name, rest = Commands().find_command(words.split())
    assert issubclass(made, Command)
    assert (name, rest) == (words, [])
    assert made.__name__ == "".join(part.title() for part in re.split("[ -]", words))
    assert made.__doc__


def test_other_shells_find_the_same_commands() -> None:
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    named = {
        name.replace("_", " "): place for name, place in project["entry-points"][GROUP].items()
    }
    assert named == {words: f"quarantine.cli.commands.{place}" for words, place in COMMANDS.items()}


def test_a_shell_of_others_runs_our_commands(ready: Cli, conf: Path) -> None:
    """As OpenStack's does: it has its own manager, and options of its own before a command."""
    enrolled(conf).close()
    said = io.StringIO()
    shell = App("a shell of others", "1", CommandManager(None), stdout=said)
    command = slots.SlotList(shell, argparse.Namespace(config_file=[conf]), "slot list")
    arguments = command.get_parser("openstack slot list").parse_args(["-f", "value", "-c", "slot"])
    assert command.run(arguments) == 0
    assert said.getvalue() == f"{SLOT}\n"


def test_no_message_depends_on_the_locale(ready: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts and tests read what the system says of a file, and libraries of ours read numbers."""
    taken: list[object] = []
    monkeypatch.setattr(locale, "setlocale", lambda *what: taken.append(what))
    assert ready("slot", "list")[0] == 0
    assert taken == []


def test_help_is_given_in_three_ways(ready: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _err = ready("help", "slot", "hold")
    assert (code, "--reason" in out) == (0, True)
    with pytest.raises(SystemExit) as ended:
        ready("slot", "hold", "--help")
    assert not ended.value.code
    assert capsys.readouterr().out == out
    assert "slot hold" in ready("help", "slo")[1]
    refused(ready("help", "frobnicate"), 2, "frobnicate")


def test_a_listing_loads_no_cloud_and_no_broker(ready: Cli, conf: Path) -> None:
    code = (
        "import sys; from quarantine import cli; "
        f"assert cli.main(['--config-file', {str(conf)!r}, 'slot', 'list']) == 0; "
        "heavy = {'celery', 'kombu', 'redis', 'openstack', 'keystoneauth1', 'cmd2'}; "
        "found = heavy & sys.modules.keys(); sys.exit(f'loaded: {sorted(found)}' if found else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=TOP, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-"])
def test_without_a_standard_output_it_ends_without_a_word(
    ready: Cli, conf: Path, closed: str
) -> None:
    """As a service manager may run it. A reader that went away (``head -1``) has its test below."""
    enrolled(conf).close()
    argv = ["bash", "-c", f'"$@" {closed}', "bash", sys.executable, "-m", "quarantine.cli"]
    argv += ["--config-file", str(conf), "slot", "list"]
    done = subprocess.run(argv, cwd=TOP, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def typed(conf: Path, words: tuple[str, ...], behind: str) -> subprocess.CompletedProcess[str]:
    """A command in a shell's line."""
    argv = ["bash", "-c", f'"$@" {behind}', "bash", sys.executable, "-m", "quarantine.cli"]
    argv += ["--config-file", str(conf), *words]
    # Unbuffered, as some environments have it, nothing is left to be written at the end.
    environ = {name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(argv, cwd=TOP, env=environ, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", [("slot", "list", "-f", "json"), ("--help",)])
def test_a_disk_that_is_full_is_one_line(ready: Cli, conf: Path, words: tuple[str, ...]) -> None:
    """Also of a list that is longer than what is written in one."""
    store = enrolled(conf)
    for number in range(40):
        store.enrol(
            Slot(f"host{number}", "0000:81:00.0"),
            provider=f"p{number}", resource_class="C", in_use=False, profile="x", policy="purge",
        )  # fmt: skip
    store.close()
    done = typed(conf, words, ">/dev/full")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    assert "No space left on device" in done.stderr


CALLING = """
import sys
from quarantine import cli
from quarantine.cli.commands.slots import SlotReconcile
from quarantine.record.words.reasons import AlarmCode
from quarantine.rules.alarmbook import SlotInState, alarm

SLOT = "cmp1/0000:01:00.0"
CALLS = {
    "held": ((SLOT, AlarmCode.HELD, "its host wrote \\033[2J"),),
    "lasting": (
        ("Placement", AlarmCode.LISTING_DOUBTED, "it shows nothing"),
        ("campaign fw1", AlarmCode.RECORD_UNREADABLE, "it does nothing more"),
        ("keys", AlarmCode.KEY_UNREADABLE, "no such file"),
        (SlotInState(SLOT, "released"), AlarmCode.RECORD_UNREADABLE, "its host's row"),
    ),
}

def run(self, parsed_args):
    for call in CALLS[parsed_args.host]:
        alarm(*call)
    return 0

SlotReconcile.run = run
sys.exit(cli.main(sys.argv[1:]))
"""
"""An act of people that calls people: a process of its own, for pytest sets up logging."""


def called(conf: Path, which: str = "held") -> list[str]:
    """What such a command writes to the terminal."""
    argv = [sys.executable, "-c", CALLING, "--config-file", str(conf), "slot"]
    argv += ["reconcile", "--host", which]
    done = subprocess.run(argv, cwd=TOP, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    return done.stderr.splitlines()


def test_whom_a_command_calls_is_seen_where_it_was_typed(ready: Cli, conf: Path) -> None:
    """Counting it must not hide it; and what a host wrote moves no cursor."""
    assert called(conf) == ["ALARM held cmp1/0000:01:00.0: its host wrote \\x1b[2J"]
    with closing(Store.open(f"sqlite:///{conf.parent}/record.db")) as store:
        assert store.alarm_totals() == {"held": 1}


def test_what_no_process_would_say_the_end_of_is_shown_and_not_counted(
    ready: Cli, conf: Path
) -> None:
    """The command ends with its memory, and the service calls people for it by itself. What stands
    on the slot's record the service ends, and calls nobody for."""
    assert len(called(conf, "lasting")) == 4
    with closing(Store.open(f"sqlite:///{conf.parent}/record.db")) as store:
        lines = [(line.code, line.subject) for line in store.alarm_page(limit=9)]
    assert lines == [("record-unreadable", "cmp1/0000:01:00.0")]


def test_a_command_whose_calls_no_record_takes_says_that_they_are_lost(
    ready: Cli, conf: Path
) -> None:
    """It ends, and counts nothing later."""
    (conf.parent / "record.db").unlink()
    told = called(conf)
    assert sum(line.startswith("ALARM held cmp1/0000:01:00.0: ") for line in told) == 1
    assert any(line.startswith("alarms are not counted, and lost: ") for line in told), told
    assert not any("later" in line for line in told)


@pytest.mark.parametrize("form", ["table", "json", "yaml", "csv", "value"])
def test_what_an_encoding_does_not_have_ends_no_list(
    ready: Cli, conf: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    store = enrolled(conf)
    record = store.slot(SLOT)
    assert record is not None
    store.hold(record, holds.because(HoldCode.BY_PERSON, "größer \u4e2d"))
    store.close()
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    done = typed(conf, ("slot", "list", "-f", form, "-c", "reason"), "")
    assert (done.returncode, done.stderr) == (0, "")
    assert "u4e2d" in done.stdout.lower()


@pytest.mark.parametrize(
    ("words", "some"),
    [
        (("slot", "list", "--state", "bogus"), "'in_use', 'released'"),
        (("history", "list", "--event", "bogus"), "'held'"),
        (("alarm", "list", "--severity", "bogus"), "'critical'"),
    ],
)
def test_choices_are_named_as_they_are_typed(ready: Cli, words: tuple[str, ...], some: str) -> None:
    found = ready(*words)
    refused(found, 2, some)
    assert "<" not in found[2]


@pytest.mark.parametrize("direction", ["--sort-ascending", "--sort-descending"])
def test_an_age_is_sorted_by_time(ready: Cli, conf: Path, direction: str) -> None:
    """As text 40 seconds come after 3 hours, and 9 minutes after 10."""
    now = datetime.now(UTC)
    ages = {"a": 9 * 60, "b": 40, "c": 3 * 3600, "d": 10 * 60}
    for name, seconds in ages.items():
        then = now - timedelta(seconds=seconds)
        store = Store.open(f"sqlite:///{conf.parent}/record.db", clock=lambda then=then: then)
        store.enrol(
            Slot(name, "0000:81:00.0"),
            provider=name, resource_class="C", in_use=False, profile="x", policy="purge",
        )  # fmt: skip
        store.close()
    for form in ("table", "json", "csv", "value"):
        words = ("-f", form, "-c", "slot", "-c", "entered_at", "--sort-column", "entered_at")
        out = ready("slot", "list", *words, direction)[1]
        found = re.findall(r"([a-d])/0000:81:00.0", out)
        oldest_first = sorted(ages, key=lambda name: -ages[name])
        assert found == (oldest_first if "asc" in direction else oldest_first[::-1]), form


def test_each_format_says_the_same(ready: Cli, conf: Path) -> None:
    enrolled(conf).close()
    (one,) = json.loads(ready("slot", "list", "-f", "json")[1])
    assert all(re.fullmatch(r"[a-z_]+", name) for name in one)
    assert (one["slot"], one["state"], one["generation"]) == (str(SLOT), "quarantined", 1)
    assert (one["model"], one["serial"]) == (IDENTITY.model, IDENTITY.serial)
    assert one["identity"]["serial"] == IDENTITY.serial
    assert yaml.safe_load(ready("slot", "list", "-f", "yaml")[1]) == [one]
    (row,) = csv.DictReader(io.StringIO(ready("slot", "list", "-f", "csv")[1]))
    assert (row["slot"], row["generation"], row["order_id"]) == (str(SLOT), "1", "")
    out = ready("slot", "list", "-f", "value", "-c", "slot", "-c", "state")[1]
    assert out == f"{SLOT} quarantined\n"
    alone = json.loads(ready("slot", "show", SLOT, "-f", "json")[1])
    assert re.fullmatch(r"[0-9a-f]{32}", alone.pop("version"))
    assert alone == one
    table = ready("slot", "list")[1]
    assert "serial" in table
    assert "order_id" not in table, "what no terminal has room for is asked for by -c"
    assert "order_id" in ready("slot", "list", "-c", "order_id")[1]
    refused(ready("slot", "list", "-c", "colour"), 2, "colour")


def test_no_format_lets_a_drive_move_the_cursor(ready: Cli, conf: Path) -> None:
    store = enrolled(conf)
    evil = replace(IDENTITY, serial="\x1b[2J\n\u202ex", model="\x9b2J")
    store.amend(store.slots()[0], SlotChanges(identity=evil))
    store.close()
    for form in ("table", "json", "yaml", "csv", "value"):
        for words in (("slot", "list"), ("slot", "show", SLOT)):
            if (form, words[1]) != ("csv", "show"):
                code, out, _err = ready(*words, "-f", form)
                assert code == 0
                assert all(line.isprintable() for line in out.splitlines()), form
                assert "2J" in out


@pytest.mark.parametrize("serial", ["=cmd|'/C calc'!A0", "+1+1", "-2", "@SUM(1)"])
def test_a_drive_is_no_formula_in_a_spreadsheet(ready: Cli, conf: Path, serial: str) -> None:
    store = enrolled(conf)
    store.amend(store.slots()[0], SlotChanges(identity=replace(IDENTITY, serial=serial)))
    store.close()
    (row,) = csv.DictReader(io.StringIO(ready("slot", "list", "-f", "csv")[1]))
    assert row["serial"] == f"'{serial}"
    assert json.loads(ready("slot", "list", "-f", "json")[1])[0]["serial"] == serial


def test_a_drive_has_no_word_in_a_shell(ready: Cli, conf: Path) -> None:
    """What cliff writes for a shell to evaluate, lets the shell run what a drive is called."""
    enrolled(conf).close()
    refused(ready("slot", "show", SLOT, "-f", "shell"), 2, "invalid choice: 'shell'")
    assert "shell" not in ready("complete", "--shell", "none")[1].replace("--shell", "")


def test_a_watcher_sees_changes_and_nothing_else(
    ready: Cli, conf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = enrolled(conf)
    naps: list[float] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 2:
            store.amend(store.slots()[0], SlotChanges(alarm="smoke"))
        if len(naps) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(slots.time, "sleep", sleep)
    code, out, _err = ready("slot", "list", "--watch", "-f", "value", "-c", "slot", "-c", "remarks")
    assert (code, out) == (130, f"{SLOT} \n{SLOT} ALARM: smoke\n")


def test_completion_knows_every_command(ready: Cli) -> None:
    code, out, _err = ready("complete", "--name", "nvme-quarantine")
    assert code == 0
    assert "complete -F _nvme_quarantine nvme-quarantine" in out
    for words in COMMANDS:
        *_, last = words.split()
        assert last in out
    assert "--new-drive" in out


def test_a_shell_completes_what_is_typed(ready: Cli, tmp_path: Path) -> None:
    """As bash does it; of its own helpers the script needs one."""
    script = tmp_path / "completion"
    script.write_text(ready("complete", "--name", "nvme-quarantine")[1])
    code = (
        "_get_comp_words_by_ref() { words=(${COMP_WORDS[@]}); cur=${words[COMP_CWORD]}; }; "
        '. "$0"; COMP_WORDS=($1); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _nvme_quarantine; '
        'echo "${COMPREPLY[@]}"'
    )
    for line, expected in (
        ("slot h", {"held", "history", "hold"}),
        ("certificate s", {"save", "show"}),
        ("slot hold --s", {"--seen"}),
    ):
        argv = ["bash", "-c", code, str(script), f"nvme-quarantine {line}"]
        done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
        assert set(done.stdout.split()) == expected


def test_a_reader_that_went_away_is_worth_no_word(conf: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "quarantine.cli", "upgrade", "check", "list"],
        cwd=TOP,
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize(("words", "behind", "code"), [
    (("slot", "list", "--limit", "none"), "2>/dev/full", 2),
    (("slot", "list", "--limit", "none"), "2> >(true)", 2),
    (("slot", "list"), ">/dev/full 2>/dev/full", 1),
])  # fmt: skip
def test_an_error_that_nobody_reads_ends_with_its_code(
    ready: Cli, conf: Path, words: tuple[str, ...], behind: str, code: int
) -> None:
    assert typed(conf, words, behind).returncode == code


def test_values_as_people_and_machines_have_them() -> None:
    assert plain({"a": (SLOT, Path("/x"))}) == {"a": [str(SLOT), "/x"]}
    assert [text(value) for value in (None, True, 3, 0.5, "a\nb")] == ["", True, 3, 0.5, "a\\x0ab"]
    assert text(("a", "b\x1b")) == "a\nb\\x1b"
    assert text(Lines("a\nb\x1b")) == "a\nb\\x1b"
    assert text(SLOT) == str(SLOT)
    assert json.loads(str(text({"a": 1}))) == {"a": 1}
