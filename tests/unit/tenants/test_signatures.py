"""What blkid, wipefs and mdadm say, as Debian 12's printed it, and what is made of it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from nvme_raid import command, look
from nvme_raid.command import Completed
from nvme_raid.errors import RaidError

NOTHING = Completed(2, "", "")
NO_MEMBER = Completed(1, "", "mdadm: No md superblock detected on /dev/x.\n")
MEMBER = Completed(0, "MD_LEVEL=raid1\nMD_DEVICES=1\nMD_NAME=tenant:db\nMD_UUID=1:2:3:4\n", "")


def blkid(**tags: str) -> Completed:
    """blkid -p -o export."""
    return Completed(0, "".join(f"{key}={value}\n" for key, value in tags.items()), "")


def wipefs(*types: str) -> Completed:
    """wipefs --json; nothing at all where there is nothing."""
    entries = [{"device": "x", "offset": "0x0", "type": kind, "uuid": None} for kind in types]
    return Completed(0, json.dumps({"signatures": entries}) if entries else "", "")


@pytest.mark.parametrize(
    ("said", "known", "found"),
    [
        ((NOTHING, wipefs(), NO_MEMBER), set(), ()),
        ((blkid(TYPE="ext4"), wipefs("ext4"), NO_MEMBER), set(), ("ext4",)),
        (
            (blkid(PTTYPE="gpt"), wipefs("gpt", "gpt", "PMBR"), NO_MEMBER),
            set(),
            ("a PMBR partition table", "a gpt partition table"),
        ),
        ((blkid(PTTYPE="dos"), wipefs("dos"), NO_MEMBER), set(), ("a dos partition table",)),
        ((blkid(TYPE="crypto_LUKS"), wipefs("crypto_LUKS"), NO_MEMBER), set(), ("crypto_LUKS",)),
        # Each of the three is believed alone.
        ((NOTHING, wipefs("zfs_member"), NO_MEMBER), set(), ("zfs_member",)),
        ((blkid(TYPE="swap"), wipefs(), NO_MEMBER), set(), ("swap",)),
        ((NOTHING, wipefs(), MEMBER), set(), ("an md superblock",)),
        (
            (Completed(8, "", ""), wipefs("ext4", "xfs"), NO_MEMBER),
            {"xfs"},
            ("ext4", "more than one signature (blkid)"),
        ),
        ((blkid(TYPE="xfs"), wipefs("xfs"), NO_MEMBER), {"xfs"}, ()),
        (
            (blkid(TYPE="linux_raid_member"), wipefs("linux_raid_member"), MEMBER),
            {"linux_raid_member", "an md superblock"},
            (),
        ),
    ],
)
def test_all_that_is_recognised_is_told(
    monkeypatch: pytest.MonkeyPatch,
    said: tuple[Completed, Completed, Completed],
    known: set[str],
    found: tuple[str, ...],
) -> None:
    answers = dict(zip(("blkid", "wipefs", "mdadm"), said, strict=True))

    def answer(argv: Sequence[str], *, seconds: float = 0) -> Completed:
        return answers[argv[0]]

    monkeypatch.setattr(command, "run", answer)

    assert look._signatures("/dev/x", known) == found


@pytest.mark.parametrize("program", ["blkid", "wipefs"])
def test_a_tool_that_fails_is_no_free_drive(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    answers = {
        "blkid": NOTHING,
        "wipefs": wipefs(),
        "mdadm": NO_MEMBER,
        program: Completed(4, "", ""),
    }
    monkeypatch.setattr(command, "run", lambda argv, **_: answers[argv[0]])

    with pytest.raises(RaidError, match=program):
        look._signatures("/dev/x", set())


def test_a_program_that_is_not_there_or_hangs_is_named() -> None:
    with pytest.raises(RaidError, match="expected to run no-such-program, found No such file"):
        command.run(["no-such-program"])
    with pytest.raises(RaidError, match=r"to end in 0\.1 s"):
        command.run(["sleep", "5"], seconds=0.1)
    with pytest.raises(RaidError, match="ended with 1"):
        command.must(["false"])


def test_what_a_program_that_hangs_has_started_is_ended_with_it(tmp_path: Path) -> None:
    script = f"sleep 300 & echo $! > {tmp_path}/pid; wait"
    begun = time.monotonic()
    with pytest.raises(RaidError, match="killed it"):
        command.run(["sh", "-c", script], seconds=1)
    # Its child had the pipes: with it alive they would have been read for five minutes.
    assert time.monotonic() - begun < 60
    pid = int((tmp_path / "pid").read_text())
    until = time.monotonic() + 30
    while Path(f"/proc/{pid}/exe").exists() and time.monotonic() < until:
        time.sleep(0.1)
    assert not Path(f"/proc/{pid}/exe").exists()
