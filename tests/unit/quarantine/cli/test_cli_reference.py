"""docs/cli.md has every command with all of its arguments, as the classes have them."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from quarantine.cli import reference
from quarantine.cli.app import COMMANDS, Commands, Shell

GUIDE = Path(__file__).parents[4] / "docs" / "cli.md"


def section(name: str) -> str:
    """What the guide has of a command."""
    _before, found, rest = reference.table().partition(f"### `nvme-quarantine {name}`\n")
    assert found, name
    return re.split(r"^##", rest, maxsplit=1, flags=re.MULTILINE)[0]


def test_the_guide_is_current() -> None:
    assert f"-->\n{reference.table()}\n<!-- /cli -->" in GUIDE.read_text(), "run: tools/samples"


def test_each_command_once() -> None:
    found = re.findall(r"^### `nvme-quarantine ([^`]+)`$", reference.table(), re.MULTILINE)
    assert found == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_all_arguments_of_a_command(name: str) -> None:
    """By the parser that a person's words go through, but for what cliff adds."""
    made, _name, _rest = Commands().find_command(name.split())
    command = made(Shell(), argparse.Namespace(config_file=[]), cmd_name=name)
    said = section(name)
    formats = ("formatters", "formatter")
    for action in command.get_parser(name)._actions:
        title = str(getattr(action.container, "title", "") or "").lower()
        if action.dest == "help" or any(title.endswith(word) for word in formats):
            continue
        for option in action.option_strings:
            assert re.search(rf"^\| `[^|]*{re.escape(option)}\b", said, re.MULTILINE), option
    assert all(line.strip() for line in said.splitlines()[:1]), "it says what it is for"
    for line in said.splitlines():
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) == 3, line


def test_what_excludes_what_and_what_is_needed() -> None:
    said = section("maintenance set")
    assert "| `HOST\\|SLOT` |" in said
    assert "not with `--until`; one of them is needed" in said
    assert re.search(r"`--reason REASON` \| .*; needed \|", said)
