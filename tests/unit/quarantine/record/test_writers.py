"""Who writes what: each table has one module, and each column of a slot is set where it is named.

Read off the source, so that a second writer is a line in this file that somebody has to defend.
Those that stay are defended in docs/decisions/house.md.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import quarantine
from quarantine.record.database import models
from quarantine.record.words.facts import SlotChanges

ROOM = Path(quarantine.__file__).parent
TREES = {
    path.relative_to(ROOM).as_posix(): ast.parse(path.read_text())
    for path in sorted(ROOM.rglob("*.py"))
    if "migrations" not in path.parts
}

TABLES = {
    "slots": {"record/slots.py"},
    "history": {"record/slots.py"},
    "hosts": {"record/hosts.py"},
    "drives": {"record/drives.py"},
    "nonces": {"record/messages.py"},
    "refusals": {"record/messages.py"},
    "documents": {"record/documents.py"},
    "certificates": {"record/certificates.py"},
    "rotations": {"record/certificates.py"},
    "testimonies": {"record/certificates.py"},
    "durations": {"record/totals.py"},
    "alarm_counts": {"record/alarms.py"},
    "alarms": {"record/alarms.py"},
    "servers": {"record/servers.py"},
    "moves": {"record/servers.py"},
    "maintenances": {"record/maintenances.py"},
    "campaigns": {"record/campaigns.py"},
    "campaign_slots": {"record/campaigns.py"},
    "campaign_acts": {"record/campaigns.py"},
    "passes": {"record/servers.py"},
}

DECIDE = "rules/decide.py"
MEMBERS = {
    "provider": {DECIDE},
    "resource_class": {DECIDE},
    "profile": set[str](),
    "policy": set[str](),
    # Learned from a hello; forgotten where a person accepts another drive.
    "identity": {"service/issue/drive_inventory.py", "operations/decisions.py"},
    # Forgotten where the record proves to be behind: by a custody, or by an order that a host took.
    "consumer": {
        DECIDE,
        "rules/observation.py",
        "operations/decisions.py",
        "service/issue/dispatch.py",
    },
    # Written before the request that makes it; else what Placement shows.
    "custody": {DECIDE, "rules/observation.py", "service/executor.py"},
    "custody_stage": {DECIDE, "rules/observation.py", "service/executor.py"},
    "order_id": {"service/issue/dispatch.py"},
    "nonce": {"service/issue/dispatch.py"},
    "order_token": {"service/issue/dispatch.py"},
    "ordered_at": {"service/issue/dispatch.py"},
    "attempts": {"service/issue/dispatch.py"},
    # A word of the host about its order: progress, its hello, a report, a receipt.
    "heard_at": {
        "service/inbound/messages.py",
        "service/inbound/apply_ruling.py",
        "service/issue/drive_inventory.py",
    },
    "step": {"service/inbound/messages.py", "service/inbound/apply_ruling.py"},
    "fraction": {"service/inbound/messages.py", "service/inbound/apply_ruling.py"},
    "ticket_token": {"service/issue/tickets.py", "service/issue/registrar.py"},
    "ticket_incarnation": {"service/issue/tickets.py", "service/issue/registrar.py"},
    "ticket_at": {"service/issue/tickets.py", "service/issue/registrar.py"},
    "ticket_ready": {
        "service/issue/tickets.py",
        "service/issue/registrar.py",
        "service/inbound/messages.py",
    },
    "alarm": {DECIDE},
    # A person's word for later, or that of a campaign that a person began.
    "next_hold": {"operations/decisions.py", "rules/decide.py", "service/campaigns.py"},
    "provider_generation": {"service/look.py"},
    "read_at": {"service/look.py"},
    "offered_as": {DECIDE},
    "new_case": {
        DECIDE,
        "rules/observation.py",
        "service/sweep/stray_offers.py",
        "service/inbound/messages.py",
        "service/issue/dispatch.py",
    },
    "above": {"service/issue/dispatch.py"},
}
"""``detail`` is not here: who makes a slot wait says what for, and who ends that empties it."""


def _aliases(tree: ast.Module) -> dict[str, str]:
    """``_SLOTS = models.slots`` and its like, also several in a row."""
    pairs: list[tuple[ast.expr, ast.expr]] = []
    for node in tree.body:
        if not isinstance(node, ast.Assign):
            continue
        name, value = node.targets[0], node.value
        if isinstance(name, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs += zip(name.elts, value.elts, strict=True)
        else:
            pairs.append((name, value))
    return {
        ast.unparse(name): ast.unparse(value).removeprefix("models.")
        for name, value in pairs
        if ast.unparse(value).startswith("models.")
    }


def _written() -> Iterator[tuple[str, str]]:
    for where, tree in TREES.items():
        names = _aliases(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                "sa.insert",
                "sa.update",
                "sa.delete",
            ):
                table = ast.unparse(node.args[0])
                yield names.get(table, table.removeprefix("models.")), where


def _set() -> Iterator[tuple[str, str]]:
    """Keywords of ``SlotChanges(...)``, and of ``replace(changes, ...)`` for such changes."""
    members = {field.name for field in fields(SlotChanges)}
    for where, tree in TREES.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func)
            if name == "SlotChanges" or (name == "replace" and _changes(node)):
                for keyword in node.keywords:
                    assert keyword.arg in members, f"{where}: {keyword.arg}"
                    yield keyword.arg, where


def _changes(call: ast.Call) -> bool:
    first = ast.unparse(call.args[0]) if call.args else ""
    words = ("changes", "heard", "rebased", "_tried")
    return not first.startswith("move(") and any(word in first for word in words)


def _gathered(found: Iterator[tuple[str, str]]) -> dict[str, set[str]]:
    writers = defaultdict[str, set[str]](set)
    for name, where in found:
        writers[name].add(where)
    return writers


def test_each_table_is_written_by_one_module() -> None:
    assert set(TABLES) == set(models.metadata.tables)
    assert _gathered(_written()) == TABLES


def test_each_column_of_a_slot_is_set_where_this_says() -> None:
    found = _gathered(_set())
    found.pop("detail")
    assert found == {name: where for name, where in MEMBERS.items() if where}
    assert {field.name for field in fields(SlotChanges)} == {*MEMBERS, "detail"}
