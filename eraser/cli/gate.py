"""``nvme-eraser gate``: the last gate before a guest starts, and what people tell it.

``check`` answers what libvirt's hook asks :mod:`eraser.gate.door`, for people who want to know.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from eraser.errors import BadInputError, DriveError
from eraser.host.sysfs import Host
from eraser.protocol.identity import pci_address

if TYPE_CHECKING:
    from eraser.ownership.model import SlotEntry

DEFAULT_STATE_DIR = Path("/var/lib/nvme-eraser")
DEFAULT_RUN_DIR = Path("/run/nvme-quarantine")

_HELP = {
    "check": "let the domain on standard input start on its drives, or refuse, as the hook does",
    "status": "what of this host's defences stands; exit code 1 where one does not",
    "show": "show owners, tickets, allowances and exemptions",
    "adopt": "first installation: record who has which drive now",
    "allow": "let the next start on a drive pass without a ticket, once",
    "forget": "take a slot from an owner whose drive nobody ever read, and that is gone for good",
    "exempt": "leave an NVMe drive that is not managed here to any guest",
    "ticket": "take in a signed ticket from a file, as the worker does",
    "intake": "look at the drive of a ticket that the worker took (internal)",
    "rest": "note a drive's counters while its owner is off, as the worker does (internal)",
    "serve": "nothing any more: what the unit of an earlier release calls, which is to be removed",
}


def add_arguments(parser: argparse.ArgumentParser, _verb: str) -> None:
    """The commands and their options."""
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text in _HELP.items():
        command = commands.add_parser(name, help=text, description=f"{text}.")
        command.add_argument("--state-dir", type=Path, default=DEFAULT_STATE_DIR, metavar="DIR")
        command.add_argument("--run-dir", type=Path, default=DEFAULT_RUN_DIR, metavar="DIR")
        _OPTIONS[name](command)


def _pci(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    parser.add_argument(
        "--pci",
        required=True,
        metavar="ADDRESS",
        type=_address,
        action="append" if several else "store",
        help="such as 0000:01:00.0" + ("; repeatable" if several else ""),
    )


def _address(text: str) -> str:
    try:
        return pci_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _why(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reason", required=True, metavar="TEXT", help="for the audit file")
    parser.add_argument("--by", default="", metavar="NAME", help="who says so (whoever calls)")


def _format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-f", "--format", choices=("json", "table"), default="table")


def _check_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("domain", metavar="DOMAIN", help="its name, for messages")
    parser.add_argument(
        "--deadline",
        type=float,
        default=24.0,
        metavar="SECONDS",
        help="for the whole answer; a drive that is not ready is waited for (%(default)g)",
    )


def _adopt_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plan", action="store_true", help="only say what would be recorded")
    parser.add_argument("--renew", action="store_true", help="put a damaged book aside first")
    _format(parser)


def _allow_options(parser: argparse.ArgumentParser) -> None:
    _pci(parser, several=True)
    parser.add_argument("--once", required=True, action="store_true", help="there is no other way")
    parser.add_argument("--domain", default="", metavar="UUID", help="only this one (any)")
    _why(parser)


def _forget_options(parser: argparse.ArgumentParser) -> None:
    _pci(parser)
    _why(parser)


def _exempt_options(parser: argparse.ArgumentParser) -> None:
    _pci(parser)
    parser.add_argument("--remove", action="store_true", help="take it into care again")
    _why(parser)


def _ticket_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path)
    _format(parser)


_OPTIONS: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "check": _check_options,
    "status": _format,
    "show": _format,
    "adopt": _adopt_options,
    "allow": _allow_options,
    "forget": _forget_options,
    "exempt": _exempt_options,
    "ticket": _ticket_options,
    "intake": _pci,
    "rest": _pci,
    "serve": lambda _parser: None,
}


def run(arguments: argparse.Namespace) -> int:
    """One command. Raises ``EraserError``."""
    return _COMMANDS[str(arguments.command)](arguments)


def _check(arguments: argparse.Namespace) -> int:
    from eraser.gate import door

    # One byte more than is taken: a longer document is refused, and not judged by a part of it.
    document = sys.stdin.buffer.read(door.MAX_DOMAIN_BYTES + 1)
    directories = (arguments.state_dir, arguments.run_dir)
    door.let_in(arguments.domain, document, *directories, Host(), arguments.deadline)
    return 0


def _status(arguments: argparse.Namespace) -> int:
    from eraser.agent.gate_status import GateStatus
    from eraser.cli.output import printable, show
    from eraser.protocol.ticket import DefenceStanding

    seen = GateStatus(arguments.state_dir, arguments.run_dir, Host()).gate()
    # Guests that run on a drive which the gate did not let them have, nor leaves to any.
    left = {each.address for each in seen.exemptions}
    unseen = [
        each
        for each in seen.domains
        if each.running and not each.recorded and not left.issuperset(each.addresses)
    ]
    if arguments.format == "json":
        show(seen, "json")
    else:
        for defence in seen.defences:
            print(f"{defence.defence:<8} {defence.standing:<14} {printable(defence.detail)}")
        for domain in unseen:
            print(
                f"domain   {'unrecorded':<14} {printable(domain.name)} {domain.uuid} runs with "
                f"{', '.join(domain.addresses)}: by hot-plug, or past the gate"
            )
    well = (DefenceStanding.PRESENT, DefenceStanding.NOT_APPLICABLE)
    return 0 if not unseen and all(each.standing in well for each in seen.defences) else 1


def _show(arguments: argparse.Namespace) -> int:
    from eraser.cli.output import show
    from eraser.ownership import audit
    from eraser.ownership import store as books

    book = books.load(arguments.state_dir)
    exemptions = audit.exemptions(arguments.state_dir)
    if arguments.format == "json":
        show({"book": book, "exempt": exemptions.exemptions}, "json")
        return 0
    for entry in book.entries:
        for line in _lines(entry):
            print(f"{entry.address}  {line}")
    for each in exemptions.exemptions:
        print(f"{each.address}  exempt: {each.reason!r} ({each.by}, {each.at})")
    return 0


def _lines(entry: SlotEntry) -> list[str]:
    lines = []
    if (owner := entry.owner) is not None:
        how = " (adopted)" if owner.adopted else ""
        lines.append(f"owner: {owner.name!r} {owner.domain} since {owner.since}{how}")
        if owner.identity is None:
            lines.append("adopted while it ran: its drive is read when it first rests")
        if owner.left:
            lines.append(f"may have been elsewhere: {owner.left!r}")
    if (last := entry.last_owner) is not None:
        lines.append(f"last owner: {last.name!r} {last.domain}, {last.since} to {last.until}")
    if (kept := entry.ticket) is not None:
        why = f": {kept.reason!r}" if kept.reason else ""
        lines.append(f"ticket: {kept.state.value}, generation {kept.ticket.generation}{why}")
    if (word := entry.allowance) is not None:
        lines.append(f"allowed once to {word.domain or 'any'}: {word.reason!r} ({word.by})")
    return lines


def _adopt(arguments: argparse.Namespace) -> int:
    from eraser.cli.output import show
    from eraser.gate.by_person import adopt_all

    found = adopt_all(
        arguments.state_dir, Host(), _by(""), plan=arguments.plan, renew=arguments.renew
    )
    if arguments.format == "json":
        owners = [{"address": address, "owner": owner} for address, owner in found.owners]
        show({"owners": owners, "conflicts": found.conflicts}, "json")
    else:
        for address, owner in found.owners:
            print(f"{address}  {owner.name!r} {owner.domain}")
    # After the result: what could be adopted is in the book.
    if found.conflicts:
        raise BadInputError(f"not adopted: {' | '.join(found.conflicts)}")
    return 0


def _by(given: str) -> str:
    from eraser.ownership import audit

    return given or audit.who()


def _allow(arguments: argparse.Namespace) -> int:
    import uuid

    from eraser.gate.by_person import allow

    try:
        domain = str(uuid.UUID(arguments.domain)) if arguments.domain else ""
    except ValueError as error:
        raise BadInputError(f"expected a domain's uuid, found {arguments.domain!r}") from error
    who = _by(arguments.by)
    allow(arguments.state_dir, Host(), arguments.pci, arguments.reason, who, domain)
    return 0


def _forget(arguments: argparse.Namespace) -> int:
    from eraser.gate.by_person import forget

    by = _by(arguments.by)
    owner = forget(arguments.state_dir, Host(), arguments.pci, arguments.reason, by)
    print(f"{arguments.pci}  {owner.name!r} {owner.domain} has it no longer")
    return 0


def _exempt(arguments: argparse.Namespace) -> int:
    from eraser.ownership import audit

    change = audit.include if arguments.remove else audit.exempt
    who, clock = _by(arguments.by), Host().clock
    change(arguments.state_dir, arguments.pci, arguments.reason, who, clock)
    return 0


def _ticket(arguments: argparse.Namespace) -> int:
    from eraser.agent.hoststate import HostState
    from eraser.cli.output import read_file, show
    from eraser.gate import accept_ticket, admit, intake
    from eraser.protocol.ticket import TicketState

    state = HostState(arguments.state_dir)
    token = read_file(arguments.file, "ticket").decode("ascii", "replace").strip()
    ticket = state.take_ticket(token)
    found = accept_ticket.take_in(
        arguments.state_dir, arguments.run_dir, Host(), ticket.slot.address
    )
    if isinstance(found, intake.Later):
        raise DriveError(f"{ticket.slot.address}: not taken in yet: {found.reason}; call again")
    show(found, arguments.format)
    # A void ticket was taken in as well, but no guest will start by it.
    return 0 if found.state is TicketState.VALID else admit.GateRefusedError.exit_code


def _intake(arguments: argparse.Namespace) -> int:
    from eraser.gate import accept_ticket, intake

    found = accept_ticket.take_in(arguments.state_dir, arguments.run_dir, Host(), arguments.pci)
    if isinstance(found, intake.Later):
        raise DriveError(f"{arguments.pci}: ticket not taken in yet: {found.reason}")
    return 0


def _rest(arguments: argparse.Namespace) -> int:
    from eraser.gate import read_idle

    later = read_idle.note(arguments.state_dir, arguments.run_dir, Host(), arguments.pci)
    if later:
        print(f"{arguments.pci}: nothing noted: {later}")
    return 0


def _serve(_arguments: argparse.Namespace) -> int:
    """Waits for a signal: the unit has ``Restart=always``, and would begin anew all the time."""
    ends = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    print(
        "nvme-eraser: expected no nvme-eraser-gate.service any more, found it running: libvirt's "
        "hook decides alone; run 'systemctl disable --now nvme-eraser-gate', and remove the unit",
        file=sys.stderr,
        flush=True,
    )
    signal.sigwait(ends)
    return 0


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "check": _check,
    "status": _status,
    "show": _show,
    "adopt": _adopt,
    "allow": _allow,
    "forget": _forget,
    "exempt": _exempt,
    "ticket": _ticket,
    "intake": _intake,
    "rest": _rest,
    "serve": _serve,
}
