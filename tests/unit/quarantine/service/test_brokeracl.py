"""The accounts of the broker, as text: tests/services/test_broker_acl.py asks a real Redis."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from quarantine.errors import BadInputError
from quarantine.service.issue import brokeracl


def test_one_line_for_each_and_no_password_in_it(tmp_path: Path) -> None:
    file = tmp_path / "passwords.json"
    known = brokeracl.passwords(file, ["cmp1", "cmp2"])
    text = brokeracl.render(["cmp1", "cmp2"], known)
    names = [line.split()[1] for line in text.splitlines()]
    assert names == ["default", "admin", "nvme-quarantine", "cmp1", "cmp2"]
    assert all(hashlib.sha256(word.encode()).hexdigest() in text for word in known.values())
    assert not any(word in text for word in known.values())
    assert "HOST" not in text
    assert "{" not in text
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_password_is_made_once(tmp_path: Path) -> None:
    file = tmp_path / "passwords.json"
    first = brokeracl.passwords(file, ["cmp1"])
    more = brokeracl.passwords(file, ["cmp2"])
    assert more.items() >= first.items()
    assert len(set(more.values())) == 4
    assert brokeracl.passwords(file, []) == more


@pytest.mark.parametrize("host", ["admin", "default", "nvme-quarantine", "a b", "a*", ""])
def test_a_name_that_is_no_hosts_is_refused(host: str) -> None:
    with pytest.raises(BadInputError, match="host"):
        brokeracl.render([host], {})


@pytest.mark.parametrize("text", ["not json", "[]", '{"admin": 7}', '{"admin": ""}'])
def test_a_file_of_something_else_is_left_alone(tmp_path: Path, text: str) -> None:
    file = tmp_path / "passwords.json"
    file.write_text(text)
    with pytest.raises(BadInputError, match="passwords"):
        brokeracl.passwords(file, [])
    assert file.read_text() == text


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="passwords"):
        brokeracl.passwords(tmp_path / "nowhere" / "passwords.json", [])
