"""Serve one drive on one or more vfio-user sockets.

    python -m tests.lab.nvme.server --backing d0.raw --socket d0.sock [--socket d0b.sock ...]
        --preset honest --serial S1 --size 1G [--control d0.ctl] [--faults JSON] [--profile JSON]
        [--pristine] [--composed FILE]

A preset ``composed:SEED`` is a drive that the grammar of ``docs/composed.md`` makes.

Prints one line ``ready`` when all sockets listen; ends on SIGTERM or SIGINT. Killing it is a
power cut: the same command afterwards is the drive powered up again.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.lab.nvme import leftovers
from tests.lab.nvme.composed import build
from tests.lab.nvme.composed.description import Description
from tests.lab.nvme.control import ControlServer
from tests.lab.nvme.drive import Drive
from tests.lab.nvme.errors import DriveError
from tests.lab.nvme.faults import HEALTHY, Faults
from tests.lab.nvme.jsonform import from_json, to_json
from tests.lab.nvme.leftovers import NOTHING, Leftovers
from tests.lab.nvme.presets import PRESETS, preset
from tests.lab.nvme.profile import DriveProfile
from tests.lab.nvme.state import state_path
from tests.lab.nvme.vfio_user import VfioUserServer

_PR_SET_PDEATHSIG = 1
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class DriveServer:
    """One drive and its sockets in this process."""

    def __init__(
        self,
        profile: DriveProfile,
        backing: Path,
        sockets: Sequence[Path],
        *,
        control: Path | None = None,
        faults: Faults = HEALTHY,
        left: Leftovers = NOTHING,
        composed: Description | None = None,
    ) -> None:
        """Start serving; ``left`` is done to a new drive. Raises DriveError on unusable files."""
        new = not state_path(backing).exists()
        nature = build.nature_of(composed) if composed else None
        self.drive = Drive(profile, backing, faults, nature)
        if new and composed:
            build.leave(self.drive, composed)
        if new and left.names:
            leftovers.apply(self.drive, left)
        self.functions = [VfioUserServer(self.drive, path) for path in sockets]
        self._control = ControlServer(self.drive, control) if control else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving and switch the drive off."""
        if self._control:
            self._control.close()
        for function in self.functions:
            function.close()
        self.drive.close()


def parse_size(text: str) -> int:
    """Bytes of ``1920000000000``, ``512M`` or ``1.9T`` (binary units), rounded down to 4 KiB."""
    unit = _UNITS.get(text[-1:].upper(), 1)
    number = text[:-1] if unit > 1 else text
    try:
        return int(float(number) * unit) // 4096 * 4096
    except ValueError:
        raise DriveError(f"a size should look like 512M or 1.9T, found {text!r}") from None


def customise(profile: DriveProfile, changes: dict[str, Any]) -> DriveProfile:
    """A profile with fields replaced; nested objects are merged field by field."""
    return from_json(DriveProfile, _merged(to_json(profile), changes))


def _merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for name, value in changes.items():
        old = result.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            result[name] = _merged(old, value)
        else:
            result[name] = value
    return result


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab.nvme.server",
        description="Serve a model of an NVMe drive to QEMU's vfio-user-pci device.",
        epilog="presets: " + "; ".join(f"{p.name} ({p.about})" for p in PRESETS.values()),
    )
    parser.add_argument("--backing", type=Path, required=True, help="file with the drive's bytes")
    parser.add_argument(
        "--socket",
        type=Path,
        action="append",
        required=True,
        dest="sockets",
        help="vfio-user socket to listen on; several are functions of the same drive",
    )
    parser.add_argument("--control", type=Path, help="socket for faults and power")
    parser.add_argument("--preset", default="honest", help="which drive (default: honest)")
    parser.add_argument(
        "--composed", type=Path, help="JSON file: a drive's description, in place of a preset"
    )
    parser.add_argument("--serial", help="serial number, at most 20 characters")
    parser.add_argument("--size", help="size such as 512M or 1.92T (default: the preset's)")
    parser.add_argument("--profile", default="{}", help="JSON object: fields of DriveProfile")
    parser.add_argument("--faults", help="JSON object: Faults, in place of the preset's")
    parser.add_argument(
        "--pristine",
        action="store_true",
        help="a new drive is as from the factory, without what the preset's tenant left",
    )
    parser.add_argument(
        "--die-with-parent", action="store_true", help="end when the starting process ends"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until a signal; 2 when the drive cannot be set up."""
    options = _parse(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    if options.die_with_parent:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signals = {signal.SIGTERM, signal.SIGINT}
    # Blocked before any thread exists, so that every thread leaves them to sigwait below.
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        chosen = preset(options.preset)
        if options.composed:
            chosen = build.preset_of(build.load(options.composed))
        profile = customise(chosen.profile, json.loads(options.profile))
        if options.serial is not None:
            profile = replace(profile, serial=options.serial)
        if options.size:
            profile = replace(profile, size=parse_size(options.size))
        faults = chosen.faults
        if options.faults:
            faults = from_json(Faults, json.loads(options.faults))
        server = DriveServer(
            profile,
            options.backing,
            options.sockets,
            control=options.control,
            faults=faults,
            left=NOTHING if options.pristine else chosen.left,
            composed=chosen.composed,
        )
    except (DriveError, OSError, ValueError) as error:
        print(f"drive server: {error}", file=sys.stderr)
        return 2
    with server, contextlib.suppress(KeyboardInterrupt):
        print("ready", flush=True)
        signal.sigwait(signals)
    return os.EX_OK


if __name__ == "__main__":
    sys.exit(main())
