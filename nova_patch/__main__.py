"""``python3 -m nova_patch``: puts the patch beside Nova, takes it away, says what is there."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from . import compat, install
from .errors import PatchError

_EPILOG = """\
exit codes: 0 done, or installed and nova-compute will start with it; 1 refused or failed;
2 wrong usage; 3 (status) not installed; 4 (status) nova-compute will refuse to start
"""
_EXIT = {install.INSTALLED: 0, install.ABSENT: 3, install.BROKEN: 4, install.REFUSES: 4}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m nova_patch",
        description="The patch that nova-compute needs beside nvme-quarantine.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    helps = {
        "install": "put it into the environment of nova-compute; restart nova-compute afterwards",
        "remove": "take it away; restart nova-compute afterwards",
        "status": "whether it is there and what nova-compute will make of it",
        "digests": "print the row of the table of releases that this Nova would have",
    }
    for name, text in helps.items():
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument(
            "--python", default=sys.executable, help="the Python of nova-compute (default: this)"
        )
        if name == "install":
            command.add_argument(
                "--check", action="store_true", help="only say whether it could be installed"
            )
        if name == "digests":
            command.add_argument(
                "--mechanism",
                choices=compat.MECHANISMS,
                help="what the release needs (default: the table's; of a new one born_reserved)",
            )
            command.add_argument(
                "--write", action="store_true", help="put the row into this package's table"
            )
        else:
            command.add_argument("-f", "--format", choices=("text", "json"), default="text")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The command's exit code."""
    options = _parser().parse_args(argv)
    try:
        if options.command == "digests":
            return _digests(options)
        if options.command == "install" and options.check:
            environment = install.look(options.python)
            row = install.check(environment)
            detail = f"can be installed: {row.mechanism}"
            if warning := compat.untested(row, str(environment.nova)):
                detail += f"; warning: {warning}"
            return _say(options, install.Status("supported", None, environment.nova, detail), 0)
        status = getattr(install, options.command)(options.python)
        code = _EXIT[status.state] if options.command == "status" else 0
        return _say(options, status, code)
    except PatchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _say(options: Any, status: install.Status, code: int) -> int:
    if options.format == "json":
        print(json.dumps(status.as_dict()))
    else:
        print(f"{status.state}: nova {status.nova or 'none'}: {status.detail}")
    return code


def _digests(options: Any) -> int:
    environment = install.look(options.python)
    if environment.nova is None or environment.top is None:
        raise PatchError(f"expected nova in the environment of {options.python}, found none")
    rows = json.loads(compat.TABLE.read_text()) if compat.TABLE.exists() else {}
    known = rows.get(environment.nova, {}).get("mechanism", "born_reserved")
    mechanism = options.mechanism or known
    # Measured, and not looked up: a new release has no row yet.
    row = asdict(compat.measure(environment.nova, mechanism, environment.top))
    version = row.pop("version")
    if options.write:
        rows[version] = row
        ordered = dict(sorted(rows.items(), key=lambda item: _numbers(item[0]), reverse=True))
        compat.TABLE.write_text(json.dumps(ordered, indent=1) + "\n")
    else:
        print(json.dumps({version: row}, indent=1))
    return 0


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]


if __name__ == "__main__":
    raise SystemExit(main())
