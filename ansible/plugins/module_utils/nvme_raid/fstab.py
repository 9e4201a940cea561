"""Our line in /etc/fstab. Text in, text out; what is not ours stays as it is, byte for byte."""

from __future__ import annotations

from collections.abc import Sequence

from .errors import Refusal
from .model import Wish

PATH = "/etc/fstab"
MARK = "x-nvme-raid="
"""An option that mount and systemd pass over (mount(8): x- is for userspace): it marks our line,
also when the drives behind it are gone."""


def line(wish: Wish, uuid: str) -> str:
    """The line that is wanted."""
    options = [*wish.options, "nofail", f"x-systemd.device-timeout={wish.device_timeout}s"]
    if wish.before:
        # With units of its own the generator forgets the usual one (systemd.mount(5)).
        options.append("x-systemd.wanted-by=local-fs.target")
    for unit in wish.before:
        # Both: to start after the mount, and not at all without it.
        options += [f"x-systemd.before={unit}", f"x-systemd.required-by={unit}"]
    options.append(MARK + wish.name)
    return f"UUID={uuid} {wish.mount} xfs {','.join(options)} 0 0"


def by_label(text: str, label: str, name: str) -> tuple[int, str] | None:
    """Number and mount point of the first line that mounts something by a label and is none of
    ours."""
    sources = (f"LABEL={label}", f"/dev/disk/by-label/{label}")
    for number, old in enumerate(text.splitlines(), 1):
        fields = old.split()
        named = len(fields) > 3 and fields[0].replace('"', "") in sources
        if label and named and MARK + name not in fields[3].split(","):
            return number, fields[1]
    return None


def edited(
    text: str,
    wish: Wish,
    uuid: str,
    own: Sequence[str],
    *,
    others: Sequence[str] = (),
    point: str = "",
) -> str:
    """The file with exactly one line of ours, at the place of the first one it has.

    ``own`` are further sources that mean our filesystem (``LABEL=...``, ``/dev/md/...``): a line
    with one of them for our mount point was ours before somebody edited it. ``others`` are the
    UUIDs of other filesystems that are here now: their lines stay, though they have our mark (two
    drives, each with its own and both by the default name). ``point`` is the mount point without
    links. Raises :class:`Refusal` where it is promised to something else.
    """
    wanted = line(wish, uuid)
    sources = {f"UUID={uuid}", *own}
    theirs = {f"UUID={other}" for other in others}
    kept: list[str] = []
    placed = False
    for number, old in enumerate(text.splitlines(keepends=True), 1):
        fields = old.split()
        if not fields or fields[0].startswith("#"):
            kept.append(old)
            continue
        source = fields[0].replace('"', "")
        here = len(fields) > 1 and fields[1].rstrip("/") in (wish.mount, point or wish.mount)
        marked = len(fields) > 3 and MARK + wish.name in fields[3].split(",")
        marked = marked and (here or source not in theirs)
        if not marked and not (here and source in sources):
            if here:
                raise Refusal(
                    (
                        f"expected /etc/fstab to leave {wish.mount} to the role, found "
                        f"{fields[0][:80]!a} there in line {number}; remove that line or choose "
                        f"another mount point",
                    )
                )
            kept.append(old)
        elif not placed:
            kept.append(wanted + "\n")
            placed = True
    if not placed:
        if kept and not kept[-1].endswith("\n"):
            kept[-1] += "\n"
        kept.append(wanted + "\n")
    return "".join(kept)
