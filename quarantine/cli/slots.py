"""Verbs about slots: looking at them, and what only people decide."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

from quarantine.cli.command import Run, Verb, known, slot_argument
from quarantine.cli.output import age, show_fields, show_json, show_table, warn
from quarantine.doors import utc_now
from quarantine.errors import IllegalTransitionError, QuarantineError
from quarantine.record import lifecycle
from quarantine.record.facts import HistoryRow, SlotChanges, SlotRecord
from quarantine.record.states import WAITING_FOR_PEOPLE, Event, State
from quarantine.service import host_liveness
from quarantine.service.container import Assembly

WATCH_SECONDS = 0.5

_HEAD = ("SLOT", "STATE", "SINCE", "STEP", "DONE", "MODEL", "SERIAL", "GEN", "REASON")


def _row(record: SlotRecord) -> tuple[object, ...]:
    drive = record.identity
    return (
        record.slot,
        record.state,
        age(record.entered_at),
        record.step or "",
        f"{record.fraction:.0%}" if record.step else "",
        drive.model if drive else "",
        drive.serial if drive else "",
        record.generation,
        _remarks(record),
    )


def _remarks(record: SlotRecord) -> str:
    """What is wrong, why it is in its state, and what it waits for, each once."""
    alarm = f"ALARM: {record.alarm}" if record.alarm else ""
    return "; ".join(dict.fromkeys(filter(None, (alarm, record.reason, record.detail))))


def _ticket(record: SlotRecord) -> str:
    if record.ticket_token is None:
        return ""
    if record.ticket_ready:
        return "valid on the host, by its receipt"
    if record.ticket_at is None:
        return "signed, not sent yet"
    return f"sent {age(record.ticket_at)} ago, no receipt yet"


def _public(record: SlotRecord) -> dict[str, object]:
    """A record for machines, without the signed order and ticket."""
    members: dict[str, object] = dict(vars(record))
    del members["order_token"], members["ticket_token"]
    members["slot"] = str(record.slot)
    return members


def _slots(assembly: Assembly, args: argparse.Namespace) -> int:
    last: list[SlotRecord] | None = None
    while True:
        states = [State(name) for name in args.state] if args.state else None
        records = _with_silence(assembly, assembly.store.slots(host=args.host, states=states))
        if records != last:
            if args.format == "json":
                show_json([_public(record) for record in records])
            else:
                if last is not None:
                    print()
                show_table(_HEAD, map(_row, records))
        if not args.watch:
            return 0
        last = records
        time.sleep(WATCH_SECONDS)


def _slots_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", help="only this host's")
    parser.add_argument(
        "--state", action="append", choices=[str(s) for s in State], help="only these; repeatable"
    )
    parser.add_argument("--watch", action="store_true", help="print again at every change")


def _with_silence(assembly: Assembly, records: list[SlotRecord]) -> list[SlotRecord]:
    """The detail says where a host is silent, instead of what it said last."""
    heard, after = assembly.store.last_heard(), assembly.conf.detection.silent_after
    now = utc_now()
    return [
        replace(r, detail="; ".join(filter(None, (said, r.detail))))
        if (said := host_liveness.words(r, heard.get(r.slot.host), now, after))
        else r
        for r in records
    ]


def _show(assembly: Assembly, args: argparse.Namespace) -> int:
    (record,) = _with_silence(assembly, [known(assembly, args.slot)])
    if args.format == "json":
        show_json(_public(record))
        return 0
    drive = record.identity
    show_fields(
        (
            ("slot", record.slot),
            ("state", f"{record.state} for {age(record.entered_at)}"),
            ("reason", record.reason),
            ("detail", record.detail),
            ("alarm", record.alarm),
            ("drive", f"{drive.model} serial {drive.serial}" if drive else "not known yet"),
            ("generation", record.generation),
            ("profile, policy", f"{record.profile}, {record.policy}"),
            ("last consumer", record.consumer),
            ("custody", record.custody),
            ("order", record.order_id),
            ("attempts", record.attempts),
            ("heard of it", f"{age(record.heard_at)} ago" if record.heard_at else "never"),
            ("step", f"{record.step} {record.fraction:.0%}" if record.step else ""),
            ("certificate", record.certificate),
            ("ticket", _ticket(record)),
            ("provider", record.provider),
            ("Placement read", f"{age(record.read_at)} ago" if record.read_at else "never"),
        )
    )
    return 0


def _history(assembly: Assembly, args: argparse.Namespace) -> int:
    record = known(assembly, args.slot)
    rows = assembly.store.history(record.slot)
    if args.format == "json":
        show_json([_moment(row) for row in rows])
    else:
        head = ("TIME", "EVENT", "FROM", "TO", "GEN", "REASON")
        show_table(
            head,
            (
                (
                    row.at.strftime("%Y-%m-%d %H:%M:%S"),
                    row.event or "note",
                    row.source or "",
                    row.target,
                    row.generation,
                    row.reason,
                )
                for row in rows
            ),
        )
    return 0


def _moment(row: HistoryRow) -> dict[str, object]:
    return {**vars(row), "slot": str(row.slot)}


def _decided(event: Event) -> Run:
    def run(assembly: Assembly, args: argparse.Namespace) -> int:
        record = known(assembly, args.slot)
        if event not in lifecycle.events(record.state):
            raise IllegalTransitionError(f"{record.slot}: {_why_not(record)}")
        record = assembly.store.transition(record, event, reason=args.reason)
        return look_and_show(assembly, record, args.format)

    return run


def _why_not(record: SlotRecord) -> str:
    """Why a slot can be neither held nor retired as it is, and what can be done."""
    if record.state is State.IN_USE:
        return (
            f"server {record.consumer or 'unknown'} has the drive, and nothing is taken from a "
            "server; it is erased when the server lets go of it: decide then"
        )
    if record.state in WAITING_FOR_PEOPLE:
        return f"it is {record.state} already ({record.reason})"
    return f"it is {record.state}: hold it first, then retire it"


def _release(assembly: Assembly, args: argparse.Namespace) -> int:
    record, changes = known(assembly, args.slot), SlotChanges()
    if args.new_drive:
        if record.state is not State.HELD:
            raise IllegalTransitionError(
                f"{record.slot}: expected a held slot to accept a new drive in, "
                f"found it {record.state}"
            )
        _require_another_drive(assembly, record)
        if args.reason.strip():
            args.reason += " (another drive is accepted in the slot)"
        # The last consumer had the old drive: the new one's certificate must not name it.
        changes = SlotChanges(identity=None, consumer=None)
    record = assembly.store.transition(
        record, Event.RELEASED_BY_OPERATOR, reason=args.reason, changes=changes
    )
    return look_and_show(assembly, record, args.format)


def _require_another_drive(assembly: Assembly, record: SlotRecord) -> None:
    """Else the drive that was pulled would be learned again, from a word of before the exchange."""
    host = assembly.store.host(record.slot.host)
    drives = host.hello.drives if host and host.hello else ()
    seen = next((d.identity for d in drives if d.address == record.slot.address), None)
    if host is not None and seen is not None and seen == record.identity:
        raise IllegalTransitionError(
            f"{record.slot}: expected its host to name another drive, found serial {seen.serial} "
            f"still named {age(host.heard_at)} ago; wait for the host's next word (host show), or "
            "release without --new-drive"
        )


def _release_arguments(parser: argparse.ArgumentParser) -> None:
    _reason_arguments(parser)
    parser.add_argument(
        "--new-drive",
        action="store_true",
        help="the drive was exchanged or moved on purpose: take the one that the host names next",
    )


def _reason_arguments(parser: argparse.ArgumentParser) -> None:
    slot_argument(parser)
    parser.add_argument("--reason", required=True, help="for the history, and for your successor")


def look_and_show(assembly: Assembly, record: SlotRecord, form: str) -> int:
    """Acts on it at once; where that fails the service's loop does it later."""
    try:
        assembly.reconciler.look(record.slot)
    except QuarantineError as error:
        warn(f"recorded; the running service goes on from here ({error})")
    record = assembly.store.slot(record.slot) or record
    if form == "json":
        show_json(_public(record))
    else:
        show_table(_HEAD, [_row(record)])
    return 0


def _reconcile(assembly: Assembly, args: argparse.Namespace) -> int:
    if args.slot is not None:
        record = known(assembly, args.slot)
        outcomes = assembly.reconciler.bell(record.slot.host, record.slot.address)
    elif args.host is not None:
        outcomes = assembly.reconciler.bell(args.host)
    else:
        outcomes = assembly.reconciler.sweep()
    if args.format == "json":
        show_json([{**vars(o), "slot": str(o.slot)} for o in outcomes])
    else:
        show_table(("SLOT", "STATE", "ERROR"), ((o.slot, o.state, o.error) for o in outcomes))
    return 6 if any(o.error for o in outcomes) else 0


def _reconcile_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--host", help="only this host's slots")
    group.add_argument("--slot", metavar="SLOT", help="only this slot")


VERBS = (
    Verb("slots", "list slots", _slots, _slots_arguments),
    Verb("show", "one slot in full", _show, slot_argument),
    Verb("history", "what happened to a slot", _history, slot_argument),
    Verb("reconcile", "look at slots now (the manual bell)", _reconcile, _reconcile_arguments),
    Verb(
        "release",
        "end a hold: the drive goes through quarantine again",
        _release,
        _release_arguments,
    ),
    Verb("hold", "keep a slot out of the pool", _decided(Event.HELD), _reason_arguments),
    Verb(
        "retire",
        "give a drive up; it is never handed out again",
        _decided(Event.RETIRED),
        _reason_arguments,
    ),
)
