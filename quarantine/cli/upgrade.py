"""``upgrade-check``: says what would leak or break, before it does."""

from __future__ import annotations

import argparse
import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from oslo_config.cfg import ConfigOpts

from eraser.protocol.identity import host_name
from eraser.protocol.ticket import Defence
from quarantine.cli.command import Verb
from quarantine.cli.output import clean, show_json, show_table, warn
from quarantine.errors import BadInputError, QuarantineError
from quarantine.service.container import Assembly
from quarantine.upgrade import page
from quarantine.upgrade.catalogue import CHECKS, judge
from quarantine.upgrade.facts import ConfigSource, Facts, Role
from quarantine.upgrade.finding import CheckResult, FindingLevel
from quarantine.upgrade.read import CheckScope, gather

LOG = logging.getLogger(__name__)

UNEXPECTED = 255
"""As oslo.upgradecheck ends where a check itself failed."""


_DEFENCES = (Defence.HOOK, Defence.LOADED, Defence.PATCH)


def _source(text: str) -> ConfigSource:
    """ROLE=FILE or ROLE@HOST=FILE."""
    where, equals, path = text.partition("=")
    name, at, host = where.partition("@")
    if not equals or not path or name not in list(Role) or (at and name != Role.COMPUTE):
        roles = ", ".join(Role)
        raise BadInputError(
            f"--nova-conf: expected ROLE=FILE with one of {roles}, or compute@HOST=FILE, "
            f"found {text[:200]!r}"
        )
    try:
        return ConfigSource(Role(name), host_name(host) if at else None, (Path(path),))
    except ValueError as error:
        raise BadInputError(f"--nova-conf: {error}") from error


def _sources(texts: Sequence[str]) -> tuple[ConfigSource, ...]:
    """A role that is named more than once reads its files together, in that order."""
    together: dict[tuple[Role, str | None], ConfigSource] = {}
    for text in texts:
        one = _source(text)
        old = together.get((one.role, one.host))
        paths = (*old.paths, *one.paths) if old else one.paths
        together[one.role, one.host] = ConfigSource(one.role, one.host, paths)
    return tuple(together.values())


def _question(args: argparse.Namespace) -> CheckScope:
    try:
        hosts = frozenset(map(host_name, args.host))
    except ValueError as error:
        raise BadInputError(f"--host: {error}") from error
    return CheckScope(
        sources=_sources(args.nova_conf),
        hosts=hosts,
        nova_release=args.nova_release,
        placement_release=args.placement_release,
        silent_after=args.silent_after,
    )


def _facts(assembly: Assembly, question: CheckScope) -> Facts:
    return gather(
        question,
        lambda: assembly.store,
        lambda: assembly.placement,
        lambda: assembly.compute,
        policies=[assembly.policy.name],
        switched_off=_switched_off(assembly.conf),
        now=datetime.now(UTC),
    )


def _switched_off(conf: ConfigOpts) -> Iterator[str]:
    """Our own options that leave a defence out."""
    if not conf.gate.required:
        yield "[gate]required is false"
    missing = [name for name in _DEFENCES if name not in conf.gate.required_defences]
    if missing:
        yield f"[gate]required_defences is without {', '.join(missing)}"
    if not conf.compute.ghost_checks:
        yield "[compute]ghost_checks is false"
    if not conf.detection.bells:
        yield "[detection]bells is false"


def _check(assembly: Assembly, args: argparse.Namespace) -> int:
    if args.list:
        _show_catalogue(args.format)
        return 0
    try:
        results = judge(_facts(assembly, _question(args)))
    except BadInputError:
        raise
    except QuarantineError as error:
        warn(f"the check could not be made: {error}")
        return UNEXPECTED
    except Exception:
        LOG.exception("the check could not be made")
        return UNEXPECTED
    (_show_results_json if args.format == "json" else _show_results)(results)
    return max(result.level for result in results)


def _show_results_json(results: Sequence[CheckResult]) -> None:
    show_json(
        {
            "result": max(result.level for result in results).name.lower(),
            "checks": [
                {
                    "check": result.check.name,
                    "title": result.check.title,
                    "result": result.level.name.lower(),
                    "leaks": result.check.leaks,
                    "findings": [
                        {
                            "result": result.level_of(finding).name.lower(),
                            "unknown": finding.unknown,
                            "where": finding.where,
                            "found": finding.found,
                            "why": result.check.why,
                            "do": result.check.do,
                        }
                        for finding in result.findings
                    ],
                }
                for result in results
            ],
        }
    )


def _show_results(results: Sequence[CheckResult]) -> None:
    head = ("RESULT", "CHECK", "LEAKS", "WHAT IS EXPECTED")
    show_table(
        head,
        (
            (_word(r), r.check.name, ",".join(map(str, r.check.leaks)), r.check.title)
            for r in results
        ),
    )
    missing: dict[str, list[str]] = defaultdict(list)
    for result in sorted(results, key=lambda r: -r.level):
        certain = [finding for finding in result.findings if not finding.unknown]
        for finding in set(result.findings) - set(certain):
            missing[f"{finding.where}: {finding.found}"].append(result.check.name)
        if not certain:
            continue
        print(f"\n{_word(result)} {result.check.name}: expected {result.check.title}")
        for finding in certain:
            print(clean(f"  found  {finding.where}: {finding.found}"))
        print(f"  why    {result.check.why}")
        print(f"  do     {result.check.do}")
    if missing:
        print("\nnot known, and so a warning:")
    for words, names in sorted(missing.items()):
        print(clean(f"  {words} ({', '.join(names)})"))
    worst = max(result.level for result in results)
    print(f"\n{len(results)} checks: {worst.name.lower()}", flush=True)


def _word(result: CheckResult) -> str:
    if result.findings and all(finding.unknown for finding in result.findings):
        return "unknown"
    return result.level.name if result.level is FindingLevel.FAILURE else result.level.name.lower()


def _show_catalogue(form: str) -> None:
    if form == "json":
        show_json(
            [
                {
                    "check": check.name,
                    "title": check.title,
                    "result": check.level.name.lower(),
                    "leaks": check.leaks,
                    "why": check.why,
                    "do": check.do,
                }
                for check in CHECKS
            ]
        )
        return
    print(page.markdown(), end="", flush=True)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXIT_CODES
    parser.add_argument(
        "--nova-conf",
        action="append",
        default=[],
        metavar="ROLE[@HOST]=FILE",
        help="a service's configuration file or directory; ROLE is api, scheduler, conductor, "
        "compute, compute@HOST, all or placement; repeatable, one role's files are read together",
    )
    parser.add_argument(
        "--host", action="append", default=[], help="only this compute host's slots; repeatable"
    )
    parser.add_argument(
        "--nova-release", type=int, metavar="NUMBER", help="as in 34; else asked of nova-api"
    )
    parser.add_argument(
        "--placement-release", type=int, metavar="NUMBER", help="as in 16; its API does not tell"
    )
    parser.add_argument(
        "--silent-after",
        type=float,
        default=900.0,
        metavar="SECONDS",
        help="a registered host that was not heard for longer is named; default: 900",
    )
    parser.add_argument("--list", action="store_true", help="print the checks, ask nothing")


EXIT_CODES = """\
exit codes (as those of OpenStack's upgrade checks):
  0    nothing was found
  1    warnings, or something that could not be known
  2    a failure: it leaks or breaks; or malformed options (then nothing is on stdout)
  130  interrupted
  255  the check itself could not be made
"""

VERBS = (
    Verb(
        "upgrade-check",
        "say what in Nova's configuration, in Placement and on hosts would leak or break",
        _check,
        _arguments,
    ),
)
