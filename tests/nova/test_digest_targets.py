"""The watch list has no hole: a minor release that nobody tried is let in by it alone.

Read off the sources of the Nova beside us, by names: whatever a watched function may call of Nova's
code for PCI devices is watched as well, or excused here.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import nova

from nova_patch import digests
from nova_patch.digest_targets import DIGEST_TARGETS

TOP = Path(nova.__file__).parents[1]
ROOM = (
    *sorted(path.relative_to(TOP).as_posix() for path in (TOP / "nova/pci").glob("*.py")),
    "nova/compute/claims.py",
    "nova/compute/pci_placement_translator.py",
    "nova/objects/instance_pci_requests.py",
    "nova/objects/pci_device.py",
    "nova/objects/pci_device_pool.py",
)
"""Where it is decided which device is what, and who gets it."""

EXCUSED = {
    "Claim.numa_topology": "of the instance; it chooses no device",
    "MoveClaim.numa_topology": "as above",
    "Claim._test_numa_topology": "refuses a claim, or lets it go on to the one that takes devices",
    "MoveClaim._test_numa_topology": "as above",
    "MoveClaim._test_live_migration_page_size": "as above; live migrations have no such device",
    "NopClaim.__init__": "claims nothing",
    "NopClaim.abort": "as above",
    "InstancePCIRequests.to_json": "into the instance's row in Nova's database",
    "PciDeviceStats.clear": "met by its name alone, which dictionaries have too",
    "PciDevTracker.pci_stats": "what the scheduler is told",
    "PciDevice.__init__": "an object without its values",
    "PciDevice._create_uuid": "of Nova's own row; Placement's provider has another",
    "PciDevice.card_serial_number": "of ports with remote management",
    "PciDeviceList.__init__": "an empty list",
    "PciDevicePool.from_dict": "what the scheduler is told",
    "PciDevicePool.to_dict": "as above",
    "PciDeviceStats.to_device_pools_obj": "as above",
    "from_pci_stats": "as above",
}


def functions(path: str) -> dict[str, ast.AST]:
    """Of a file, by name."""
    return dict(digests._functions(ast.parse((TOP / path).read_bytes()), ""))


def named(node: ast.AST) -> Iterator[str]:
    """What a function may call: a name, an attribute, or the ``__init__`` of a class."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id
            yield f"{each.id}.__init__"
        elif isinstance(each, ast.Attribute) and each.attr != "__init__":
            yield each.attr
            yield f"{each.attr}.__init__"


def holes(watched: dict[str, list[str]]) -> dict[str, str]:
    """Functions of :data:`ROOM` that are neither watched nor excused; and who may call each."""
    found: dict[str, list[tuple[str, ast.AST]]] = defaultdict(list)
    for path in ROOM:
        for name, node in functions(path).items():
            last = name.rpartition(".")[2]
            short = ".".join(name.split(".")[-2:]) if last == "__init__" else last
            found[short].append((f"{path}: {name}", node))
    known = {f"{path}: {name}" for path, names in watched.items() for name in names}
    waiting = [
        (f"{path}: {name}", node)
        for path in watched
        if (TOP / path).exists()
        for name, node in functions(path).items()
        if f"{path}: {name}" in known
    ]
    assert waiting, "a list of nothing has no hole"
    missed: dict[str, str] = {}
    while waiting:
        caller, node = waiting.pop()
        for name in set(named(node)):
            for called, body in found.get(name, ()):
                if called in known or called.rpartition(": ")[2] in EXCUSED:
                    continue
                known.add(called)
                missed[called] = caller
                waiting.append((called, body))
    return missed


def test_whatever_a_watched_function_may_call_is_watched_too() -> None:
    assert holes(DIGEST_TARGETS) == {}


def test_a_hole_is_seen() -> None:
    name = "pci_device_prop_match"
    less = {path: [one for one in names if one != name] for path, names in DIGEST_TARGETS.items()}
    assert f"nova/pci/utils.py: {name}" in holes(less)
