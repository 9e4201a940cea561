"""``nvme-eraser verify``: an independent second look at a certified drive. It only reads."""

from __future__ import annotations

import argparse
import base64
import binascii
import os
from dataclasses import dataclass
from pathlib import Path

from eraser.cli.output import (
    EXIT_NOT_ERASED,
    EXIT_UNKNOWN,
    add_format,
    read_file,
    show,
    stderr_progress,
)
from eraser.controller.lock import NamespaceHold, SlotLock
from eraser.controller.nvme import Controller, open_controller
from eraser.controller.spec import SanitizeLog
from eraser.controller.unique import check_unique
from eraser.errors import BadInputError, DriveError, IdentityError
from eraser.host.idle import prove_idle
from eraser.host.sysfs import Host
from eraser.media.blocks import block_count
from eraser.media.iocommand import Namespace
from eraser.media.passread import PassthroughReader, Patience
from eraser.media.reader import BlockDevice
from eraser.proof import recheck
from eraser.proof.recheck import Agreement, NamespaceCheck
from eraser.proof.verify import NamespacePlan, Verifier, VerifyPlan
from eraser.protocol import codec
from eraser.protocol.conclusions.claim import Claim
from eraser.protocol.identity import pci_address
from eraser.protocol.policy import Limits, VerificationMode
from eraser.protocol.report import Step
from eraser.protocol.transport import claims
from eraser.state.case_files import DEFAULT_RUN_DIR

_EXITS = {
    Agreement.AGREES: 0,
    Agreement.UNKNOWN: EXIT_UNKNOWN,
    Agreement.DIFFERS: EXIT_NOT_ERASED,
}


@dataclass(frozen=True)
class VerifyResult:
    """The one object that ``verify -f json`` prints."""

    agreement: Agreement
    reasons: tuple[str, ...]
    source: str
    signature: str
    issued_at: str
    serial: str
    model: str
    mode: VerificationMode
    seed: str
    read: int
    """Blocks of 4 KiB."""
    differ: int
    unreadable: int
    namespaces: tuple[NamespaceCheck, ...]
    seal: str
    """What log 81h says of writes since the erase."""
    unchecked: tuple[str, ...]
    bytes_read: int
    seconds: float


def add_arguments(parser: argparse.ArgumentParser, _verb: str) -> None:
    """The options."""
    parser.add_argument("--pci", required=True, metavar="ADDRESS", help="such as 0000:01:00.0")
    parser.add_argument(
        "--certificate",
        required=True,
        type=Path,
        metavar="FILE",
        help="the drive's certificate (JSON or bare JWS), or the report of its erase; its seed "
        "draws the places",
    )
    parser.add_argument(
        "--key",
        type=Path,
        metavar="FILE",
        help="the controller's public key (JWK, nvme-quarantine key show): believe only what it "
        "signed; without it the file is taken as it is, and the answer says so",
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="read every block whatever was read then; when a leftover is suspected between the "
        "places, and the drive may be away for as long as that takes",
    )
    parser.add_argument(
        "--reset",
        action="store_true",
        help="reset the controller first, so that no cache of its answers; not by default, because "
        "a reset also drops settings that somebody may want to look at",
    )
    parser.add_argument("--run-dir", type=Path, default=DEFAULT_RUN_DIR, metavar="DIR")
    parser.add_argument(
        "--command-timeout",
        type=float,
        default=Limits().command,
        metavar="SECONDS",
        help=f"one command to the drive ({Limits().command:g}); raise it for one that is slow",
    )
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Reads the drive and compares.

    Raises ``BadInputError`` for a wrong address or time limit, and any other
    :class:`eraser.errors.EraserError`.
    """
    try:
        address = pci_address(arguments.pci)
        limits = Limits(command=arguments.command_timeout)
    except ValueError as error:
        raise BadInputError(str(error)) from error
    key = None
    if arguments.key is not None:
        key = codec.parse(read_file(arguments.key, "key"), "key")
    name = str(arguments.certificate)
    claim = claims.read(read_file(arguments.certificate, "certificate"), key, name)
    # The slot is locked against erasers and guests that would start: nobody writes meanwhile.
    with SlotLock(address, arguments.run_dir):
        found = _look(Host(), address, claim, limits, full=arguments.full, reset=arguments.reset)
    show(found, arguments.format)
    return _EXITS[found.agreement]


def _look(
    host: Host, address: str, claim: Claim, limits: Limits, *, full: bool, reset: bool
) -> VerifyResult:
    me = frozenset({os.getpid()})
    # Before anything is sent. The driver is not changed for this: the drive has to be on nvme.
    prove_idle(host, address, own_pids=me)
    with open_controller(
        host, address, timeout=limits.ready, command_timeout=limits.command, by_ioctl=True
    ) as controller:
        identity = controller.identity()
        if differences := claim.identity.differences(identity):
            raise IdentityError(
                f"{address}: expected the drive of the {claim.source}, found another: "
                f"{'; '.join(differences)}; nothing was read"
            )
        check_unique(host, identity, address)
        controller.wait_live(limits.ready)
        if reset:
            controller.reset(timeout=limits.ready)
            controller.wait_live(limits.ready)
        with NamespaceHold(controller, writable=False) as hold:
            # Between the first look and the claim somebody may have come.
            prove_idle(host, address, own_pids=controller.pids, claimed=hold.claimed)
            return _compare(controller, hold.paths, claim, limits, full=full)


def _compare(
    controller: Controller, paths: dict[int, str], claim: Claim, limits: Limits, *, full: bool
) -> VerifyResult:
    namespaces = {n: controller.identify_namespace(n) for n in controller.active_namespaces()}
    blocks = {nsid: block_count(found.size) for nsid, found in namespaces.items()}
    # First, for it is told also where the layout is another one.
    seal = _seal(controller, claim)
    # The places of then mean nothing in namespaces of other sizes.
    if differences := recheck.layout_differences(claim, blocks):
        return _found(claim, claim.done, recheck.other_layout(claim, differences), seal, 0, 0.0)
    # An answer about the others alone would pass for one about the drive.
    if missing := sorted(namespaces.keys() - paths.keys()):
        raise DriveError(
            f"expected to read every namespace, found no block device of {missing}; see the "
            "kernel's log"
        )
    patience = Patience(limits.ready, controller.host.clock)
    plan = VerifyPlan(
        VerificationMode.FULL if full else claim.done,
        bytes.fromhex(claim.seed),
        claim.confidence,
        claim.residual,
        tuple(
            NamespacePlan(
                nsid,
                paths[nsid],
                namespace.size,
                rescue=PassthroughReader(
                    Namespace.of(nsid, namespace, limits.command, controller.host), patience
                ),
            )
            for nsid, namespace in sorted(namespaces.items())
        ),
        per_random=0,  # as it was done then, not as it would be cheaper now
        # The sample was drawn over these too: without them its places would be others.
        gone=sum(n.blocks for n in claim.namespaces if n.temporary),
    )
    progress = stderr_progress()
    try:
        result = Verifier(plan, BlockDevice, controller.host.clock).run(
            lambda done, text: progress(Step.VERIFY, done, text)
        )
    finally:
        progress.close()
    assert result is not None, "nobody stops it"
    compared = recheck.compare(claim, result)
    return _found(claim, result.done, compared, seal, result.bytes_read, result.seconds)


def _found(
    claim: Claim,
    mode: VerificationMode,
    found: recheck.Recheck,
    seal: str,
    bytes_read: int,
    seconds: float,
) -> VerifyResult:
    return VerifyResult(
        agreement=found.agreement,
        reasons=found.reasons,
        source=claim.source,
        signature=claim.signature,
        issued_at=claim.issued_at,
        serial=claim.identity.serial,
        model=claim.identity.model,
        mode=mode,
        seed=claim.seed,
        read=found.read,
        differ=found.differ,
        unreadable=found.unreadable,
        namespaces=found.namespaces,
        seal=seal,
        unchecked=found.unchecked,
        bytes_read=bytes_read,
        seconds=round(seconds, 3),
    )


def _seal(controller: Controller, claim: Claim) -> str:
    """Global Data Erased in log 81h (Base 5.16.1.25): for people, nothing is decided on it."""
    if not claim.log_after:
        return "none: the drive was erased by Format, which leaves no seal"
    try:
        then = SanitizeLog.parse(base64.b64decode(claim.log_after, validate=True))
    except (binascii.Error, ValueError) as error:
        raise BadInputError(f"expected log 81h in Base64, found {error}") from error
    now = SanitizeLog.parse(controller.sanitize_log())
    if not then.global_data_erased:
        return "none: the drive did not set Global Data Erased then"
    # Another dword 10 is another command's; the same command once more is not told from the first.
    if now.global_data_erased and now.cdw10 == then.cdw10:
        return "unbroken: the drive says that nothing was written since the erase"
    if now.global_data_erased:
        return "of another erase: the drive was sanitized since"
    return "broken: the drive was written to since, or took the seal back at a reset"
