"""``slot``: looking at slots, and what only people decide."""

from __future__ import annotations

import argparse
import time
from typing import ClassVar

from quarantine.cli.base import Lister, ShowOne, choices, list_arguments, slot_argument, version
from quarantine.cli.output import warn
from quarantine.cli.sources.columns import rows_of, slot
from quarantine.cli.sources.source import Act, Columns, Members, SlotAct
from quarantine.errors import UnavailableError
from quarantine.operations.names import State

WATCH_SECONDS = 0.5


class SlotList(Lister):
    """List slots."""

    table = (
        *("slot", "state", "entered_at", "step", "fraction", "model", "serial", "generation"),
        "remarks",
    )
    ages = frozenset({"entered_at"})
    _found: Columns | None = None

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--host", help="only this host's")
        parser.add_argument(
            "--state", action="append", choices=choices(State), help="only these; repeatable"
        )
        list_arguments(parser)
        if not self.remote:  # an API is not asked twice a second
            parser.add_argument("--watch", action="store_true", help="print again at every change")

    def run(self, parsed_args: argparse.Namespace) -> int:
        if self.remote or not parsed_args.watch:
            return super().run(parsed_args)
        shown: Columns | None = None
        while True:
            names, rows = self._find(parsed_args)
            # Read once and kept: what is compared is what is printed.
            self._found = names, list(rows)
            if self._found != shown:
                super().run(parsed_args)
                # Into a pipe it would come with the next change, or later.
                self.app.stdout.flush()
            shown = self._found
            time.sleep(WATCH_SECONDS)

    def _find(self, parsed_args: argparse.Namespace) -> Columns:
        host, states = parsed_args.host, parsed_args.state or ()
        return self.listed(
            parsed_args,
            lambda limit: self.source.slots(host=host, states=states, limit=limit),
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        return self._found if self._found is not None else self._find(parsed_args)


class SlotHeld(Lister):
    """Count the slots that are held, by the code of their reason."""

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        from quarantine.operations.overview import holds
        from quarantine.operations.overview.holds import HeldCount

        return rows_of(HeldCount, holds.count(self.plane))


class SlotShow(ShowOne):
    """One slot in full."""

    ages = frozenset({"entered_at", "heard_at", "read_at"})

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        slot_argument(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        return self.source.slot(parsed_args.slot)


class SlotHistory(Lister):
    """What happened to a slot."""

    table = ("at", "event", "source", "target", "generation", "reason")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        slot_argument(parser)
        list_arguments(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        name = parsed_args.slot
        return self.listed(parsed_args, lambda limit: self.source.history(name, limit=limit))


class SlotReconcile(Lister):
    """Look at slots now: at one, at a host's, or at all (the manual bell)."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_mutually_exclusive_group()
        group.add_argument("--host", help="only this host's slots")
        group.add_argument("--slot", metavar="SLOT", help="only this slot")

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        from quarantine.operations import decisions
        from quarantine.operations.decisions import SlotLook

        one = None if parsed_args.slot is None else slot(parsed_args.slot)
        found = decisions.reconcile(self.plane, slot=one, host=parsed_args.host)
        if any(looked.error for looked in found):
            self.exit_code = UnavailableError.exit_code
        return rows_of(SlotLook, found)


class _Decision(ShowOne):
    """What a person decides of one slot."""

    ages = SlotShow.ages
    act: ClassVar[Act]

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        slot_argument(parser)
        parser.add_argument(
            "--reason", required=True, help="for the history, and for your successor"
        )
        parser.add_argument(
            "--seen",
            type=version,
            metavar="VERSION",
            help="only where the slot is still as 'slot show' had it under this version",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        args = parsed_args
        new_drive = getattr(args, "new_drive", False)
        later = getattr(args, "at_next_release", False)
        seen = args.seen or ""
        decided = SlotAct(args.slot, self.act, args.reason, new_drive, seen, later)
        done = self.source.act(decided)
        if done.unacted:
            warn(f"recorded; the running service goes on from here ({done.unacted})")
        return done.slot


class SlotRelease(_Decision):
    """End a hold: the drive goes through quarantine again. Or take back one at the next release."""

    act = Act.RELEASE

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        super().arguments(parser)
        parser.add_argument(
            "--new-drive",
            action="store_true",
            help="the drive was exchanged or moved on purpose: take the one that the host names "
            "next",
        )


class SlotHold(_Decision):
    """Keep a slot out of the pool."""

    act = Act.HOLD

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        super().arguments(parser)
        parser.add_argument(
            "--at-next-release",
            action="store_true",
            help="where a server has the drive: hold the slot when it lets go of it, not now",
        )


class SlotErase(_Decision):
    """Have a drive erased again that is certified, on offer or held."""

    act = Act.ERASE


class SlotRetire(_Decision):
    """Give a drive up; it is never handed out again."""

    act = Act.RETIRE
