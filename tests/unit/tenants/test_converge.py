"""From any state to the wish, on a simulated machine: each case, twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from nvme_raid import mdadmconf
from nvme_raid.converge import converge
from nvme_raid.decide import decide
from nvme_raid.errors import RaidError, Refusal
from nvme_raid.model import (
    Content,
    Filesystem,
    Machine,
    Member,
    Mounted,
    Platform,
    Running,
    Sampled,
    Wish,
)
from nvme_raid.steps import (
    Assemble,
    MakeDirectory,
    Mount,
    RebuildInitramfs,
    Relabel,
    Step,
    WriteFile,
)

from tests.unit.tenants.simulated import LIVE, Simulated, drive, fresh

WISH = Wish(drives=4)


def run(machine: Simulated, wish: Wish = WISH) -> list[str]:
    """The texts of what was done."""
    outcome = converge(wish, look=machine.look, act=machine.act)
    return [step.text for step in outcome.steps]


def built(count: int = 4) -> Simulated:
    machine = Simulated(fresh(count))
    run(machine, replace(WISH, drives=count))
    return machine


def nothing(step: Step) -> None:
    raise AssertionError(f"a refusal must change nothing: {step.text}")


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_free_drives_become_a_mounted_filesystem_and_a_second_run_does_nothing(count: int) -> None:
    machine = Simulated(fresh(count))
    wish = replace(WISH, drives=count)

    texts = run(machine, wish)

    assert any(text.startswith("create") for text in texts) == (count > 1)
    assert any("initramfs" in text for text in texts) == (count > 1)
    assert texts[-2:] == ["mount /mnt/nvme", "enable fstrim.timer"]
    assert run(machine, wish) == []


def test_the_devices_are_in_the_order_of_their_addresses() -> None:
    machine = fresh(4)
    names = ["nvme2n1", "nvme0n1", "nvme3n1", "nvme1n1"]
    renamed = tuple(replace(d, name=n) for d, n in zip(machine.drives, names, strict=True))
    simulated = Simulated(replace(machine, drives=renamed[::-1]))

    assert run(simulated)[0].endswith("/dev/nvme2n1, /dev/nvme0n1, /dev/nvme3n1, /dev/nvme1n1")


def test_the_drives_that_are_told_are_in_the_array_s_order() -> None:
    """A card that was added or moved changes addresses, not places."""
    machine = built()
    addresses = [one.address for one in machine.machine.drives]
    for at, address in enumerate(reversed(addresses)):
        machine.set_drive(f"nvme{at}n1", address=address)

    assert decide(machine.machine, WISH).drives == tuple(f"/dev/nvme{at}n1" for at in range(4))


def test_mdadm_conf_is_written_before_the_initramfs() -> None:
    machine = built()

    conf = machine.machine.text("/etc/mdadm/mdadm.conf")
    assert conf is not None
    assert "ARRAY /dev/md/nvme" in conf
    assert machine.initramfs == conf


def test_a_mdadm_conf_with_bytes_that_are_no_text_is_taken_as_it_is() -> None:
    comment = b"# f\xfcr die Platten\n".decode("utf-8", "surrogateescape")
    machine = Simulated(fresh(4, files=(("/etc/mdadm/mdadm.conf", comment),)))

    run(machine)

    conf = machine.machine.text("/etc/mdadm/mdadm.conf")
    assert conf is not None
    assert conf.startswith(comment)
    assert run(machine) == []


def test_check_mode_says_all_and_does_nothing() -> None:
    machine = Simulated(fresh(4))
    wanted = converge(WISH, look=machine.look, act=nothing, check=True)

    assert [step.text for step in wanted.steps] == run(machine)
    assert converge(WISH, look=machine.look, act=nothing, check=True).steps == ()


Damage = Callable[[Simulated], None]


def _lose_file(path: str) -> Damage:
    def damage(machine: Simulated) -> None:
        machine.set(files=tuple(pair for pair in machine.machine.files if pair[0] != path))

    return damage


def _lose_mark(machine: Simulated) -> None:
    text = machine.machine.text("/etc/fstab") or ""
    changed = text.replace("noatime,", "").replace(",x-nvme-raid=nvme", "")
    assert changed != text
    machine.set(files=tuple({**dict(machine.machine.files), "/etc/fstab": changed}.items()))


def _wrong_label(machine: Simulated) -> None:
    found = machine.machine.arrays[0].filesystem
    assert found is not None
    machine.set_array(filesystem=replace(found, label="other"))


def _relatime(machine: Simulated) -> None:
    mounts = machine.machine.mounts
    machine.set(mounts=(mounts[0], replace(mounts[1], options=("rw", "relatime"))))


def _no_directory(machine: Simulated) -> None:
    machine.unmount()
    machine.set(directories=())


def _stopped(machine: Simulated) -> None:
    machine.unmount()
    machine.set(arrays=())
    for number in range(4):
        machine.set_drive(f"nvme{number}n1", holders=(), busy=False)


def _stopped_members(machine: Simulated) -> None:
    machine.unmount()
    machine.set(arrays=())


def _half_assembled(machine: Simulated) -> None:
    machine.unmount()
    machine.set_array(active=False, members=("nvme0n1",), linked=(), given="", filesystem=None)


def _other_name(machine: Simulated) -> None:
    machine.unmount()
    machine.set_array(linked=("nvme_0",), given="nvme_0")


@pytest.mark.parametrize(
    ("damage", "mended"),
    [
        (
            _lose_file("/etc/mdadm/mdadm.conf"),
            ["write /etc/mdadm/mdadm.conf", "rebuild the initramfs (update-initramfs -u)"],
        ),
        (_lose_file("/etc/fstab"), ["write /etc/fstab"]),
        (_lose_mark, ["write /etc/fstab"]),
        (_wrong_label, ["label the XFS on /dev/md/nvme nvme"]),
        (_relatime, ["remount /mnt/nvme with noatime"]),
        (Simulated.unmount, ["mount /mnt/nvme"]),
        (Simulated.reboot, ["mount /mnt/nvme"]),
        (_no_directory, ["make the directory /mnt/nvme", "mount /mnt/nvme"]),
        (lambda machine: machine.set(trim_enabled=False), ["enable fstrim.timer"]),
        (
            lambda machine: machine.set(initramfs_stamp="of another"),
            ["rebuild the initramfs (update-initramfs -u)"],
        ),
        (
            lambda machine: machine.set_array(linked=()),
            ["make the link /dev/md/nvme to /dev/md127 again"],
        ),
    ],
)
def test_each_managed_item_is_mended_and_nothing_else_is_done(
    damage: Damage, mended: list[str]
) -> None:
    machine = built()
    damage(machine)

    assert run(machine) == mended
    assert run(machine) == []


@pytest.mark.parametrize(
    ("options", "mounted", "mended"),
    [
        (("noatime",), ("ro", "noatime"), ["remount /mnt/nvme with rw"]),
        (("noatime",), ("rw", "noexec", "nosuid"), ["remount /mnt/nvme with exec,noatime,suid"]),
        (("noatime", "ro"), ("ro", "noatime"), []),
        # mount(8): user and its like mean these three, where nothing else is said.
        (("noatime", "users"), ("rw", "noatime", "noexec", "nosuid", "nodev"), []),
    ],
)
def test_an_option_that_is_asked_for_no_more_goes(
    options: tuple[str, ...], mounted: tuple[str, ...], mended: list[str]
) -> None:
    wish = replace(WISH, options=options)
    machine = Simulated(fresh(4))
    run(machine, wish)
    mounts = machine.machine.mounts
    machine.set(mounts=(mounts[0], replace(mounts[1], options=mounted)))

    assert run(machine, wish) == mended
    assert run(machine, wish) == []


@pytest.mark.parametrize("damage", [_stopped, _half_assembled, _other_name])
def test_an_array_that_is_not_up_under_its_name_is_assembled_and_kept(damage: Damage) -> None:
    machine = built()
    before = machine.machine.text("/etc/fstab")
    damage(machine)

    assembled, mounted = run(machine)

    assert "assemble /dev/md/nvme of /dev/nvme0n1, /dev/nvme1n1" in assembled
    assert mounted == "mount /mnt/nvme"
    assert machine.machine.text("/etc/fstab") == before
    assert run(machine) == []


@pytest.mark.parametrize("point", ["/mnt/nvme", "/srv/old"])
def test_a_label_is_given_where_the_filesystem_is_mounted(point: str) -> None:
    """Whoever changes mount point and label at once still has it mounted at the old place."""
    machine = built()
    _wrong_label(machine)
    mounts = machine.machine.mounts
    machine.set(mounts=(mounts[0], replace(mounts[1], point=point)))

    plan = decide(machine.machine, WISH)

    assert Relabel("/dev/md/nvme", "nvme", point) in plan.steps


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ("LABEL=other", True),
        ('LABEL="other"', True),
        ("/dev/disk/by-label/other", True),
        ("#LABEL=other", False),
        ("LABEL=others", False),
    ],
)
def test_a_label_that_a_line_of_fstab_needs_is_not_taken_away(source: str, refused: bool) -> None:
    """An array made by hand, mounted elsewhere by its label: the next boot would stop there."""
    machine = built()
    _wrong_label(machine)
    text = (machine.machine.text("/etc/fstab") or "") + f"{source} /srv/db xfs defaults 0 0\n"
    machine.set(files=tuple({**dict(machine.machine.files), "/etc/fstab": text}.items()))
    if not refused:
        assert run(machine) == ["label the XFS on /dev/md/nvme nvme"]
        return
    with pytest.raises(Refusal, match=r"'/srv/db' by its label other in line \d+ of /etc/fstab"):
        converge(WISH, look=machine.look, act=nothing)
    assert run(machine, replace(WISH, label="other")) == []


def test_a_mounted_array_of_another_name_is_left_mounted() -> None:
    machine = built()
    machine.set_array(linked=("nvme_0",), given="nvme_0")

    outcome = converge(WISH, look=machine.look, act=nothing)

    assert any("another name" in warning for warning in outcome.warnings)


def test_after_stop_and_start_the_array_is_made_anew_and_its_lines_replaced() -> None:
    machine = built()
    machine.other_drives()

    texts = run(machine)

    assert texts[0].startswith("create /dev/md/nvme")
    assert "write /etc/fstab" in texts
    for path, count in (("/etc/fstab", "UUID="), ("/etc/mdadm/mdadm.conf", "\nARRAY")):
        assert (machine.machine.text(path) or "").count(count) == 1
    assert machine.initramfs == machine.machine.text("/etc/mdadm/mdadm.conf")
    assert run(machine) == []


def _partly_fresh(machine: Simulated) -> None:
    machine.unmount()
    machine.set(arrays=())
    machine.set_drive("nvme1n1", member=None, holders=(), busy=False)


def _member(**facts: object) -> Damage:
    def damage(machine: Simulated) -> None:
        found = next(d.member for d in machine.machine.drives if d.name == "nvme2n1")
        assert found is not None
        machine.set_drive("nvme2n1", member=replace(found, **facts))  # type: ignore[arg-type]

    return damage


def _drives(**facts: object) -> Damage:
    def damage(machine: Simulated) -> None:
        machine.set_drive("nvme1n1", **facts)

    return damage


def _five_members(machine: Simulated) -> None:
    for one in machine.machine.drives:
        assert one.member is not None
        machine.set_drive(one.name, member=replace(one.member, devices=5))


def _lost(machine: Simulated) -> None:
    machine.set(drives=machine.machine.drives[:3])


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (
            _partly_fresh,
            "/dev/nvme1n1 .* hold nothing; without the missing members it cannot be read;"
            ".*wipefs -a and then blkdiscard -z on each",
        ),
        (_member(uuid="other"), "/dev/nvme2n1 .* belongs to UUID other"),
        (_member(role=0xFFFE), "/dev/nvme2n1 place 65534"),
        (_member(role=0), "/dev/nvme2n1 place 0"),
        (_member(name="host:db"), "/dev/nvme2n1 .* member of the array host:db"),
        (_drives(signatures=("ext4",)), "/dev/nvme1n1 .* it holds ext4"),
        (_drives(partitions=("nvme1n1p1",)), "/dev/nvme1n1 .* partition nvme1n1p1"),
        (_drives(holders=("md127", "dm-0")), "/dev/nvme1n1 .* dm-0 is built on it"),
        (_drives(swap=True), "/dev/nvme1n1 .* swap"),
        (
            _drives(filesystem=Filesystem("u", "old", 0, 0, 0)),
            "/dev/nvme1n1 .* an XFS labelled old",
        ),
        (_five_members, "expected the 5 members"),
        (_lost, "expected 4 NVMe drives, found 3"),
        (
            lambda m: m.set(
                arrays=(*m.machine.arrays, Running("md5", members=("nvme3n1",), active=False))
            ),
            "expected one array .* found .*/dev/md5 of nvme3n1",
        ),
        (
            lambda m: m.set_array(signatures=("LVM2_member",), filesystem=None),
            "/dev/md127 .* LVM2_member",
        ),
        (lambda m: m.set_array(partitions=("md127p1",)), "/dev/md127 .* md127p1"),
        (lambda m: m.set_array(holders=("dm-3",)), "/dev/md127 .* dm-3"),
        (lambda m: m.set_array(exports=("loop7",)), "/dev/md127 .* loop7"),
        (_drives(exports=("nvmet's namespace 1 of x",)), "/dev/nvme1n1 .* nvmet's namespace"),
        (
            lambda m: m.set(mounts=(*m.machine.mounts[:1], Mounted("/mnt/nvme", "vdb", ()))),
            "/mnt/nvme to be free or ours, found vdb",
        ),
        (lambda m: m.set_array(members=("nvme0n1", "nvme9n1")), "expected one array"),
        (
            lambda m: m.set(arrays=(*m.machine.arrays, Running("md5", members=("nvme3n1",)))),
            "expected one array",
        ),
        (
            lambda m: m.set_array(linked=()) or m.set(taken_nodes=("nvme",)),  # type: ignore[func-returns-value]
            "an array of other drives has it",
        ),
    ],
)
def test_an_array_that_is_not_whole_or_not_ours_alone_is_refused(damage: Damage, said: str) -> None:
    machine = built()
    damage(machine)

    with pytest.raises(Refusal, match=said):
        converge(WISH, look=machine.look, act=nothing)


@pytest.mark.parametrize("running", [True, False])
def test_a_whole_array_beside_free_drives_is_not_called_lost(running: bool) -> None:
    """As after a resize to a larger flavor: nobody is told to empty it."""
    machine = built(2)
    if not running:
        machine.unmount()
        machine.set(arrays=())
    machine.set(drives=(*machine.machine.drives, drive(2), drive(3)))

    with pytest.raises(Refusal) as caught:
        converge(WISH, look=machine.look, act=nothing)

    said = str(caught.value)
    assert "the array nvme is whole (/dev/nvme0n1" in said
    assert "2 drives are more than it has: /dev/nvme2n1" in said
    assert "lost" not in said
    assert "wipefs" not in said


@pytest.mark.parametrize("facts", [{"uuid": "other"}, {"devices": 3}, {"role": 0}])
def test_members_that_do_not_make_a_whole_array_are_not_called_one(facts: dict[str, Any]) -> None:
    machine = built(2)
    _stopped_members(machine)
    found = machine.machine.drives[1].member
    assert found is not None
    machine.set_drive("nvme1n1", member=replace(found, **facts))
    machine.set(drives=(*machine.machine.drives, drive(2), drive(3)))

    with pytest.raises(Refusal, match="without the missing members it cannot be read"):
        converge(WISH, look=machine.look, act=nothing)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"read_only": True}, "read-only"),
        ({"busy": True}, "another program has it open"),
        ({"exports": ("loop7",)}, "loop7 is built on it"),
        ({"openers": ("qemu (process 8)",)}, r"qemu \(process 8\) has it open"),
        ({"sampled": Sampled(Content.DATA, 8192)}, "data without a signature, at byte 8192"),
        ({"sampled": Sampled(Content.UNREADABLE, 4096)}, "cannot be read at byte 4096"),
        ({"signatures": ("zfs_member",)}, "zfs_member"),
    ],
)
@pytest.mark.parametrize("count", [1, 4])
def test_a_drive_that_is_not_free_is_refused(count: int, facts: dict[str, Any], said: str) -> None:
    machine = Simulated(fresh(count))
    machine.set_drive("nvme0n1", **facts)

    with pytest.raises(Refusal, match=f"/dev/nvme0n1 .*{said}"):
        converge(replace(WISH, drives=count), look=machine.look, act=nothing)


def test_a_mounted_drive_is_refused() -> None:
    machine = fresh(4)
    mounted = replace(machine, mounts=(*machine.mounts, Mounted("/srv", "nvme2n1", LIVE)))

    with pytest.raises(Refusal, match=r"/dev/nvme2n1 .* mounted on /srv"):
        converge(WISH, look=lambda wish: mounted, act=nothing)


def test_random_drives_are_free_unless_blank_ones_are_asked_for() -> None:
    machine = Simulated(fresh(4))
    machine.set_drive("nvme3n1", sampled=Sampled(Content.NOISE, 0))

    with pytest.raises(Refusal, match=r"nvme3n1 .* random bytes"):
        converge(replace(WISH, require_blank=True), look=machine.look, act=nothing)
    assert run(machine)


def cut_before_the_filesystem(count: int = 4) -> Simulated:
    """The array is made, then the power goes."""
    machine = Simulated(fresh(count))
    plan = decide(machine.machine, replace(WISH, drives=count))
    machine.act(plan.steps[0])
    return machine


def test_a_random_array_is_the_roles_own_unless_blank_drives_are_asked_for() -> None:
    """Drives that had to be blank make a blank array: what is random on it is a volume of its
    tenant's, encrypted and without a header."""
    machine = cut_before_the_filesystem()
    machine.set_array(sampled=Sampled(Content.NOISE, 0))

    with pytest.raises(Refusal, match=r"/dev/md127 .* random bytes"):
        converge(replace(WISH, require_blank=True), look=machine.look, act=nothing)
    assert run(machine)[0].startswith("make an XFS")
    blank = cut_before_the_filesystem()
    assert run(blank, replace(WISH, require_blank=True))[0].startswith("make an XFS")


@pytest.mark.parametrize("held", ["nvme2n1", "md127"])
def test_an_array_that_a_program_has_open_gets_no_filesystem_and_keeps_its_own(held: str) -> None:
    """Also a member: the program writes below the array."""
    opened = {"openers": ("db (process 8)",)}
    for machine in (cut_before_the_filesystem(), built()):
        if held == "md127":
            machine.set_array(**opened)
        else:
            machine.set_drive(held, **opened)
        if machine.machine.arrays[0].filesystem is None:
            with pytest.raises(Refusal, match=rf"/dev/{held} .*db \(process 8\) has it open"):
                converge(WISH, look=machine.look, act=nothing)
        else:
            assert run(machine) == []


@pytest.mark.parametrize("content", [Content.UNIFORM, Content.NOISE])
@pytest.mark.parametrize("line", ["{line}", "ARRAY /dev/md/x UUID={plain}", "array uuid={upper}"])
def test_an_array_that_had_a_filesystem_and_shows_none_is_not_made_anew(
    content: Content, line: str
) -> None:
    """mdadm.conf is written after mkfs: an array that it knows had a filesystem."""
    machine = built()
    machine.unmount()
    machine.set_array(filesystem=None, sampled=Sampled(content, 0))
    conf = machine.machine.platform.mdadm_conf
    found = next(drive.member for drive in machine.machine.drives)
    assert found is not None
    forms = {
        "line": mdadmconf.line("/dev/md/nvme", found.uuid),
        "plain": found.uuid.replace(":", ""),
        "upper": found.uuid.upper(),
    }
    machine.set(files=((conf, "# c\n" + line.format(**forms) + "\n"),))

    with pytest.raises(Refusal, match=r"/dev/md127 .* had a file system.* shows none"):
        converge(WISH, look=machine.look, act=nothing)
    # A line that is gone, or another array's, says nothing of this one.
    machine.set(files=((conf, "ARRAY /dev/md/nvme UUID=1:2:3:4\n#" + forms["line"] + "\n"),))
    assert run(machine)[0].startswith("make an XFS")


def test_check_mode_does_not_guess_what_is_on_an_array_that_is_not_up() -> None:
    machine = built()
    _half_assembled(machine)

    outcome = converge(WISH, look=machine.look, act=nothing, check=True)

    assert [type(step) for step in outcome.steps] == [Assemble]
    assert any("shows once the array is assembled" in text for text in outcome.warnings)


def test_the_array_of_another_chunk_or_level_is_refused() -> None:
    machine = built()

    with pytest.raises(Refusal, match="chunks of 64 KiB, found 512 KiB"):
        converge(replace(WISH, chunk=64 << 10), look=machine.look, act=nothing)
    for number in range(4):
        member = replace(machine.machine.drives[number].member or Member("", "", 0, 0, 0, 0))
        machine.set_drive(f"nvme{number}n1", member=replace(member, level=5))
    with pytest.raises(Refusal, match="RAID 0, found RAID 5"):
        converge(WISH, look=machine.look, act=nothing)


def test_a_line_of_somebody_else_for_our_mount_point_is_refused_before_anything_is_made() -> None:
    machine = Simulated(fresh(4, files=(("/etc/fstab", "/dev/vdb /mnt/nvme ext4 defaults 0 2\n"),)))

    with pytest.raises(Refusal, match="/dev/vdb"):
        converge(WISH, look=machine.look, act=nothing)


def test_the_name_of_another_array_is_refused() -> None:
    machine = Simulated(fresh(4, taken_nodes=("nvme",)))

    with pytest.raises(Refusal, match="an array of other drives has it"):
        converge(WISH, look=machine.look, act=nothing)


@pytest.mark.parametrize("second", ["free", "stopped", "under another name"])
def test_the_name_of_another_array_of_nvme_drives_is_refused(second: str) -> None:
    """Two arrays of one instance, told apart by ``only``, must not have one name: mdadm would
    refuse it, after the second array was stopped."""
    machine = built(4)
    two = tuple(drive(number) for number in (4, 5))
    arrays = machine.machine.arrays
    if second != "free":
        members = [Member("bb", "nvme", 0, 2, 512 << 10, role) for role in (0, 1)]
        two = tuple(replace(one, member=member) for one, member in zip(two, members, strict=True))
        xfs = Filesystem("uuid-b", "nvme", 512 << 10, 1 << 20, 32 << 10)
        names = tuple(one.name for one in two)
        if second != "stopped":
            two = tuple(replace(one, holders=("md126",), busy=True) for one in two)
            arrays = (*arrays, Running("md126", members=names, given="nvme_0", filesystem=xfs))
    machine.set(drives=(*machine.machine.drives, *two), arrays=arrays)
    wish = replace(WISH, drives=2, only=("LAB4", "LAB5"), mount="/srv/b")

    with pytest.raises(Refusal, match="an array of other drives has it"):
        converge(wish, look=machine.look, act=nothing)


def test_an_interrupted_run_is_finished_by_the_next() -> None:
    whole = Simulated(fresh(4))
    count = len(run(whole))
    for survived in range(count):
        machine = Simulated(fresh(4))
        left = survived

        def act(step: Step, machine: Simulated = machine) -> None:
            nonlocal left
            if left == 0:
                raise RaidError("the power went")
            left -= 1
            machine.act(step)

        with pytest.raises(RaidError, match="the power went"):
            converge(WISH, look=machine.look, act=act)
        run(machine)
        assert machine.machine == whole.machine, survived
        assert machine.initramfs == whole.initramfs


@pytest.mark.parametrize("survived", [0, 1])
def test_an_initramfs_that_others_made_of_a_damaged_mdadm_conf_is_made_anew(survived: int) -> None:
    machine = built()
    wanted = machine.initramfs
    _lose_file("/etc/mdadm/mdadm.conf")(machine)
    machine.initramfs = None  # a new kernel's, made while the line was missing
    done: list[Step] = []

    def act(step: Step) -> None:
        if len(done) == survived:
            raise RaidError("the power went")
        done.append(step)
        machine.act(step)

    with pytest.raises(RaidError, match="the power went"):
        converge(WISH, look=machine.look, act=act)
    run(machine)

    assert machine.initramfs == wanted is not None


@pytest.mark.parametrize("count", [1, 4])
def test_a_filesystem_that_mkfs_did_not_finish_is_made_anew(count: int) -> None:
    """The power went, or mkfs.xfs was killed for its time: nobody ever mounted that, nor can."""
    machine = Simulated(fresh(count))
    wish = replace(WISH, drives=count)
    made = {"filesystem": Filesystem("u", "nvme", 0, 0, 0, unfinished=True)}
    if count > 1:
        machine = cut_before_the_filesystem()
        machine.set_array(**made)
    else:
        machine.set_drive("nvme0n1", **made)

    node = "/dev/nvme0n1" if count == 1 else "/dev/md/nvme"
    assert run(machine, wish)[0] == f"make the unfinished XFS labelled nvme on {node} anew"
    assert run(machine, wish) == []


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize(
    ("facts", "label", "said"),
    [
        ({}, "other", "XFS labelled other"),
        ({"openers": ("mkfs.xfs (process 7)",)}, "nvme", "mkfs.xfs .* has it open"),
        ({"exports": ("loop3",)}, "nvme", "loop3"),
        ({"signatures": ("ext4",)}, "nvme", "ext4"),
    ],
)
def test_an_unfinished_filesystem_of_others_or_in_use_is_refused(
    count: int, facts: dict[str, Any], label: str, said: str
) -> None:
    machine = cut_before_the_filesystem() if count > 1 else Simulated(fresh(1))
    facts = {"filesystem": Filesystem("u", label, 0, 0, 0, unfinished=True), **facts}
    if count > 1:
        machine.set_array(**facts)
    else:
        machine.set_drive("nvme0n1", **facts)

    with pytest.raises(Refusal, match=said):
        converge(replace(WISH, drives=count), look=machine.look, act=nothing)


def test_a_step_that_does_not_help_is_an_error_and_not_a_loop() -> None:
    machine = Simulated(fresh(4))

    with pytest.raises(RaidError, match="found still: create"):
        converge(WISH, look=machine.look, act=lambda step: None)


def test_one_drive_knows_its_own_filesystem_by_the_label() -> None:
    machine = built(1)
    other = replace(WISH, drives=1, label="other")

    with pytest.raises(Refusal, match="holds an XFS labelled nvme"):
        converge(other, look=machine.look, act=nothing)
    machine.set_drive("nvme0n1", signatures=("ext4",))
    with pytest.raises(Refusal, match="holds ext4"):
        converge(replace(WISH, drives=1), look=machine.look, act=nothing)


def test_one_drive_with_our_label_and_a_members_superblock_is_nobodys_business() -> None:
    machine = built(1)
    machine.set_drive("nvme0n1", member=Member("u", "db", 1, 2, 0, 0))

    with pytest.raises(Refusal, match="member of the array db"):
        converge(replace(WISH, drives=1), look=machine.look, act=nothing)


def test_a_single_member_of_an_array_is_no_single_drive() -> None:
    machine = built(2)
    machine.set(drives=machine.machine.drives[:1], arrays=())

    with pytest.raises(Refusal, match="member of the array nvme"):
        converge(replace(WISH, drives=1), look=machine.look, act=nothing)


def test_stripes_that_do_not_fit_are_told_of_and_not_touched() -> None:
    machine = built()
    found = machine.machine.arrays[0].filesystem
    assert found is not None
    machine.set_array(filesystem=replace(found, stripe_unit=4096))

    outcome = converge(WISH, look=machine.look, act=nothing)

    assert any("stripes" in warning for warning in outcome.warnings)


def test_enterprise_linux_gets_its_own_paths_and_dracut_is_told_to_take_mdadm_conf() -> None:
    platform = Platform("/etc/mdadm.conf", ("dracut", "--force"), dracut=True, systemd=True)
    machine = Simulated(fresh(2, platform=platform))

    outcome = converge(replace(WISH, drives=2), look=machine.look, act=machine.act)

    kinds = [step.path if isinstance(step, WriteFile) else type(step) for step in outcome.steps]
    conf, dracut = "/etc/mdadm.conf", "/etc/dracut.conf.d/50-nvme-raid.conf"
    assert kinds.index(conf) < kinds.index(RebuildInitramfs)
    assert kinds.index(dracut) < kinds.index(RebuildInitramfs)
    assert 'mdadmconf="yes"' in (machine.machine.text(dracut) or "")
    machine.set(files=tuple(pair for pair in machine.machine.files if pair[0] != dracut))
    mended = run(machine, replace(WISH, drives=2))
    assert mended == [f"write {dracut}", "rebuild the initramfs (dracut --force)"]


def test_what_the_machine_lacks_is_told_of() -> None:
    bare = Platform("/etc/mdadm/mdadm.conf")
    machine = Simulated(fresh(4, platform=bare, directories=("/mnt/nvme",), crowded=True))

    outcome = converge(WISH, look=machine.look, act=machine.act, check=True)

    said = " ".join(outcome.warnings)
    assert "fstrim" in said
    assert "initramfs" in said
    assert "files of its own" in said


def test_a_run_tells_what_check_mode_told() -> None:
    """Each look has its own: the size of drives matters before they are an array, files in the
    mount point before it is mounted."""
    bare = Platform("/etc/mdadm/mdadm.conf")
    machine = Simulated(fresh(2, platform=bare, directories=("/mnt/nvme",), crowded=True))
    machine.set_drive("nvme1n1", size=2 << 30)
    wish = replace(WISH, drives=2)

    def act(step: Step) -> None:
        machine.act(step)
        machine.set(crowded=machine.machine.crowded and not isinstance(step, Mount))

    told = converge(wish, look=machine.look, act=act, check=True).warnings
    outcome = converge(wish, look=machine.look, act=act)

    assert len(told) == 4
    assert sorted(outcome.warnings) == sorted(told)
    assert any("differ in size" in text for text in told)
    assert any("files of its own" in text for text in told)


def test_a_run_that_assembles_does_not_say_what_check_mode_cannot_know() -> None:
    machine = built()
    _half_assembled(machine)

    assert converge(WISH, look=machine.look, act=machine.act).warnings == ()


def test_a_refusal_after_a_step_names_what_was_done() -> None:
    """What an array holds shows once it is assembled."""
    machine = built()
    _stopped(machine)

    def act(step: Step) -> None:
        machine.act(step)
        machine.set_array(filesystem=None, signatures=("LVM2_member",))

    with pytest.raises(Refusal, match="LVM2_member") as caught:
        converge(WISH, look=machine.look, act=act)
    assert len(caught.value.done) == 1
    assert caught.value.heading == f"refused, after this was done: {caught.value.done[0]}"
    assert "assemble /dev/md/nvme" in caught.value.heading
    with pytest.raises(Refusal, match="LVM2_member") as again:
        converge(WISH, look=machine.look, act=nothing)
    assert (again.value.done, again.value.heading) == ((), "refused, nothing was changed")


def test_two_single_drives_of_one_name_keep_a_line_each() -> None:
    machine = Simulated(fresh(2))
    first = replace(WISH, drives=1, only=("LAB0",), mount="/srv/pg")
    second = replace(first, only=("LAB1",), mount="/srv/kafka")

    run(machine, first)
    mounts = machine.machine.mounts
    run(machine, second)
    machine.set(mounts=(*mounts, *machine.machine.mounts[1:]))

    text = machine.machine.text("/etc/fstab") or ""
    assert [line.split()[:2] for line in text.splitlines()] == [
        ["UUID=uuid-1", "/srv/pg"],
        ["UUID=uuid-2", "/srv/kafka"],
    ]
    assert run(machine, first) == []
    assert run(machine, second) == []


def test_a_mount_point_below_a_link_is_found_in_the_mount_table() -> None:
    """/srv is a link to var/srv on image-based systems, and the kernel tells the real path."""
    machine = Simulated(fresh(4, point="/var/srv/db"))
    wish = replace(WISH, mount="/srv/db")

    def act(step: Step) -> None:
        if isinstance(step, MakeDirectory):
            assert step.path == "/var/srv/db"
            machine.set(directories=("/srv/db",))
            return
        machine.act(step)
        first, *others = machine.machine.mounts
        machine.set(mounts=(first, *(replace(mount, point="/var/srv/db") for mount in others)))

    outcome = converge(wish, look=machine.look, act=act)

    assert outcome.steps[-2].text == "mount /srv/db"
    assert " /srv/db xfs " in (machine.machine.text("/etc/fstab") or "")
    assert converge(wish, look=machine.look, act=nothing).warnings == ()
    machine.set(mounts=(*machine.machine.mounts, Mounted("/var/srv/db", "vdb", ())))
    with pytest.raises(Refusal, match="/srv/db to be free or ours, found vdb"):
        converge(wish, look=machine.look, act=nothing)


def test_a_mount_point_that_leads_into_the_system_is_refused() -> None:
    machine = Simulated(fresh(1, point="/etc/db"))

    with pytest.raises(Refusal, match=r"/srv/db .* leads to the system's own /etc/db"):
        converge(replace(WISH, drives=1, mount="/srv/db"), look=machine.look, act=nothing)


def test_a_mount_point_that_cannot_be_is_refused_before_anything_is_made() -> None:
    machine = Simulated(fresh(4, no_directory="a file"))

    with pytest.raises(Refusal, match="expected /mnt/nvme to be a directory, found a file there"):
        converge(WISH, look=machine.look, act=nothing)
    # Of a dead filesystem the lost drive is the thing to hear.
    machine.set(drives=machine.machine.drives[:3])
    with pytest.raises(Refusal, match="expected 4 NVMe drives, found 3"):
        converge(WISH, look=machine.look, act=nothing)


def test_a_drive_with_an_xfs_is_no_free_drive_of_an_array() -> None:
    machine = Simulated(fresh(4))
    machine.set_drive("nvme3n1", filesystem=Filesystem("u", "", 0, 0, 0))

    with pytest.raises(Refusal, match=r"nvme3n1 .* XFS without a label"):
        converge(WISH, look=machine.look, act=nothing)


def test_the_systems_drive_is_never_a_candidate() -> None:
    machine = fresh(5)
    system = replace(machine.drives[0], system=True, partitions=("nvme0n1p1",))
    simulated = Simulated(replace(machine, drives=(system, *machine.drives[1:])))

    assert "nvme0n1" not in run(simulated)[0]
    with pytest.raises(Refusal, match="found 4 beside the system's own"):
        converge(replace(WISH, drives=5), look=lambda wish: simulated.machine, act=nothing)
    only = replace(WISH, drives=1, only=(system.address,))
    with pytest.raises(Refusal, match="found none that match"):
        converge(only, look=lambda wish: simulated.machine, act=nothing)


@pytest.mark.parametrize("pattern", ["0000:02:00.0", "lab1", "LAB?", "*drive"])
def test_only_picks_by_address_serial_or_model(pattern: str) -> None:
    machine = fresh(2)
    other = drive(0, model="VOLUME", serial="vol-1", signatures=("ext4",))
    simulated = Simulated(Machine(**{**vars(machine), "drives": (other, machine.drives[1])}))

    texts = run(simulated, replace(WISH, drives=1, only=(pattern,)))

    assert texts[0] == "make an XFS labelled nvme on /dev/nvme1n1"
