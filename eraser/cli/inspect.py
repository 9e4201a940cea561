"""``nvme-eraser inspect``: what a drive is, and the profile that drives of its model should fit."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from eraser.cli.output import add_format, printable, show, tell_blind
from eraser.controller.nvme import open_controller
from eraser.controller.spec import SanitizeLog
from eraser.drive import health
from eraser.drive.featuresurvey import survey
from eraser.drive.inspect import facts
from eraser.drive.profile import obstacles, propose, value_of
from eraser.drive.residues import residues
from eraser.erase.plan import Capabilities, offers
from eraser.errors import BadInputError
from eraser.host.sysfs import Host
from eraser.protocol import codec
from eraser.protocol.condition import Condition
from eraser.protocol.identity import ControllerIdentity, pci_address
from eraser.protocol.policy import Label, Limits, Method
from eraser.protocol.profile import FeatureRule, Profile
from eraser.protocol.report import ControllerFacts, HealthRecord
from eraser.state.journal import replace_durably


@dataclass(frozen=True)
class Inspection:
    """Everything that was read. Nothing was changed."""

    address: str
    identity: ControllerIdentity
    facts: ControllerFacts
    features: tuple[FeatureRule, ...]
    health: HealthRecord
    methods: tuple[Method, ...]
    """What the drive says that it can do."""
    sanitize: str
    """The state in log 81h, empty on a drive without Sanitize."""
    profile: str | None
    """The file that the proposal was written to."""
    residues: tuple[str, ...]
    """What would stay on the drive whatever is sent to it."""
    obstacles: tuple[str, ...]
    """What keeps a drive from being handed out, whatever its profile says."""


def add_arguments(parser: argparse.ArgumentParser, _verb: str) -> None:
    """The options."""
    parser.add_argument("--pci", required=True, metavar="ADDRESS", help="such as 0000:01:00.0")
    parser.add_argument(
        "--save",
        type=Path,
        metavar="FILE",
        help="write a profile that this drive fits, for a person to read and approve; do it once "
        "for each model, on a drive as it came from its maker (docs/profiles.md)",
    )
    parser.add_argument(
        "--save-identity",
        type=Path,
        metavar="FILE",
        help="write who this drive is, for 'erase --identity FILE'; do it while you know which "
        "drive you look at",
    )
    parser.add_argument(
        "--name", default="", help="the profile's name (default: model and firmware)"
    )
    parser.add_argument(
        "--command-timeout",
        type=float,
        default=Limits().command,
        metavar="SECONDS",
        help="for one command (default: %(default)g); more only for a drive that is slow to wake",
    )
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Reads and shows. The drive must be on the ``nvme`` driver.

    Raises ``BadInputError`` for a wrong address or time limit, and any other ``EraserError``.
    """
    try:
        address = pci_address(arguments.pci)
        limits = Limits(command=arguments.command_timeout)
    except ValueError as error:
        raise BadInputError(str(error)) from error
    host = Host()
    tell_blind(host)
    controller = open_controller(
        host, address, timeout=limits.command, command_timeout=limits.command, by_ioctl=True
    )
    # All of it in one session: it is about one drive, and the rest needs none.
    with controller:
        identify, identity = controller.identify(), controller.identity()
        found, rules = facts(controller), survey(controller)
        state = health.read(controller.smart_log())
        sanitize = ""
        if identify.can_sanitize:
            sanitize = SanitizeLog.parse(controller.sanitize_log()).state.value
    saved = None
    # Written only now: a drive that does not answer leaves no file.
    if arguments.save is not None:
        _write(arguments.save, propose(identity, found, rules, arguments.name))
        saved = str(arguments.save)
    if arguments.save_identity is not None:
        _write(arguments.save_identity, identity)
    capabilities = Capabilities.of(identify)
    methods = tuple(method for method in Method if offers(method, capabilities))
    inspection = Inspection(
        address,
        identity,
        found,
        rules,
        state,
        methods,
        sanitize,
        saved,
        # By the best that the drive can do, for no policy is known here.
        residues(None, found, Label.PURGE if identify.can_sanitize else Label.CLEAR),
        tuple(obstacles(found)),
    )
    if arguments.format == "json":
        show(inspection, "json")
    else:
        for name, text in lines(inspection):
            print(f"{name:<20} {printable(text)}")
    return 0


def _write(path: Path, what: Profile | ControllerIdentity) -> None:
    data = codec.canonical(what) + b"\n"
    try:
        # Never in the place of a link, a device or a pipe: /dev/stdout is the whole host's.
        if path.is_symlink() or (path.exists() and not path.is_file()):
            path.write_bytes(data)
        else:
            replace_durably(path, data, 0o644)
    except OSError as error:
        raise BadInputError(f"expected to write {path}, found {error.strerror}") from error


def lines(inspection: Inspection) -> Iterator[tuple[str, str]]:
    """For people: a name and a line each, in the order in which one would ask. Pure."""
    identity, found, state = inspection.identity, inspection.facts, inspection.health
    yield "address", inspection.address
    yield "model", f"{identity.model} ({identity.vendor_id:04x}:{identity.device_id:04x})"
    yield "serial", identity.serial
    yield "subsystem", identity.subnqn
    yield "firmware", found.firmware
    yield (
        "capacity",
        f"{found.total_bytes} bytes, {found.unallocated_bytes} of them in no namespace",
    )
    for kind, namespaces in (("namespace", found.namespaces), ("detached", found.detached)):
        for each in namespaces:
            yield (
                f"{kind} {each.nsid}",
                (
                    f"{each.size} bytes, blocks of {each.block_bytes} + {each.metadata_bytes}, "
                    f"LBA format {each.lba_format}, protection {each.protection:#x}"
                    f"{f', CSI {each.command_set}' if each.command_set else ''}"
                ),
            )
    yield "methods", ", ".join(inspection.methods) or "none: this drive cannot be erased"
    if inspection.sanitize:
        yield "last sanitize", inspection.sanitize
    yield from _condition_lines(found.condition or Condition())
    for rule in inspection.features:
        where = f", namespace {rule.nsid}" if rule.nsid else ""
        value = value_of(rule)
        yield f"feature {rule.fid:#04x}", f"{value} ({rule.name}{where}, {rule.comparator})"
    yield (
        "health",
        (
            f"{state.percentage_used} % used, {state.available_spare} % spare (threshold "
            f"{state.spare_threshold} %), critical warning {state.critical_warning:#04x}, "
            f"{state.media_errors_after} media errors, {state.temperature_kelvin - 273} C"
        ),
    )
    for text in inspection.residues:
        yield "not erasable", text
    for text in inspection.obstacles:
        yield "IN THE WAY", text.removeprefix("profile: ")
    if inspection.profile is not None:
        yield "profile", f"{inspection.profile}: read it, correct it, then approve it"


def _condition_lines(found: Condition) -> Iterator[tuple[str, str]]:
    if found.firmware is not None:
        for slot, held in enumerate(found.firmware.revisions, start=1):
            # What is true of this slot, in the words for people.
            marks = [
                word
                for word, true in (
                    ("running", slot == found.firmware.active),
                    ("activated by the next reset", slot == found.firmware.pending),
                    ("read only", slot == 1 and found.firmware.first_read_only),
                )
                if true
            ]
            yield f"firmware slot {slot}", ", ".join([held or "empty", *marks])
    if found.controllers != 1:
        yield "controllers", str(found.controllers or "more than one; it does not list them")
    if found.security is not None:
        words = [
            word
            for word, true in (
                ("locking enabled", found.security.locking_enabled),
                ("locked", found.security.locked),
                ("shadow MBR", found.security.shadow_mbr),
                ("the owner's password was changed", found.security.sid_changed),
                ("taking ownership is blocked", found.security.sid_blocked),
                ("an ATA password is set", found.security.password_set),
                ("locked by its ATA password", found.security.password_locked),
                (
                    "whether the owner's password was changed is not told",
                    found.security.owner_untold,
                ),
            )
            if true
        ]
        yield "security", ", ".join([*found.security.sets, *words]) or "none"
    if found.boot is not None:
        yield "boot partitions", f"two of {found.boot.size} bytes, {found.boot.active} active"
    if found.buffers:
        yield "memory", ", ".join(buffer.words for buffer in found.buffers)
    if found.flexible is not None:
        shared = found.flexible
        yield (
            "flexible",
            f"{shared.queues} queues and {shared.interrupts} interrupts of the physical function",
        )
    if found.lockdown is not None:
        locked = [f"opcode {n:#04x}" for n in found.lockdown.opcodes]
        locked += [f"feature {n:#04x}" for n in found.lockdown.features]
        yield "locked down", ", ".join(locked) or "nothing"
