"""What to do, or why to stop: facts and a wish in, steps out. No I/O.

The caller carries out the steps and decides again over new facts, until nothing is left. A step
whose facts are not there yet (the UUID of a filesystem that has to be made) is told of with
:data:`NEW` in that place, for check mode; it is never carried out so: ``Plan.now`` leaves it out.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import fstab, mdadmconf, membership, mountpoint, obstacles
from .candidates import candidates
from .errors import Refusal
from .files import managed_files
from .model import Drive, Filesystem, Machine, Member, Running, Wish
from .steps import (
    Assemble,
    CreateArray,
    EnableTrim,
    MakeDirectory,
    MakeXfs,
    Mount,
    Relabel,
    Relink,
    Remount,
    Step,
)

NEW = "00000000:00000000:00000000:00000000"
"""Stands for the UUID of an array that is not made yet."""
NEW_FILESYSTEM = "made-with-the-filesystem"
_CHECKED_OPTIONS = frozenset({"noatime", "nodiratime", "nodev", "noexec", "nosuid", "ro"})
"""Options that the mount table shows as they were asked for."""
_UNDONE_BY = {"nodev": "dev", "noexec": "exec", "nosuid": "suid", "ro": "rw"}
"""Options that keep a tenant from something, and what takes them back."""
_RESTRICTING = frozenset({"group", "owner", "user", "users"})
"""Options that bring nodev, noexec or nosuid with them (mount(8))."""


@dataclass(frozen=True)
class Plan:
    """Steps in their order, of which the first ``ready`` can be carried out now."""

    steps: tuple[Step, ...]
    ready: int
    warnings: tuple[str, ...] = ()
    drives: tuple[str, ...] = ()
    """Device nodes, in the array's order."""
    device: str = ""
    """Node of what carries the filesystem."""
    filesystem: str = ""
    """UUID, where there is one."""
    more: bool = False
    """Whether only the next look can tell what else there is to do."""

    @property
    def now(self) -> tuple[Step, ...]:
        """The steps that can be carried out with what is known."""
        return self.steps[: self.ready]


@dataclass(frozen=True)
class _Base:
    """What carries, or will carry, the filesystem."""

    steps: tuple[Step, ...]
    device: str
    """Kernel name; empty while there is none."""
    node: str
    array: str = ""
    """UUID of the array, :data:`NEW`, or empty on a single drive."""
    filesystem: Filesystem | None = None
    unknown: bool = False
    """Whether only the next look can tell what is on it."""
    warnings: tuple[str, ...] = ()


def decide(machine: Machine, wish: Wish) -> Plan:
    """The plan. Raises :class:`Refusal` where the machine is not the role's to change."""
    drives = candidates(machine, wish)
    base = _single(machine, wish, drives[0]) if wish.drives == 1 else _array(machine, wish, drives)
    mountpoint.refuse_taken(machine, wish, base.device)
    # By address where there is no array yet, which is made in this order.
    ordered = sorted(drives, key=lambda drive: drive.member.role if drive.member else 0)
    paths = tuple(drive.path for drive in ordered)
    if base.unknown:
        return Plan(base.steps, len(base.steps), base.warnings, paths, base.node, more=True)
    steps = list(base.steps)
    uuid = base.filesystem.uuid if base.filesystem and not base.filesystem.unfinished else ""
    if base.filesystem is None or base.filesystem.unfinished:
        steps.append(_make(wish, base))
    elif base.filesystem.label != wish.label:
        _refuse_named(machine, wish, base, base.filesystem)
        # xfs_admin keeps its hands off a mounted filesystem, wherever that is.
        points = mountpoint.all_of(machine, base.device)
        point = mountpoint.of(machine, wish)
        at = wish.mount if point in points else "".join(points[:1])
        steps.append(Relabel(base.node, wish.label, at))
    # After an array or a filesystem is made the next step needs a new look.
    ready = len(base.steps) or (0 if uuid else 1)
    steps += _settle(machine, wish, base, uuid or NEW_FILESYSTEM)
    return Plan(
        tuple(steps),
        ready or len(steps),
        (*base.warnings, *_warnings(machine, wish, base)),
        paths,
        base.node,
        uuid,
    )


def _refuse_named(machine: Machine, wish: Wish, base: _Base, found: Filesystem) -> None:
    """Raises :class:`Refusal` where a line of somebody's in fstab needs the label that there is:
    the next boot would wait for it in vain, and without nofail go no further."""
    named = fstab.by_label(machine.text(fstab.PATH) or "", found.label, wish.name)
    if named is not None:
        number, point = named
        raise Refusal(
            (
                f"expected to label the XFS on {base.node} {wish.label}, found it mounted on "
                f"{point[:80]!a} by its label {found.label} in line {number} of /etc/fstab; write "
                f"UUID={found.uuid} there or remove that line, or ask for the label {found.label}",
            )
        )


def _single(machine: Machine, wish: Wish, drive: Drive) -> _Base:
    ours = drive.filesystem is not None and drive.filesystem.label == wish.label
    if ours and drive.member is None and not drive.signatures:
        wrong = obstacles.uses(drive, machine.mounts, but=mountpoint.all_of(machine, drive.name))
        wrong += obstacles.opened(drive) if drive.bare else []
        filesystem = drive.filesystem
    else:
        wrong = obstacles.of_a_drive(drive, wish, machine)
        filesystem = None
    if wrong:
        raise Refusal((f"expected {drive.title} to be free or ours: {', and '.join(wrong)}",))
    return _Base((), drive.name, drive.path, filesystem=filesystem)


def _array(machine: Machine, wish: Wish, drives: tuple[Drive, ...]) -> _Base:
    ours = [drive for drive in drives if _is_ours(drive, wish)]
    wrong = []
    for drive in drives:
        if drive not in ours and (found := obstacles.of_a_drive(drive, wish, machine)):
            wrong.append(f"expected {drive.title} to be free: {', and '.join(found)}")
    if wrong:
        raise Refusal(tuple(wrong))
    if not ours:
        return _new_array(machine, wish, drives)
    if len(ours) != len(drives):
        raise membership.mixed(wish, ours, [drive for drive in drives if drive not in ours])
    members = membership.consistent(wish, ours)
    return _existing_array(machine, wish, ours, members)


def _is_ours(drive: Drive, wish: Wish) -> bool:
    return (
        drive.member is not None
        and drive.member.local_name == wish.name
        and drive.filesystem is None
        and not drive.signatures
    )


def _new_array(machine: Machine, wish: Wish, drives: tuple[Drive, ...]) -> _Base:
    _refuse_taken_name(machine, wish, set())
    warnings = []
    if len({drive.size for drive in drives}) > 1:
        sizes = ", ".join(f"{drive.path} {drive.size}" for drive in drives)
        warnings.append(
            f"the drives differ in size ({sizes} bytes): the end of the array is slower"
        )
    make = CreateArray(wish.node, wish.name, wish.chunk, tuple(drive.path for drive in drives))
    return _Base((make,), "", wish.node, array=NEW, warnings=tuple(warnings))


def _refuse_taken_name(machine: Machine, wish: Wish, own: set[str]) -> None:
    """Raises :class:`Refusal` where an array of other drives than ``own`` has the name: mdadm would
    refuse it too, but after we have stopped ours."""
    others = (link for one in machine.arrays if not own & set(one.members) for link in one.linked)
    if wish.name in (*machine.taken_nodes, *others):
        raise Refusal(
            (f"expected the name {wish.node} to be free: an array of other drives has it",)
        )


def _existing_array(
    machine: Machine, wish: Wish, drives: list[Drive], members: list[Member]
) -> _Base:
    names = {drive.name for drive in drives}
    uuid = members[0].uuid
    order = {member.role: drive.path for drive, member in zip(drives, members)}
    devices = tuple(order[role] for role in sorted(order))
    running = [array for array in machine.arrays if set(array.members) & names]
    allowed = tuple(array.name for array in running)
    bare = any(array.active and array.bare for array in running)
    wrong = [
        f"expected {drive.title} to be used by the array alone: {reason}"
        for drive in drives
        for reason in (
            *obstacles.uses(drive, machine.mounts, but=allowed),
            *(obstacles.opened(drive) if bare else ()),
        )
    ]
    foreign = [array for array in running if array.active and set(array.members) != names]
    if wrong or foreign or len(running) > 1:
        wrong += [
            f"expected one array of {', '.join(sorted(names))}, found {array.path} of "
            f"{', '.join(array.members)}"
            for array in (foreign or running if not wrong else foreign)
        ]
        raise Refusal(tuple(wrong))
    _refuse_taken_name(machine, wish, names)
    if not running:
        return _Base((Assemble(wish.node, uuid, devices),), "", wish.node, uuid, unknown=True)
    array = running[0]
    if not array.active:
        again = Assemble(wish.node, uuid, devices, stop=array.path)
        return _Base((again,), "", wish.node, uuid, unknown=True)
    return _running_array(machine, wish, array, uuid, devices)


def _running_array(
    machine: Machine, wish: Wish, array: Running, uuid: str, devices: tuple[str, ...]
) -> _Base:
    steps: tuple[Step, ...] = ()
    warnings: tuple[str, ...] = ()
    wrong = obstacles.uses(array, machine.mounts, but=mountpoint.all_of(machine, array.name))
    if array.signatures or array.filesystem is None:
        # Random drives make a random array, and drives that had to be blank a blank one.
        wrong += obstacles.contents(array, require_blank=wish.require_blank)
    if array.bare:
        wrong += obstacles.opened(array)
    if array.filesystem is None and not array.signatures:
        wrong += _lost_filesystem(machine, wish, uuid)
    if array.filesystem and array.filesystem.unfinished and array.filesystem.label != wish.label:
        wrong.append(f"it holds an unfinished XFS labelled {array.filesystem.label}")
    if wrong:
        raise Refusal((f"expected {array.path} to hold our XFS or nothing: {', '.join(wrong)}",))
    if wish.name not in array.linked:
        if array.given == wish.name:
            steps = (Relink(wish.node, array.path),)
        elif mountpoint.all_of(machine, array.name):
            warnings = (
                f"{array.path} is mounted under another name than {wish.node}, which it gets when "
                f"it is assembled next",
            )
        else:
            steps = (Assemble(wish.node, uuid, devices, stop=array.path),)
    node = wish.node if not warnings else array.path
    return _Base(steps, array.name, node, uuid, array.filesystem, warnings=warnings)


def _lost_filesystem(machine: Machine, wish: Wish, uuid: str) -> list[str]:
    conf = machine.platform.mdadm_conf
    # Our line is written when the filesystem is there, and a new array has a new UUID.
    if not mdadmconf.knows(machine.text(conf), uuid):
        return []
    anew = obstacles.emptying("its drives")
    return [
        f"it had a file system, since {conf} knows it (UUID {uuid}), and shows none; xfs_repair -n "
        f"{wish.node} looks for what is left of it; to make it anew {anew}, or if it had none, "
        f"remove that line"
    ]


def _make(wish: Wish, base: _Base) -> MakeXfs:
    unfinished = base.filesystem is not None
    if wish.drives == 1:
        return MakeXfs(base.node, wish.label, unfinished=unfinished)
    return MakeXfs(base.node, wish.label, wish.chunk, wish.drives, unfinished)


def _own_sources(wish: Wish, base: _Base) -> tuple[str, ...]:
    nodes = (base.node,) if base.device else ()
    return (f"LABEL={wish.label}", wish.node, *nodes)


def _settle(machine: Machine, wish: Wish, base: _Base, uuid: str) -> list[Step]:
    """Files, mount point, mount and timer: all that comes after there is a filesystem."""
    others = [
        device.filesystem.uuid
        for device in (*machine.drives, *machine.arrays)
        if device.filesystem and device.name != base.device
    ]
    own = _own_sources(wish, base)
    steps = managed_files(machine, wish, base.array, uuid, own, others)
    mounted = mountpoint.mounted(machine, wish)
    if wish.mount not in machine.directories:
        steps.append(MakeDirectory(mountpoint.of(machine, wish)))
    if not mounted:
        steps.append(Mount(wish.mount))
    else:
        missing = set(wish.options) & _CHECKED_OPTIONS - set(mounted)
        if not _RESTRICTING & set(wish.options):
            missing |= {
                _UNDONE_BY[one] for one in set(mounted) & _UNDONE_BY.keys() - set(wish.options)
            }
        if missing:
            steps.append(Remount(wish.mount, tuple(sorted(missing))))
    if wish.trim and machine.platform.systemd and not machine.trim_enabled:
        steps.append(EnableTrim())
    return steps


def _warnings(machine: Machine, wish: Wish, base: _Base) -> list[str]:
    found = []
    filesystem = base.filesystem
    if filesystem is not None and not filesystem.unfinished and wish.drives > 1:
        wanted = (wish.chunk, wish.chunk * wish.drives)
        if (filesystem.stripe_unit, filesystem.stripe_width) != wanted:
            found.append(
                f"the XFS on {base.node} has stripes of {filesystem.stripe_unit} by "
                f"{filesystem.stripe_width} bytes instead of {wanted[0]} by {wanted[1]}: it is "
                f"slower than it could be, and only making it anew changes that"
            )
    ours = mountpoint.of(machine, wish)
    others = [point for point in mountpoint.all_of(machine, base.device) if point != ours]
    found += [f"{base.node} is also mounted on {point}" for point in others]
    if machine.crowded:
        found.append(f"{wish.mount} has files of its own, which the mount hides")
    if not machine.platform.systemd and wish.trim:
        found.append("there is no systemctl here: run fstrim every week by other means")
    if wish.initramfs and wish.drives > 1 and not machine.platform.rebuild:
        found.append("there is no update-initramfs or dracut here: the initramfs stays as it is")
    return found
