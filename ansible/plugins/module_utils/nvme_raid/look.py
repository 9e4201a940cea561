"""Looking at the machine: all facts at once, nothing is changed."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from . import command, content, files, fstab, openers, reading, superblocks
from .candidates import wanted
from .errors import RaidError
from .model import Content, Device, Drive, Machine, Platform, Running, Sampled, Wish
from .platforms import platform
from .sysfs import Sysfs

_NOTHING_FOUND = 2
"""blkid's exit code for a device without any signature (blkid(8))."""
_AMBIVALENT = 8
_LOOKS = 3
_MD_MEMBER = "an md superblock"


def look(wish: Wish) -> Machine:
    """All facts. Raises :class:`RaidError` where the machine cannot be asked, or a drive goes."""
    try:
        for _ in range(_LOOKS):
            machine, went = _look(wish, openers.lasting)
            if not went:
                return machine
        # Somebody comes and goes: who is there now counts as one who stays.
        machine, went = _look(wish, lambda numbers: (openers.openers(numbers), False))
    except OSError as error:
        raise RaidError(
            f"expected to look at {error.filename or 'the machine'}, found {error.strerror}"
        ) from error
    if went:
        raise RaidError(
            "expected drives to which nobody writes, found that somebody did at each look; stop "
            "it, and run this again"
        )
    return machine


def _look(
    wish: Wish,
    opened: Callable[[openers.Numbers], tuple[dict[str, tuple[str, ...]], bool]],
) -> tuple[Machine, bool]:
    """One look, and whether somebody wrote to a drive since its content was read, or had it open
    and let go of it: what was seen there is old then."""
    # At boot udev may just be assembling the array: half of one would be taken for a broken one.
    command.settle()
    sysfs = Sysfs()
    before = {name: sysfs.written(name) for name in (*sysfs.namespaces(), *sysfs.arrays())}
    mounts = sysfs.mounts()
    system = sysfs.system(mounts)
    swaps = sysfs.swaps()
    drives = tuple(_drive(sysfs, name, swaps, system, wish.only) for name in sysfs.namespaces())
    names = {drive.name for drive in drives}
    asked = {drive.name for drive in drives if not drive.system and wanted(drive, wish.only)}
    links = sysfs.links()
    members = {name: sysfs.children(name, "slaves") for name in sysfs.arrays()}
    near = [name for name, those in members.items() if names & set(those) and name not in system]
    arrays = tuple(_array(sysfs, name, swaps, members[name], links, asked) for name in near)
    free = _maybe_made_on(drives, arrays, asked)
    numbers = {node: name for name in free for node in sysfs.nodes(name)}
    who, went = opened(numbers) if numbers else ({}, False)
    found = platform()
    paths = (found.mdadm_conf, files.DRACUT, fstab.PATH)
    texts = {path: text for path in paths if (text := _text(path)) is not None}
    point = os.path.realpath(wish.mount)
    here = any(mount.point == point for mount in mounts)
    exists = os.path.isdir(wish.mount)
    machine = Machine(
        platform=found,
        drives=tuple(replace(one, openers=who.get(one.name, ())) for one in drives),
        arrays=tuple(replace(one, openers=who.get(one.name, ())) for one in arrays),
        mounts=mounts,
        taken_nodes=tuple(sorted(link for link, name in links.items() if name not in near)),
        files=tuple(texts.items()),
        point=point,
        directories=(wish.mount,) if exists else (),
        crowded=not here and exists and bool(os.listdir(wish.mount)),
        no_directory=_no_directory(wish.mount),
        trim_enabled=_trim_enabled(found),
        initramfs_stamp=(_text(files.STAMP) or "").strip(),
    )
    # Last: from here on nothing but the decision comes before what is made there.
    return machine, went or any(before.get(name) != sysfs.written(name) for name in free)


def _no_directory(path: str) -> str:
    """What keeps the mount point from being a directory; nothing where it is one, or not there."""
    try:
        return "" if stat.S_ISDIR(os.stat(path).st_mode) else "a file"
    except FileNotFoundError:
        return ""
    except OSError as error:
        # A filesystem that lost a drive stays mounted and answers with errors.
        return str(error.strerror)


def _maybe_made_on(
    drives: Sequence[Drive], arrays: Sequence[Running], asked: Collection[str]
) -> list[str]:
    """On what an array or a filesystem may be made, by what is on it; members of a bare array, too:
    who has one open writes below the array."""
    bare = [
        one
        for one in arrays
        if one.active and one.bare and not one.signatures and set(asked) & set(one.members)
    ]
    below = {name for array in bare for name in array.members}
    free = [
        one.name
        for one in drives
        if one.name in asked
        and (one.name in below or (one.bare and not one.member and not one.signatures))
    ]
    return free + [array.name for array in bare]


def _drive(
    sysfs: Sysfs,
    name: str,
    swaps: frozenset[str],
    system: frozenset[str],
    only: tuple[str, ...],
) -> Drive:
    address, model, serial = sysfs.describe(name)
    drive = Drive(
        name,
        address=address,
        model=model,
        serial=serial,
        size=sysfs.size(name),
        partitions=sysfs.partitions(name),
        holders=sysfs.children(name, "holders"),
        exports=sysfs.exports(name),
        swap=name in swaps,
        read_only=sysfs.read_only(name),
        system=name in system,
    )
    if drive.system:
        # It is nobody's candidate: not one byte of it is read.
        return drive
    head, error = _head(drive)
    if error is not None:
        return replace(drive, sampled=error)
    if not wanted(drive, only):
        # Nothing is made on it. Its filesystem tells whose a line in fstab is.
        return replace(drive, filesystem=superblocks.xfs(head))
    at = superblocks.MD_OFFSET
    drive = replace(
        drive,
        busy=reading.is_busy(drive.path),
        member=superblocks.md_member(head[at : at + superblocks.MD_LENGTH]),
        filesystem=superblocks.xfs(head),
    )
    known = {"linux_raid_member", _MD_MEMBER} if drive.member else set()
    known |= {"xfs"} if drive.filesystem else set()
    drive = replace(drive, signatures=_signatures(drive.path, known))
    if drive.member or drive.filesystem or drive.signatures:
        return drive
    return replace(drive, sampled=_sampled(drive, sysfs.size(name), head))


def _array(
    sysfs: Sysfs,
    name: str,
    swaps: frozenset[str],
    members: tuple[str, ...],
    links: dict[str, str],
    asked: Collection[str],
) -> Running:
    array = Running(
        name,
        members=members,
        active=sysfs.active(name),
        linked=tuple(sorted(link for link, target in links.items() if target == name)),
        partitions=sysfs.partitions(name),
        holders=sysfs.children(name, "holders"),
        exports=sysfs.exports(name),
        swap=name in swaps,
        read_only=sysfs.read_only(name),
    )
    if not array.active:
        return array
    head, error = _head(array)
    if error is not None:
        return replace(array, sampled=error)
    filesystem = superblocks.xfs(head)
    if not set(asked) & set(members):
        return replace(array, filesystem=filesystem)
    array = replace(
        array,
        given=_given_name(array.path),
        busy=reading.is_busy(array.path),
        filesystem=filesystem,
        signatures=_signatures(array.path, {"xfs"} if filesystem else set()),
    )
    if array.filesystem or array.signatures:
        return array
    return replace(array, sampled=_sampled(array, sysfs.size(name), head))


def _head(device: Device) -> tuple[bytes, Sampled | None]:
    try:
        with reading.opened(device.path) as fd:
            return reading.read(fd, 0, reading.EDGE), None
    except OSError:
        return b"", Sampled(Content.UNREADABLE, 0)


def _sampled(device: Device, size: int, head: bytes) -> Sampled:
    # Other places each time, so that a second look is not the same look.
    places = reading.places(size, seed=int.from_bytes(os.urandom(8), "little"))
    samples = [(0, head)]
    with reading.opened(device.path) as fd:
        for offset, length in places[1:]:
            try:
                samples.append((offset, reading.read(fd, offset, length)))
            except OSError:
                return Sampled(Content.UNREADABLE, offset)
    return content.judge(samples)


def _signatures(path: str, known: set[str]) -> tuple[str, ...]:
    """What the three tools recognise, without what our own parsers know already."""
    found = _blkid(path) | _wipefs(path) | _mdadm(path)
    return tuple(sorted(found - known))


def _blkid(path: str) -> set[str]:
    done = command.run(["blkid", "-p", "-o", "export", path])
    if done.code == _AMBIVALENT:
        return {"more than one signature (blkid)"}
    if done.code not in (0, _NOTHING_FOUND):
        raise RaidError(f"expected blkid to look at {path}, it ended with {done.code}")
    lines = dict(line.partition("=")[::2] for line in done.output.splitlines())
    found = {lines["TYPE"]} if "TYPE" in lines else set()
    return found | ({f"a {lines['PTTYPE']} partition table"} if "PTTYPE" in lines else set())


def _wipefs(path: str) -> set[str]:
    done = command.must(["wipefs", "--json", path])
    listed = json.loads(done.output or "{}").get("signatures") or []
    # It calls a partition table by the same short name as blkid does.
    tables = {"gpt", "dos", "PMBR", "atari", "bsd", "mac", "sgi", "sun"}
    types = [str(entry.get("type")) for entry in listed]
    return {f"a {kind} partition table" if kind in tables else kind for kind in types}


def _mdadm(path: str) -> set[str]:
    """Members of arrays of any metadata: blkid does not know each of them."""
    done = command.run(["mdadm", "--examine", "--export", path])
    member = any(line.startswith("MD_") for line in done.output.splitlines())
    return {_MD_MEMBER} if done.code == 0 and member else set()


def _given_name(path: str) -> str:
    done = command.run(["mdadm", "--detail", "--export", path])
    lines = dict(line.partition("=")[::2] for line in done.output.splitlines())
    return lines.get("MD_DEVNAME", "")


def _trim_enabled(found: Platform) -> bool:
    return found.systemd and command.run(["systemctl", "is-enabled", "fstrim.timer"]).code == 0


def _text(path: str) -> str | None:
    try:
        # Whatever bytes are in it go back unchanged.
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as handle:
            return handle.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RaidError(f"expected to read {path}, found {error.strerror}") from error
