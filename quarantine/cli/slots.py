"""``slot``: looking at slots, and what only people decide."""

from __future__ import annotations

import argparse
import time
from abc import abstractmethod

from eraser.protocol.identity import Slot
from quarantine.cli.base import (
    Columns,
    Lister,
    Members,
    ShowOne,
    members_of,
    rows_of,
    slot,
    slot_argument,
)
from quarantine.cli.output import warn
from quarantine.errors import UnavailableError
from quarantine.operations import decisions, holds, slots
from quarantine.operations.decisions import SlotDecision, SlotLook
from quarantine.operations.holds import HeldCount
from quarantine.operations.slots import HistoryRow, SlotView, State

WATCH_SECONDS = 0.5


class SlotList(Lister):
    """List slots."""

    table = (
        *("slot", "state", "entered_at", "step", "fraction", "model", "serial", "generation"),
        "remarks",
    )
    ages = frozenset({"entered_at"})

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--host", help="only this host's")
        parser.add_argument(
            "--state", action="append", choices=list(State), help="only these; repeatable"
        )
        parser.add_argument("--watch", action="store_true", help="print again at every change")

    def run(self, parsed_args: argparse.Namespace) -> int:
        shown: tuple[SlotView, ...] | None = None
        while True:
            self._found = self._find(parsed_args)
            if self._found != shown:
                super().run(parsed_args)
                self.app.stdout.flush()
            if not parsed_args.watch:
                return 0
            shown = self._found
            time.sleep(WATCH_SECONDS)

    def _find(self, parsed_args: argparse.Namespace) -> tuple[SlotView, ...]:
        states = [State(name) for name in parsed_args.state or ()]
        return slots.find(self.plane, host=parsed_args.host, states=states)

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        return rows_of(SlotView, self._found)


class SlotHeld(Lister):
    """Count the slots that are held, by the code of their reason."""

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        return rows_of(HeldCount, holds.count(self.plane))


class SlotShow(ShowOne):
    """One slot in full."""

    ages = frozenset({"entered_at", "heard_at", "read_at"})

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        slot_argument(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        return members_of(slots.show(self.plane, slot(parsed_args.slot)))


class SlotHistory(Lister):
    """What happened to a slot."""

    table = ("at", "event", "source", "target", "generation", "reason")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        slot_argument(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        return rows_of(HistoryRow, slots.history(self.plane, slot(parsed_args.slot)))


class SlotReconcile(Lister):
    """Look at slots now: at one, at a host's, or at all (the manual bell)."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_mutually_exclusive_group()
        group.add_argument("--host", help="only this host's slots")
        group.add_argument("--slot", metavar="SLOT", help="only this slot")

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        one = None if parsed_args.slot is None else slot(parsed_args.slot)
        found = decisions.reconcile(self.plane, slot=one, host=parsed_args.host)
        if any(looked.error for looked in found):
            self.exit_code = UnavailableError.exit_code
        return rows_of(SlotLook, found)


class _Decision(ShowOne):
    """What a person decides of one slot."""

    ages = SlotShow.ages

    @abstractmethod
    def decide(self, place: Slot, args: argparse.Namespace) -> SlotDecision:
        """Writes it down."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        slot_argument(parser)
        parser.add_argument(
            "--reason", required=True, help="for the history, and for your successor"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        done = self.decide(slot(parsed_args.slot), parsed_args)
        if done.unacted:
            warn(f"recorded; the running service goes on from here ({done.unacted})")
        return members_of(done.slot)


class SlotRelease(_Decision):
    """End a hold: the drive goes through quarantine again."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        super().arguments(parser)
        parser.add_argument(
            "--new-drive",
            action="store_true",
            help="the drive was exchanged or moved on purpose: take the one that the host names "
            "next",
        )

    def decide(self, place: Slot, args: argparse.Namespace) -> SlotDecision:
        return decisions.release(self.plane, place, reason=args.reason, new_drive=args.new_drive)


class SlotHold(_Decision):
    """Keep a slot out of the pool."""

    def decide(self, place: Slot, args: argparse.Namespace) -> SlotDecision:
        return decisions.hold(self.plane, place, reason=args.reason)


class SlotRetire(_Decision):
    """Give a drive up; it is never handed out again."""

    def decide(self, place: Slot, args: argparse.Namespace) -> SlotDecision:
        return decisions.retire(self.plane, place, reason=args.reason)
