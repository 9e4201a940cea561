"""Why a drive or an array may not be built on: the reasons, in words, or none."""

from __future__ import annotations

from .model import Content, Device, Drive, Machine, Member, Mounted, Wish


def uses(device: Device, mounts: tuple[Mounted, ...], but: tuple[str, ...] = ()) -> list[str]:
    """Who has the device now. ``but`` are holders and mount points that are allowed."""
    found = [f"it has the partition {name}" for name in device.partitions]
    builds = (*device.holders, *device.exports)
    found += [f"{name} is built on it" for name in builds if name not in but]
    points = [mount.point for mount in mounts if mount.device == device.name]
    found += [f"it is mounted on {point}" for point in points if point not in but]
    if device.swap:
        found.append("it is swap space")
    if device.read_only:
        found.append("it is read-only")
    known = bool(device.partitions or device.holders or points or device.swap)
    if device.busy and not known:
        found.append("another program has it open")
    return found


def opened(device: Device) -> list[str]:
    """Who would write to the device below what is made on it."""
    return [f"{who} has it open" for who in device.openers]


def contents(device: Device, *, require_blank: bool) -> list[str]:
    """What the device holds, but for an md member and an XFS: the caller judges those."""
    if device.signatures:
        return ["it holds " + ", ".join(device.signatures)]
    sampled = device.sampled
    if sampled.content is Content.DATA:
        return [f"it holds data without a signature, at byte {sampled.where}"]
    if sampled.content is Content.UNREADABLE:
        return [f"it cannot be read at byte {sampled.where}"]
    if sampled.content is Content.NOISE and require_blank:
        return [
            f"it holds random bytes, at byte {sampled.where}: what a crypto erase leaves, but also "
            "what an encrypted volume looks like, and blank drives were asked for"
        ]
    return []


def of_a_drive(drive: Drive, wish: Wish, machine: Machine) -> list[str]:
    """Why nothing may be made on a drive that has to be free."""
    found = uses(drive, machine.mounts) + opened(drive)
    if drive.member is not None:
        found.append(f"it is a member of the array {described(drive.member)}")
    if drive.filesystem is not None:
        label = drive.filesystem.label
        found.append("it holds an XFS " + (f"labelled {label}" if label else "without a label"))
    return found + contents(drive, require_blank=wish.require_blank)


def described(member: Member) -> str:
    """An array, as its member tells of it."""
    return f"{member.name or 'without a name'} (RAID {member.level}, UUID {member.uuid})"


def emptying(what: str) -> str:
    """How a person makes drives free. wipefs alone takes the signatures and leaves the data, which
    is found; blkdiscard without -f keeps its hands off a drive in use."""
    return f"empty {what} (mdadm --stop the array, wipefs -a and then blkdiscard -z on each)"
