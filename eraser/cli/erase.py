"""``nvme-eraser erase``: one drive on this machine, without any control plane."""

from __future__ import annotations

import argparse
import dataclasses
import socket
from pathlib import Path

from eraser.case.run import run_case
from eraser.cli import expecteddrive, policyfile
from eraser.cli.output import Summary, add_format, exit_code, read_file, show, stderr_progress
from eraser.errors import BadInputError, BusyError, EraserError
from eraser.host.sysfs import Host
from eraser.media.reader import BlockDevice
from eraser.protocol import codec
from eraser.protocol.identity import Slot, host_name, pci_address
from eraser.protocol.policy import LimitOverrides, Limits, Quirk
from eraser.protocol.profile import Profile
from eraser.state.case_files import DEFAULT_RUN_DIR, DEFAULT_STATE_DIR, CaseFiles, CaseRequest

_LIMITS = {
    "stuck_after": ("stuck", "a sanitize whose progress stands still for so long is given up"),
    "sanitize_limit": ("sanitize", "one sanitize, from the command to its end"),
    "format_timeout": ("format", "one Format, as the command's own timeout"),
    "command_timeout": ("command", "any other command"),
    "poll": ("poll", "between two looks at the sanitize log"),
    "ready_timeout": ("ready", "a controller after a reset or change of driver"),
}


def add_arguments(parser: argparse.ArgumentParser, _verb: str) -> None:
    """The options."""
    parser.add_argument("--pci", required=True, metavar="ADDRESS", help="such as 0000:01:00.0")
    parser.add_argument(
        "--profile",
        required=True,
        type=Path,
        metavar="FILE",
        help="what the drive should look like (inspect --save); decides fit, not the erase",
    )
    policyfile.add_argument(parser, "methods, verification, limits (JSON)")
    expecteddrive.add_arguments(parser)
    parser.add_argument("--state-dir", type=Path, default=DEFAULT_STATE_DIR, metavar="DIR")
    parser.add_argument("--run-dir", type=Path, default=DEFAULT_RUN_DIR, metavar="DIR")
    parser.add_argument("--host", default="", metavar="NAME", help="in the report (this host's)")
    defaults = Limits()
    for option, (name, text) in _LIMITS.items():
        parser.add_argument(
            f"--{option.replace('_', '-')}",
            type=float,
            metavar="SECONDS",
            help=f"{text} (policy's, else {getattr(defaults, name):g})",
        )
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Erases, or goes on where an earlier call was interrupted. Raises :class:`EraserError`."""
    request = _request(arguments)
    policyfile.tell(request.policy)
    files = CaseFiles.of(arguments.state_dir, request)
    progress = stderr_progress()
    try:
        report = run_case(
            request,
            files,
            Host(),
            on_progress=progress,
            run_dir=arguments.run_dir,
            # Called again after its end it means another erase, after a crash the same one.
            anew=True,
            disk=BlockDevice,
        )
    except BadInputError:
        raise
    except (BusyError, EraserError) as error:
        if arguments.format == "json":
            show(Summary.of_error(error, str(request.slot)), "json")
        raise
    finally:
        progress.close()
    show(Summary.of(report, files.kept_report(report)), arguments.format)
    return exit_code(report)


def _request(arguments: argparse.Namespace) -> CaseRequest:
    """Everything that was given, checked before anything is touched."""
    try:
        slot = Slot(arguments.host or _this_host(), pci_address(arguments.pci))
    except ValueError as error:
        raise BadInputError(str(error)) from error
    profile = codec.load(Profile, read_file(arguments.profile, "profile"), "profile")
    policy = policyfile.policy(arguments)
    # Only what was said: the policy's own limits stand where nothing was.
    given = {
        name: getattr(arguments, option)
        for option, (name, _text) in _LIMITS.items()
        if getattr(arguments, option) is not None
    }
    try:
        policy = dataclasses.replace(policy, limits=dataclasses.replace(policy.limits, **given))
        if given and policy.quirks:
            # What a person says now counts more than what the policy knows of the model.
            said = Quirk("*", "given on the command line", limits=LimitOverrides(**given))
            policy = dataclasses.replace(policy, quirks=(*policy.quirks, said))
    except ValueError as error:
        raise BadInputError(f"time limits: {error}") from error
    expected = expecteddrive.chosen(arguments, slot.address)
    return CaseRequest(
        slot=slot,
        identity=expected.identity,
        profile=profile,
        policy=policy,
        serial=expected.serial,
    )


def _this_host() -> str:
    """Its name; a rescue system may have none (the kernel says "(none)")."""
    try:
        return host_name(socket.gethostname())
    except ValueError:
        return "localhost"
