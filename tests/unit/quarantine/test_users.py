"""Who acts is the kernel's word; the environment's is anybody's."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from quarantine import users

NAMES = {0: "root", 1000: "alice"}


@pytest.fixture
def login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The kernel's file."""

    def named(uid: int) -> SimpleNamespace:
        return SimpleNamespace(pw_name=NAMES[uid])

    monkeypatch.setattr(pwd, "getpwuid", named)
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME", "SUDO_USER"):
        monkeypatch.setenv(variable, "mallory")
    monkeypatch.setattr(users, "_LOGIN", tmp_path / "loginuid")
    monkeypatch.setattr(users, "_NUMBERS", tmp_path / "uid_map")
    return tmp_path / "loginuid"


@pytest.mark.parametrize(
    ("said", "user", "who"),
    [
        ("1000", 1000, "alice"),
        ("1000", 0, "alice as root"),
        ("1000", 997, "alice as uid 997"),
        ("1234", 0, "uid 1234 as root"),
        ("0", 0, "root"),
        ("4294967295", 0, "root"),
        ("4294967295", 1000, "alice"),
        ("", 1000, "alice"),
        (None, 997, "uid 997"),
    ],
)
def test_who_acts(
    login: Path, monkeypatch: pytest.MonkeyPatch, said: str | None, user: int, who: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    if said is not None:
        login.write_text(said)
    assert users.who() == who


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        (" 0 0 4294967295\n", "root"),
        (" 0 1000 1\n", "root (in a user namespace)"),
        (" 0 100000 65536\n 65536 0 1\n", "root (in a user namespace)"),
        (None, "root"),
    ],
)
def test_who_gave_himself_another_number_is_said_to(
    login: Path, monkeypatch: pytest.MonkeyPatch, numbers: str | None, said: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    if numbers is not None:
        login.with_name("uid_map").write_text(numbers)
    assert users.who() == said
