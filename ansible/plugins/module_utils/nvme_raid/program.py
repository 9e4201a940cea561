"""The same without Ansible: one program, for cloud-init or by hand."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from . import diffs
from .act import act
from .converge import Outcome, converge
from .errors import RaidError, Refusal
from .look import look
from .model import Wish
from .wish import checked

DONE = 0
FAILED = 1
USAGE = 2
"""argparse's own."""
REFUSED = 3
LOCK = "/run/nvme-raid.lock"
LOCK_SECONDS = 600.0
"""Longer than another run takes that makes an array, its filesystem and an initramfs."""

_EPILOG = """exit codes: 0 the array is there and mounted; 1 something failed;
3 refused: drives hold something, are in use, too few or too many. Nothing was changed, or the
output names what was: an array may have to be assembled to see what it holds"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    chosen = _parser().parse_args(arguments)
    try:
        with locked(make=not chosen.check):
            outcome = converge(_wish(chosen), look=look, act=act, check=chosen.check)
    except Refusal as refusal:
        if refusal.done:
            print(f"nvme-raid: {refusal.heading}", file=sys.stderr)
        for reason in refusal.reasons:
            print(f"nvme-raid: refused: {reason}", file=sys.stderr)
        return REFUSED
    except RaidError as error:
        if error.done:
            print(f"nvme-raid: {error.heading}", file=sys.stderr)
        print(f"nvme-raid: {error}", file=sys.stderr)
        return FAILED
    _show(outcome, chosen)
    return DONE


def asked(arguments: Sequence[str]) -> Wish:
    """What a command line asks for, without looking at the machine. Ends like argparse where it
    cannot be read, raises :class:`Refusal` where it cannot be had."""
    return checked(_wish(_parser().parse_args(arguments)))


@contextmanager
def locked(path: str = "", *, make: bool = True) -> Iterator[None]:
    """One at a time: cloud-init and Ansible may come together. Without ``make`` nothing is written:
    where there is no lock, nobody ran yet. Raises ``RaidError``, also where the other one does not
    end: whoever waits for us would hear nothing."""
    path = path or LOCK
    try:
        fd = os.open(path, os.O_RDWR | (os.O_CREAT if make else 0) | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not make and os.geteuid() == 0:
            yield
            return
        raise RaidError(f"expected to open {path}, found {error.strerror}; run as root") from error
    try:
        _take(fd, path)
        yield
    finally:
        os.close(fd)


def _take(fd: int, path: str) -> None:
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() > until:
                raise RaidError(
                    f"expected the other run that has {path} to end in {LOCK_SECONDS:g} s; "
                    f"'fuser {path}' names it"
                ) from error
        time.sleep(0.2)


def _wish(chosen: argparse.Namespace) -> Wish:
    return Wish(
        drives=chosen.drives,
        name=chosen.name,
        label=chosen.label or chosen.name[:12],
        mount=chosen.mount.rstrip("/") or "/",
        chunk=chosen.chunk << 10,
        only=tuple(chosen.only),
        require_blank=chosen.require_blank,
        device_timeout=chosen.device_timeout,
        options=tuple(chosen.options.split(",")) if chosen.options else (),
        before=tuple(chosen.before),
        trim=chosen.trim,
        initramfs=chosen.initramfs,
    )


def _show(outcome: Outcome, chosen: argparse.Namespace) -> None:
    plan = outcome.plan
    if chosen.format == "json":
        print(
            json.dumps(
                {
                    "changed": outcome.changed,
                    "steps": [step.text for step in outcome.steps],
                    "warnings": outcome.warnings,
                    "drives": plan.drives,
                    "device": plan.device,
                    "uuid": plan.filesystem,
                    "mount": chosen.mount,
                },
                indent=1,
            )
        )
        return
    for step in outcome.steps:
        print(("would " if chosen.check else "") + step.text)
    if chosen.diff:
        print(diffs.text(outcome.steps), end="")
    for warning in outcome.warnings:
        print(f"nvme-raid: note: {warning}", file=sys.stderr)
    if not outcome.changed:
        print(f"nothing to do: {plan.device} is mounted on {chosen.mount}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nvme-raid",
        description="RAID 0 and XFS over this instance's own NVMe drives; safe at every boot",
        epilog=_EPILOG,
    )
    add = parser.add_argument
    add("--drives", type=int, required=True, help="how many the flavor has (i1-45 1, i1-90 2, ...)")
    add("--name", default=Wish.name, help="of the array, as /dev/md/NAME (default: %(default)s)")
    add("--label", default="", help="of the XFS (default: the name); 12 characters at most")
    add("--mount", default=Wish.mount, help="mount point (default: %(default)s)")
    add("--chunk", type=int, default=Wish.chunk >> 10, help="KiB per drive (default: %(default)s)")
    add(
        "--only",
        action="append",
        default=[],
        help="PCI address, serial or model (* and ? allowed); for instances whose boot or data "
        "volumes are NVMe too; may be repeated",
    )
    add(
        "--require-blank",
        action="store_true",
        help="refuse drives of random bytes: an encrypted volume without header looks so",
    )
    add("--device-timeout", type=int, default=Wish.device_timeout, help="seconds at boot (30)")
    add(
        "--options",
        default=",".join(Wish.options),
        help="of the mount, with commas; '' for none (%(default)s)",
    )
    add("--before", action="append", default=[], help="systemd unit that needs the mount")
    add("--no-trim", dest="trim", action="store_false", help="leave fstrim.timer alone")
    add(
        "--no-initramfs",
        dest="initramfs",
        action="store_false",
        help="never rebuild it: for images that are made without one",
    )
    add("--check", action="store_true", help="say what there is to do, change nothing")
    add("--diff", action="store_true", help="show how files change")
    add("-f", "--format", choices=("text", "json"), default="text", help="of the output")
    return parser
