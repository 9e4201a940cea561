"""The record and Placement held against each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from quarantine.cloud import custody
from quarantine.cloud.facts import ONE_TIME_USE
from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.states import CASE_OPEN, WAITING_FOR_PEOPLE, Custody, State
from quarantine.rules.action import ServiceLimits
from quarantine.upgrade.facts import Facts, SlotFindings
from quarantine.upgrade.finding import Check, Finding, FindingLevel


def _record(facts: Facts) -> Iterator[Finding]:
    if facts.record_trouble:
        yield Finding("record", facts.record_trouble)


def _rows(facts: Facts) -> Iterator[Finding]:
    for row in facts.damaged_slots:
        yield Finding(str(row), f"its row cannot be read: {row.why}")
    for words in facts.damaged_hosts:
        yield Finding("hosts", words)


def _placement(facts: Facts) -> Iterator[Finding]:
    if facts.placement_trouble:
        yield Finding("Placement", facts.placement_trouble)


def _absent(facts: Facts) -> Iterator[Finding]:
    for drive in enrolled(facts):
        if drive.provider is None or drive.provider.view is None:
            yield Finding(str(drive.slot), "Placement has no provider for it")
        elif not drive.provider.view.inventories:
            yield Finding(str(drive.slot), "its provider has no inventory")


def _traits(facts: Facts) -> Iterator[Finding]:
    for drive in enrolled(facts):
        if drive.provider is not None and not drive.provider.one_time_use:
            yield Finding(str(drive.slot), f"its provider has no trait {ONE_TIME_USE}")


def _renamed(facts: Facts) -> Iterator[Finding]:
    for drive in enrolled(facts):
        record, provider = drive.record, drive.provider
        if record is None or provider is None or provider.view is None:
            continue
        if provider.provider.uuid != record.provider:
            yield Finding(
                str(drive.slot),
                f"its provider is {provider.provider.uuid}, and was {record.provider}",
            )
        held = [inventory.resource_class for inventory in provider.view.inventories]
        if held and held != [record.resource_class]:
            yield Finding(
                str(drive.slot),
                f"its resource class is {' and '.join(held)}, and was {record.resource_class}",
            )


def _unlocked(facts: Facts) -> Iterator[Finding]:
    # Those that wait for people too: their drives must be reserved as well.
    for drive in enrolled(facts, retired=True):
        record, view = drive.record, drive.provider.view if drive.provider else None
        if record is None or view is None or not view.inventories or view.locked:
            continue
        if _may_be_low(facts, drive, record):
            continue
        lack = "" if record.state is not State.AVAILABLE else " without a certificate"
        yield Finding(
            str(drive.slot), f"{record.state}{lack}, and reserved is low: {custody.describe(view)}"
        )
    for drive in facts.drives:
        view = drive.provider.view if drive.provider else None
        # A row that cannot be read justifies no offer.
        if view is not None and not view.locked and _is_damaged(facts, drive):
            yield Finding(
                str(drive.slot), f"unreadable, and reserved is low: {custody.describe(view)}"
            )


def _may_be_low(facts: Facts, drive: SlotFindings, record: SlotRecord) -> bool:
    """Whether the slot is where low reserved is as it should be, for now at least."""
    if record.state is State.AVAILABLE or (
        # Between our write to Placement and the record's next state.
        record.state is State.CERTIFIED and record.custody_stage is Custody.RETURNING
    ):
        return record.certificate is not None
    # Between its claim and its burn a server holds an allocation without reserved: Nova's window.
    held = drive.provider and drive.provider.view and drive.provider.view.foreign(record.custody)
    if record.state is not State.IN_USE or not held or facts.now is None:
        return False
    since = (facts.now - record.entered_at).total_seconds()
    return 0 <= since <= ServiceLimits.burn_grace


def _no_custody(facts: Facts) -> Iterator[Finding]:
    for drive in enrolled(facts):
        record, view = drive.record, drive.provider.view if drive.provider else None
        if record is None or view is None:
            continue
        # Where our request is still under way, Placement may not show the allocation yet.
        held = record.custody_stage is Custody.HELD
        if record.state in CASE_OPEN and held and not view.custody(record.custody):
            yield Finding(
                str(drive.slot), f"{record.state} without our custody: {custody.describe(view)}"
            )


def _strangers(facts: Facts, *, offered: bool) -> Iterator[Finding]:
    for drive in facts.drives:
        view = drive.provider.view if drive.provider else None
        if drive.record is not None or view is None or not drive.cared:
            continue
        # Enrolled all the same; what is to be done about it stands at record-rows.
        if _is_damaged(facts, drive):
            continue
        # One check asks for those on offer, another for the rest: neither names a drive twice.
        if view.on_offer is offered:
            words = "on offer" if offered else custody.describe(view)
            yield Finding(str(drive.slot), f"one-time use and not enrolled; {words}")


def _unapproved(facts: Facts) -> Iterator[Finding]:
    missing: dict[str, int] = defaultdict(int)
    for drive in enrolled(facts):
        record = drive.record
        assert record is not None
        if record.profile not in facts.profiles:
            missing[f"profile {record.profile!r}"] += 1
        if record.policy not in facts.policies:
            missing[f"policy {record.policy!r}"] += 1
    for name, count in sorted(missing.items()):
        yield Finding(name, f"not approved, and {count} slots are enrolled with it")


def _is_damaged(facts: Facts, drive: SlotFindings) -> bool:
    """Whether it is enrolled by a row that cannot be read: host and address may be what is damaged,
    or the provider."""
    names = {str(drive.slot)}
    if drive.provider is not None:
        names.add(drive.provider.provider.uuid)
    return any(names & {str(row), row.provider} for row in facts.damaged_slots)


def enrolled(facts: Facts, *, retired: bool = False) -> Iterator[SlotFindings]:
    """Drives with a record. Those that wait for people are known to be wrong: they are left out,
    unless ``retired``."""
    for drive in facts.drives:
        if drive.record is not None and (retired or drive.record.state not in WAITING_FOR_PEOPLE):
            yield drive


SLOT_CHECKS: Final = (
    Check(
        "record-readable",
        "the control plane's record answers",
        FindingLevel.FAILURE,
        (26,),
        "Without the record nothing is known about slots, and nothing is given back.",
        "See [database]url; 'nvme-quarantine db upgrade' brings an old schema to this release's.",
        _record,
    ),
    Check(
        "record-rows",
        "every row of slots and hosts can be read",
        FindingLevel.WARNING,
        (26,),
        "The drive of such a slot is kept out of the pool and nothing else is done about it; what "
        "such a host says is not believed. Most other checks know nothing of either.",
        "Was it written by a newer release? Run that one, or restore the record from a backup; a "
        "host can be registered anew with --replace.",
        _rows,
        of_hosts=True,
    ),
    Check(
        "placement-answers",
        "Placement answers the control plane",
        FindingLevel.FAILURE,
        (),
        "Releases are not seen and nothing is given back; what is reserved stays reserved.",
        "See [placement]cloud and its entry in clouds.yaml; the user needs the service role.",
        _placement,
    ),
    Check(
        "provider-present",
        "every enrolled slot has its provider",
        FindingLevel.FAILURE,
        (1, 2, 4),
        "With its provider Nova forgets that the drive is reserved; it is on offer when it comes "
        "back, unless nova_patch is there.",
        "Bring the drive, its device_spec line or its compute service back: the slot goes on by "
        "itself then. Where it is held by then (provider-replaced), release it.",
        _absent,
        of_slots=True,
    ),
    Check(
        "provider-one-time-use",
        "every enrolled slot is a one-time-use device",
        FindingLevel.FAILURE,
        (20,),
        "Nova no longer reserves the drive when it is used: after the next delete it is on offer "
        "at once.",
        'Restore "one_time_use": "true" in its device_spec and restart nova-compute.',
        _traits,
        of_slots=True,
    ),
    Check(
        "provider-same",
        "every enrolled slot has the provider and the class that it was enrolled with",
        FindingLevel.FAILURE,
        (3, 4),
        "A provider that was made anew, or got another class, starts without a reservation.",
        "Restore the old name; or let the control plane certify the drives again under the new "
        "one.",
        _renamed,
        of_slots=True,
    ),
    Check(
        "reserved",
        "what is not certified is reserved",
        FindingLevel.FAILURE,
        (5, 6, 26),
        "Somebody lowered reserved by hand, or Placement was restored from a backup: the drive is, "
        "or will be after the next delete, on offer with a tenant's data.",
        "Start the service (nvme-quarantine run) or 'nvme-quarantine slot reconcile': it reserves "
        "it; find out who lowered it.",
        _unlocked,
        of_slots=True,
    ),
    Check(
        "custody",
        "open cases hold their provider",
        FindingLevel.FAILURE,
        (6,),
        "reserved alone is forgotten with the provider, and one mistaken inventory set frees it.",
        "Start the service (nvme-quarantine run) or 'nvme-quarantine slot reconcile': it takes "
        "custody again.",
        _no_custody,
        of_slots=True,
    ),
    Check(
        "not-enrolled-offered",
        "no drive on offer that nobody enrolled",
        FindingLevel.FAILURE,
        (22, 23),
        "Nobody has erased it: the next tenant gets it as it came.",
        "nvme-quarantine slot enrol --host HOST --profile NAME; it is reserved first.",
        lambda facts: _strangers(facts, offered=True),
        of_slots=True,
    ),
    Check(
        "not-enrolled",
        "every one-time-use drive is enrolled",
        FindingLevel.WARNING,
        (),
        "Nova reserves it when it is used, and nobody ever gives it back.",
        "nvme-quarantine slot enrol --host HOST --profile NAME; a used one is not touched.",
        lambda facts: _strangers(facts, offered=False),
        of_slots=True,
    ),
    Check(
        "approved",
        "profiles and policies of enrolled slots are approved",
        FindingLevel.FAILURE,
        (),
        "No order is given without them: released drives wait for ever.",
        "nvme-quarantine profile approve FILE --by NAME (or policy approve).",
        _unapproved,
        of_slots=True,
    ),
)
