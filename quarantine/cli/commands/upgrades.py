"""``upgrade check``: says what would leak or break, before it does."""

from __future__ import annotations

import argparse
import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from eraser.protocol.identity import host_name
from quarantine.cli.base import MACHINES, Lister, ShowOne
from quarantine.cli.output import Lines, warn
from quarantine.cli.sources.source import Columns, Members
from quarantine.errors import BadInputError, QuarantineError
from quarantine.logs import clean
from quarantine.operations.setup import upgrades
from quarantine.operations.setup.upgrades import (
    Check,
    CheckResult,
    CheckScope,
    Finding,
    FindingLevel,
)

LOG = logging.getLogger(__name__)

UNEXPECTED = 255
"""As oslo.upgradecheck ends where a check itself failed."""


class UpgradeCheck(ShowOne):
    """Say what in Nova's configuration, in Placement and on hosts would leak or break."""

    formatter_default = "value"
    exit_codes = """\
exit codes (as those of OpenStack's upgrade checks):
  0    nothing was found
  1    warnings, or something that could not be known
  2    a failure: it leaks or breaks; or malformed options (then nothing is on stdout)
  130  interrupted
  255  the check itself could not be made
"""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--nova-conf",
            action="append",
            default=[],
            metavar="ROLE[@HOST]=FILE",
            help="a service's configuration file or directory; ROLE is api, scheduler, conductor, "
            "compute, compute@HOST, all or placement; repeatable, one role's files are read "
            "together",
        )
        parser.add_argument(
            "--host", action="append", default=[], help="only this compute host's slots; repeatable"
        )
        parser.add_argument(
            "--nova-release", type=int, metavar="NUMBER", help="as in 34; else asked of nova-api"
        )
        parser.add_argument(
            "--placement-release",
            type=int,
            metavar="NUMBER",
            help="as in 16; its API does not tell",
        )
        parser.add_argument(
            "--silent-after",
            type=_seconds,
            default=900.0,
            metavar="SECONDS",
            help="a registered host that was not heard for longer is named; default: 900",
        )

    def run(self, parsed_args: argparse.Namespace) -> int:
        """The worst result; 255 where the check could not be made."""
        try:
            return super().run(parsed_args)
        except (BadInputError, BrokenPipeError):
            # Malformed options end with their own code, and a reader that went away is no failure.
            raise
        except QuarantineError as error:
            warn(f"the check could not be made: {error}")
        except Exception:
            LOG.exception("the check could not be made")
        return UNEXPECTED

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        results = upgrades.check(self.plane, _question(parsed_args))
        # The levels are the exit codes.
        worst = max(result.level for result in results)
        self.exit_code = worst
        if parsed_args.formatter in MACHINES:
            return ("result", "checks"), (_word(worst), list(map(_members, results)))
        return ("report",), (Lines("\n".join(_report(results, worst))),)


class UpgradeCheckList(Lister):
    """List the checks; asks nobody."""

    table = ("check", "result", "leaks", "title")

    def human(self, name: str, value: Any) -> Any:
        return ",".join(map(str, value)) if name == "leaks" else value

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        names = ("check", "title", "result", "leaks", "why", "do")
        return names, [
            (check.name, check.title, _word(check.level), check.leaks, check.why, check.do)
            for check in upgrades.checks()
        ]


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    # Nothing is larger than nan: every host would be called heard.
    if not found >= 0:
        raise argparse.ArgumentTypeError(f"expected seconds, found {text[:40]!r}")
    return found


def _question(args: argparse.Namespace) -> CheckScope:
    try:
        hosts = frozenset(map(host_name, args.host))
    except ValueError as error:
        raise BadInputError(f"--host: {error}") from error
    return CheckScope(
        sources=upgrades.sources(args.nova_conf),
        hosts=hosts,
        nova_release=args.nova_release,
        placement_release=args.placement_release,
        silent_after=args.silent_after,
    )


def _word(level: FindingLevel) -> str:
    return level.name.lower()


def _members(result: CheckResult) -> dict[str, object]:
    check = result.check
    return {
        "check": check.name,
        "title": check.title,
        "result": _word(result.level),
        "leaks": check.leaks,
        "findings": [
            {
                "result": _word(result.level_of(finding)),
                "unknown": finding.unknown,
                "where": finding.where,
                "found": finding.found,
                "why": check.why,
                "do": check.do,
            }
            for finding in result.findings
        ],
    }


def _report(results: Sequence[CheckResult], worst: FindingLevel) -> Iterator[str]:
    """A line for each check, and what was found."""
    missing: dict[str, list[str]] = defaultdict(list)
    for result in sorted(results, key=lambda r: -r.level):
        leaks = f" (leaks {', '.join(map(str, result.check.leaks))})" if result.check.leaks else ""
        yield f"{_said(result):8} {result.check.name}: expected {result.check.title}{leaks}"
        certain = [finding for finding in result.findings if not finding.unknown]
        # One missing source is behind many checks: it is told once, with all of them.
        for finding in set(result.findings) - set(certain):
            missing[f"{finding.where}: {finding.found}"].append(result.check.name)
        yield from _detail(result.check, certain)
    if missing:
        yield "\nnot known, and so a warning:"
    for words, names in sorted(missing.items()):
        yield f"  {clean(words)} ({', '.join(names)})"
    yield f"\n{len(results)} checks: {_word(worst)}"


def _detail(check: Check, findings: Sequence[Finding]) -> Iterator[str]:
    for finding in findings:
        yield f"  found  {clean(finding.where)}: {clean(finding.found)}"
    if findings:
        yield f"  why    {check.why}"
        yield f"  do     {check.do}"


def _said(result: CheckResult) -> str:
    if result.findings and all(finding.unknown for finding in result.findings):
        return "unknown"
    return result.level.name if result.level is FindingLevel.FAILURE else _word(result.level)
