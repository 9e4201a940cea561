"""The shell: what stands before a command, and the table of commands."""

from __future__ import annotations

import argparse
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Final, TextIO

from cliff.app import App
from cliff.command import Command
from cliff.commandmanager import CommandManager
from cliff.help import HelpAction

from quarantine import VERSION, users
from quarantine.cli.base import EXIT_CODES, ControlCommand, OneLineParser
from quarantine.errors import BadInputError
from quarantine.logs import AUDIT, keep_audit

GROUP: Final = "nvme_quarantine.cli"
"""The entry points by which other shells find the commands; the table below is ours."""

COMMANDS: Final = {
    "run": "service:Run",
    "worker": "service:Worker",
    "listener": "service:Listener",
    "db upgrade": "schema:DbUpgrade",
    "slot list": "slots:SlotList",
    "slot held": "slots:SlotHeld",
    "slot show": "slots:SlotShow",
    "slot history": "slots:SlotHistory",
    "slot reconcile": "slots:SlotReconcile",
    "slot release": "slots:SlotRelease",
    "slot hold": "slots:SlotHold",
    "slot erase": "slots:SlotErase",
    "slot retire": "slots:SlotRetire",
    "slot enrol": "enrol:SlotEnrol",
    "drive list": "drives:DriveList",
    "drive show": "drives:DriveShow",
    "drive history": "drives:DriveHistory",
    "campaign preview": "campaigns:CampaignPreview",
    "campaign begin": "campaigns:CampaignBegin",
    "campaign list": "campaigns:CampaignList",
    "campaign show": "campaigns:CampaignShow",
    "campaign slots": "campaigns:CampaignSlots",
    "campaign pause": "campaigns:CampaignPause",
    "campaign resume": "campaigns:CampaignResume",
    "campaign stop": "campaigns:CampaignStop",
    "campaign advance": "campaigns:CampaignAdvance",
    "maintenance set": "maintenance:MaintenanceSet",
    "maintenance unset": "maintenance:MaintenanceUnset",
    "maintenance list": "maintenance:MaintenanceList",
    "host register": "hosts:HostRegister",
    "host list": "hosts:HostList",
    "host show": "hosts:HostShow",
    "host remove": "hosts:HostRemove",
    "broker acl": "hosts:BrokerAcl",
    "profile approve": "documents:ProfileApprove",
    "profile list": "documents:ProfileList",
    "profile show": "documents:ProfileShow",
    "policy approve": "documents:PolicyApprove",
    "policy list": "documents:PolicyList",
    "policy show": "documents:PolicyShow",
    "key create": "keys:KeyCreate",
    "key show": "keys:KeyShow",
    "key rotate": "keys:KeyRotate",
    "certificate list": "certificates:CertificateList",
    "certificate show": "certificates:CertificateShow",
    "certificate save": "certificates:CertificateSave",
    "certificate html": "certificates:CertificateHtml",
    "certificate export": "certificates:CertificateExport",
    "certificate verify": "certificates:CertificateVerify",
    "certificate for-server": "certificates:CertificateForServer",
    "ledger verify": "ledger:LedgerVerify",
    "ledger export": "ledger:LedgerExport",
    "ledger head": "ledger:LedgerHead",
    "history list": "history:HistoryList",
    "alarm list": "alarms:AlarmList",
    "refusal list": "refusals:RefusalList",
    "upgrade check": "upgrades:UpgradeCheck",
    "upgrade check list": "upgrades:UpgradeCheckList",
    "capacity show": "capacity:CapacityShow",
    "flavor list": "flavors:FlavorList",
    "flavor create": "flavors:FlavorCreate",
    "flavor config": "flavors:FlavorConfig",
}
"""By its words, each command's class. A module is loaded when one of its commands is run."""


ACTS: Final = frozenset(
    {
        "broker acl",  # makes the passwords that are missing
        "campaign advance",
        "campaign begin",
        "campaign pause",
        "campaign resume",
        "campaign stop",
        "db upgrade",
        "flavor create",
        "host register",
        "host remove",
        "key create",
        "key rotate",
        "ledger head",  # signs one
        "maintenance set",
        "maintenance unset",
        "policy approve",
        "profile approve",
        "slot enrol",
        "slot hold",
        "slot reconcile",  # takes the steps that it finds due
        "slot release",
        "slot erase",
        "slot retire",
    }
)
"""Commands by which people change something, beside files of their own."""

_SAID: Final = ("address", "by", "file", "host", "id", "name", "reason", "slot", "subject")
"""Arguments that say what an act is about, and why."""


class UnknownCommandError(BadInputError, ValueError):
    """No command has these words. A ``ValueError`` for cliff's own commands."""


class Commands(CommandManager):
    """The table, so that a checkout needs nothing installed."""

    def __init__(self) -> None:
        super().__init__(None)  # with a group cliff would search all that is installed
        for words, place in COMMANDS.items():
            self.commands[words] = EntryPoint(words, f"quarantine.cli.commands.{place}", GROUP)

    def find_command(self, argv: list[str]) -> tuple[type[Command], str, list[str]]:
        """A command and what is left for it. Raises :class:`UnknownCommandError`."""
        words = " ".join(argv)[:200]
        unknown = UnknownCommandError(
            f"expected a command, found {words!r}; see {Shell.NAME} --help"
        )
        try:
            found = super().find_command(argv)
        except ValueError:
            raise unknown from None
        # cliff also takes the beginning of a word where only one command has it: "r" would start a
        # second service, and a script would break with the next command that is added.
        if found[1] not in self.commands:
            raise unknown
        return found


class Shell(App):
    """One command, typed. Errors go to whoever runs it: one line each, with an exit code."""

    NAME = "nvme-quarantine"

    def __init__(self) -> None:
        super().__init__(
            "Quarantine, erase, verify and certify NVMe drives between tenants.",
            VERSION,
            Commands(),
        )

    def _set_streams(
        self, stdin: TextIO | None, stdout: TextIO | None, stderr: TextIO | None
    ) -> None:
        # As cliff does it, but for the locale: it would be the whole process's, the service's too.
        self.stdin = stdin or sys.stdin
        self.stdout = stdout or sys.stdout
        self.stderr = stderr or sys.stderr

    def build_option_parser(
        self,
        description: str | None,
        version: str | None,
        argparse_kwargs: dict[str, Any] | None = None,
    ) -> argparse.ArgumentParser:
        """What may stand before a command."""
        parser = OneLineParser(
            prog=self.NAME,
            description=description,
            epilog=EXIT_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            add_help=False,
        )
        parser.add_argument(
            "-h", "--help", action=HelpAction, nargs=0, default=self, help="list the commands"
        )
        parser.add_argument("--version", action="version", version=f"%(prog)s {version}")
        parser.add_argument(
            "--config-file",
            type=Path,
            action="append",
            default=[],
            metavar="FILE",
            help="repeatable, later ones win; default: /etc/nvme-quarantine/nvme-quarantine.conf",
        )
        # From the first word that is no option on all is the command's own.
        parser.add_argument("command", nargs=argparse.PARSER, metavar="COMMAND")
        return parser

    def run(self, argv: list[str]) -> int:
        """Runs one command; returns its exit code."""
        # Not cliff's own: that one opens a shell where no command is named, has two codes for all
        # errors, and tells them with tracebacks.
        self.options = self.parser.parse_args(argv)
        return self.run_subcommand(self.options.command)

    def run_subcommand(self, argv: list[str]) -> int:
        """As :meth:`run`, without what stands before the command."""
        command, arguments = self.parsed(argv)
        name = command.cmd_name or ""
        if name not in ACTS:
            return command.run(arguments)
        return self._audited(command, name, arguments)

    def _audited(self, command: Command, name: str, arguments: argparse.Namespace) -> int:
        """Runs an act of people, counts whom it calls, and writes down whose it is and how it
        ended.

        Raises :class:`BadInputError` where that cannot be written down: nothing is done then. What
        needs no configuration is done without one, and is written down nowhere.
        """
        from quarantine.metrics.alarmcount import counting, shown
        from quarantine.operations.plane import Plane

        with Plane(self.options.config_file).parts() as parts:
            try:
                conf = parts.conf
            except BadInputError:
                # The first key is made before there is a configuration.
                if isinstance(command, ControlCommand) and not command.configured(arguments):
                    return command.run(arguments)
                raise
            # Before the act: what cannot be written down is not done.
            keep_audit(conf.run.audit_file, conf.run.log_format)
        # Its looks may write an alarm on a slot's record, for which nobody is called again.
        with shown(self.stderr), counting(conf, remembers=False):
            if not conf.run.audit_file:
                return command.run(arguments)
            return _written_down(command, name, arguments)

    def parsed(self, argv: list[str]) -> tuple[Command, argparse.Namespace]:
        """A command and its arguments. Raises :class:`BadInputError`."""
        made, name, rest = self.command_manager.find_command(argv)
        command = made(self, self.options, cmd_name=name)
        return command, command.get_parser(f"{self.NAME} {name}").parse_args(rest)


def _written_down(command: Command, name: str, arguments: argparse.Namespace) -> int:
    """Runs it, and has whose it is and how it ended in the audit."""
    said = " ".join(
        f"{word}={value!r}"
        for word, value in sorted(vars(arguments).items())
        if word in _SAID and value
    )
    try:
        code = command.run(arguments)
    except BaseException as error:
        # Also an interrupted one, for some of it may be done.
        AUDIT.info("%s %s: %s, by %s", name, said, type(error).__name__, users.who())
        raise
    AUDIT.info("%s %s: %s, by %s", name, said, code, users.who())
    return code
