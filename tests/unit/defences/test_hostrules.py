"""The rules: exact, written once, merged with what an operator has, and missed when gone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from eraser.defences import hostrules
from eraser.errors import BadInputError, EraserError

MDADM_CONF = "/etc/mdadm/mdadm.conf"
SLOTS = ["0000:01:00.0", "0000:81:00.0"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for directory in ("etc/lvm", "etc/mdadm", "etc/multipath", "usr/sbin", "run"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "usr/sbin/update-initramfs").touch()
    (tmp_path / "etc/mdadm/mdadm.conf").write_text("HOMEHOST <system>\nARRAY /dev/md0 UUID=a:b\n")
    (tmp_path / "etc/lvm/lvmlocal.conf").write_text("local {\n}\n")
    return tmp_path


def after(root: Path, path: str) -> str:
    return next(c.after for c in hostrules.plan(SLOTS, root) if c.path == path)


def test_a_strict_umask_takes_nothing_from_a_files_mode(root: Path) -> None:
    """What is not root's reads them too: mdadm and LVM show their state to anybody."""
    person = root / "etc/lvm/lvmlocal.conf"
    person.chmod(0o664)
    before = os.umask(0o077)
    try:
        hostrules.apply(hostrules.plan(SLOTS, root))
    finally:
        os.umask(before)
    assert person.stat().st_mode & 0o777 == 0o664
    assert (root / "etc/udev/rules.d/10-nvme-quarantine.rules").stat().st_mode & 0o777 == 0o644


def test_written_once_and_then_in_place(root: Path) -> None:
    changes = hostrules.plan(SLOTS, root)
    assert len(hostrules.check(SLOTS, root)) == 4
    assert all("+" in change.diff() for change in changes)
    commands = hostrules.apply(changes)
    assert commands[0] == "udevadm control --reload"
    assert commands.count("update-initramfs -u -k all") == 1
    assert hostrules.check(SLOTS, root) == ()
    again = hostrules.plan(SLOTS, root)
    assert not any(change.needed for change in again)
    assert hostrules.apply(again) == ()
    assert [change.diff() for change in again] == [""] * 4


@pytest.mark.parametrize(
    ("program", "command"),
    [
        ("usr/sbin/update-initramfs", "update-initramfs -u -k all"),
        ("usr/bin/dracut", "dracut --force --regenerate-all"),
    ],
)
def test_the_initramfs_gets_new_udev_rules_too(tmp_path: Path, program: str, command: str) -> None:
    """It has a udev of its own, which looks into drives before the root is mounted."""
    (tmp_path / program).parent.mkdir(parents=True)
    (tmp_path / program).touch()
    assert hostrules.apply(hostrules.plan(SLOTS[:1], tmp_path))[-1] == command
    assert command in hostrules.apply(hostrules.plan(SLOTS, tmp_path)), "a new slot"
    assert hostrules.apply(hostrules.plan(SLOTS, tmp_path)) == ()


def test_another_set_of_slots_replaces_the_rules(root: Path) -> None:
    hostrules.apply(hostrules.plan(SLOTS, root))
    assert len(hostrules.check(SLOTS[:1], root)) == 2
    hostrules.apply(hostrules.plan(SLOTS[:1], root))
    for path in root.rglob("etc/**/*"):
        if path.is_file():
            assert "0000:81" not in path.read_text()
            assert path.read_text().count("BEGIN nvme-quarantine") <= 1


def test_a_removed_or_edited_file_is_noticed(root: Path) -> None:
    hostrules.apply(hostrules.plan(SLOTS, root))
    (root / hostrules.UDEV_RULES[1:]).unlink()
    (root / MDADM_CONF[1:]).write_text("AUTO +all\n")
    found = hostrules.check(SLOTS, root)
    assert [line.split(":")[0] for line in found] == [hostrules.UDEV_RULES, MDADM_CONF]
    assert "found none" in found[0]


def test_dry_run_is_planning_without_applying(root: Path) -> None:
    before = {p: p.read_bytes() for p in root.rglob("*") if p.is_file()}
    assert "".join(change.diff() for change in hostrules.plan(SLOTS, root))
    assert {p: p.read_bytes() for p in root.rglob("*") if p.is_file()} == before


def test_programs_that_are_not_there_get_no_file(tmp_path: Path) -> None:
    assert [c.path for c in hostrules.plan(SLOTS, tmp_path)] == [hostrules.UDEV_RULES]


def test_the_first_auto_line_is_ours(root: Path) -> None:
    """mdadm heeds the first AUTO that it reads; an operator's later one must not win."""
    (root / "etc/mdadm/mdadm.conf").write_text("AUTO +all\nARRAY /dev/md0 UUID=a:b\n")
    text = after(root, MDADM_CONF)
    autos = [line for line in text.splitlines() if line.startswith("AUTO")]
    assert autos == ["AUTO -all", "AUTO +all"]
    assert "ARRAY /dev/md0 UUID=a:b" in text


def mdadm_change(root: Path) -> hostrules.FileChange:
    return next(each for each in hostrules.plan(SLOTS, root) if "mdadm" in each.path)


def test_a_running_array_that_is_not_named_keeps_its_hosts_next_boot(root: Path) -> None:
    """With AUTO -all it would not be assembled, and may hold what the host boots from."""
    (root / "run/mdadm").mkdir(parents=True)
    (root / "run/mdadm/map").write_text("md0 1.2 A:B /dev/md/0\nmd7 1.2 c:d /dev/md/7\n")
    conf = root / MDADM_CONF[1:]
    before = conf.read_text()
    change = mdadm_change(root)
    assert change.held.startswith("md7: running but not named")
    hostrules.apply(hostrules.plan(SLOTS, root))
    assert conf.read_text() == before
    assert change.held in "".join(hostrules.check(SLOTS, root)), "it is missed all the same"
    conf.write_text(f"{before}ARRAY /dev/md7 UUID=c:d\n")
    hostrules.apply(hostrules.plan(SLOTS, root))
    assert hostrules.check(SLOTS, root) == ()
    # One that came since: what is there stays.
    conf.write_text(conf.read_text().replace("c:d", "e:f"))
    assert mdadm_change(root).warning.startswith("md7: running but not named")
    assert hostrules.check(SLOTS, root) == ()


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ("ARRAY /dev/md/7 metadata=1.2 UUID=C:D\n", True),
        ("array /dev/md/7 uuid=c:d\n", True),
        ("ARR <ignore> uuid=c:d\n", True),
        ("ARRAY /dev/md/7\n   level=raid1\n\tUUID=c:d\n", True),
        ("ARRAY /dev/md7 name=host:7\n", True),
        ("ARRAY /dev/md/7 devices=/dev/sda1,/dev/sdb1\n", True),
        ("ARRAY /dev/md/7 UUID=e:f\n", False),
        ("#ARRAY /dev/md/7 UUID=c:d\n", False),
        ("ARRAY /dev/md/6\nAUTO +all\n   UUID=c:d\n", False),
    ],
)
@pytest.mark.parametrize("place", [MDADM_CONF, f"{MDADM_CONF}.d/own.conf"])
def test_an_array_is_named_as_mdadm_reads_it(
    root: Path, lines: str, named: bool, place: str
) -> None:
    (root / "run/mdadm").mkdir(parents=True)
    (root / "run/mdadm/map").write_text("md7 1.2 c:d /dev/md/7\n")
    (root / place[1:]).parent.mkdir(exist_ok=True)
    (root / place[1:]).write_text(lines)
    assert (mdadm_change(root).held == "") is named


EL = 'ID="rocky"\nID_LIKE="rhel centos fedora"\n'
DEBIAN = "ID=debian\n"
DERIVED = "ID=something\nID_LIKE=debian\n"
ANYWHERE = "/etc/mdadm.conf"


@pytest.mark.parametrize(
    ("release", "there", "place"),
    [
        (EL, (ANYWHERE,), ANYWHERE),
        (EL, (ANYWHERE, MDADM_CONF), ANYWHERE),
        (EL, (), ANYWHERE),
        # One in front of it would hide the host's own arrays.
        (EL, (MDADM_CONF,), MDADM_CONF),
        (DEBIAN, (), MDADM_CONF),
        (DEBIAN, (ANYWHERE, MDADM_CONF), MDADM_CONF),
        (DERIVED, (ANYWHERE, MDADM_CONF), MDADM_CONF),
        (DEBIAN, (ANYWHERE,), ANYWHERE),
        ("", (ANYWHERE, MDADM_CONF), ANYWHERE),
    ],
)
def test_auto_goes_into_the_file_that_mdadm_reads(
    tmp_path: Path, release: str, there: tuple[str, ...], place: str
) -> None:
    """It reads one of two, and distributions differ in which comes first."""
    for path in ("etc/os-release", "run/mdadm/map", "usr/sbin/mdadm"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "etc/os-release").write_text(release)
    (tmp_path / "usr/sbin/mdadm").touch()
    (tmp_path / "run/mdadm/map").write_text("md0 1.2 a:b /dev/md/0\nmd1 1.2 c:d /dev/md/1\n")
    for path in there:
        (tmp_path / path[1:]).parent.mkdir(exist_ok=True)
        (tmp_path / path[1:]).write_text(f"ARRAY /dev/md0 UUID=a:b name={path}\n")
    (change,) = (each for each in hostrules.plan(SLOTS, tmp_path) if "mdadm" in each.path)
    assert change.path == place
    assert (change.after or "").splitlines()[1] == "AUTO -all"
    assert (f"name={place}" in (change.after or "")) is bool(there)
    unnamed = "md1" if there else "md0, md1"
    assert change.held.startswith(f"{unnamed}: running but not named in {place}; ")


def test_lvm_keeps_an_operators_own_filter_behind_ours(root: Path) -> None:
    (root / "etc/lvm/lvm.conf").write_text(
        'devices {\n\t# global_filter = [ "a|.*|" ]\n'
        '\tglobal_filter = [ "r|^/dev/drbd|",\n\t"a|^/dev/sd|", "a|.*|" ]\n}\n'
    )
    hostrules.apply(hostrules.plan(SLOTS, root))
    line = [li for li in after(root, hostrules.LVM_LOCAL).splitlines() if "global_filter" in li]
    assert line == [
        'devices/global_filter = [ "r|^/dev/disk/by-path/pci-0000:01:00[.]0-|", '
        '"r|^/dev/disk/by-path/pci-0000:81:00[.]0-|", "r|^/dev/drbd|", "a|^/dev/sd|" ]'
    ]


@pytest.mark.parametrize("pattern", ["a|^/dev/nvme|", "a|.*|", "a/by-id/", "a|[|"])
def test_lvm_filter_that_accepts_nvme_by_name_is_refused(root: Path, pattern: str) -> None:
    """One accepted name is enough for LVM, whatever ours rejects."""
    (root / "etc/lvm/lvm.conf").write_text(f'global_filter = [ "{pattern}", "r|x|" ]\n')
    with pytest.raises(BadInputError, match="accepts NVMe drives by name"):
        hostrules.plan(SLOTS, root)


@pytest.mark.parametrize("addresses", [[], ["01:00.0"], ["0000:01:00.0; rm"], ["../x"]])
def test_only_addresses(tmp_path: Path, addresses: list[str]) -> None:
    with pytest.raises(BadInputError, match="host-setup: expected"):
        hostrules.plan(addresses, tmp_path)


def test_a_file_that_cannot_be_written_is_named(root: Path) -> None:
    changes = hostrules.plan(SLOTS, root)
    (root / "etc/udev").write_text("")
    with pytest.raises(EraserError, match="expected to write"):
        hostrules.apply(changes)
