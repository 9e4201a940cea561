"""Nova's own tests of PCI devices without our patch and with it, compared test by test.

Usage: tools/nova-env RELEASE -m tests.novasuites.compare [unit|functional|long]... [--only METHOD]

Both sides run at once, each in an environment beside Nova's; in one of them the patch is installed
by its own command. A test that passes on one side and fails on the other, or is there on one side
only, is an error, unless ``DIFFERENT`` says why it must be so; what is listed there must be seen as
well. What looks wrong is run once more, alone, before it counts: Nova's functional tests wait for
their services in real time. What fails alike on both sides then too says nothing of the patch: it
is named, and more than one in :data:`MUTE_SHARE` is an error. Exit code 0 when nothing is wrong.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from nova_patch import install
from tests.nova.patchenv import PatchEnvironment
from tests.novasuites.runner import FAILED, PASSED, SKIPPED
from tests.novasuites.suites import Seen, run

_PLACEMENT = "nova.tests.functional.libvirt.test_pci_in_placement"
_SRIOV = "nova.tests.functional.libvirt.test_pci_sriov_servers"

SUITES: dict[str, tuple[str, ...]] = {
    "unit": (
        "nova.tests.unit.pci.test_devspec",
        "nova.tests.unit.pci.test_manager",
        "nova.tests.unit.pci.test_request",
        "nova.tests.unit.pci.test_stats",
        "nova.tests.unit.pci.test_utils",
        "nova.tests.unit.pci.test_whitelist",
        "nova.tests.unit.compute.test_claims",
        "nova.tests.unit.compute.test_pci_placement_translator",
        "nova.tests.unit.compute.test_provider_tree",
        "nova.tests.unit.compute.test_resource_tracker",
        "nova.tests.unit.scheduler.client.test_report",
    ),
    "functional": (
        _PLACEMENT,
        f"{_SRIOV}.PCIServersTest",
        f"{_SRIOV}.PCIResourceRequestReschedulingTest",
        f"{_SRIOV}.PCIServersWithPreferredNUMATest",
        f"{_SRIOV}.PCIServersWithRequiredNUMATest",
        f"{_SRIOV}.SRIOVAttachDetachTest",
        "nova.tests.functional.regressions.test_bug_1983753",
        "nova.tests.functional.regressions.test_bug_2098496",
        "nova.tests.functional.regressions.test_bug_2102038",
        "nova.tests.functional.regressions.test_bug_2111440",
        "nova.tests.functional.regressions.test_bug_2140631",
    ),
    "long": (
        f"{_SRIOV}.SRIOVServersTest",
        f"{_SRIOV}.VDPAServersTest",
        f"{_SRIOV}.RemoteManagedServersTest",
        f"{_SRIOV}.PCIServersWithSRIOVAffinityPoliciesTest",
        f"{_SRIOV}.PCIServersWithPortNUMAPoliciesTest",
        f"{_SRIOV}.TestPackNUMACellsWithPCIDevices",
        "nova.tests.functional.libvirt.test_vgpu",
        "nova.tests.functional.libvirt.test_reshape",
        "nova.tests.functional.libvirt.test_evacuate",
    ),
}
"""What touches the functions that the patch replaces; ``long``: the network's ports, vDPA, ports of
smart NICs, vGPU, reshapes of Placement and evacuation, whose devices take the same paths."""

DIFFERENT: dict[str, str] = {
    "nova.tests.unit.compute.test_pci_placement_translator.TestTranslator"
    ".test_otu_reservation_workflow": (
        "it begins with a new one-time-use device that is not reserved, and ours is born reserved"
    ),
    f"{_PLACEMENT}.RCAndTraitBasedPCIAliasTests.test_one_time_use_workflow": (
        "it begins with a new one-time-use device that is on offer, and ours is born reserved"
    ),
}
"""Tests that pass without the patch and must fail with it, and why."""


MUTE_SHARE = 20
"""Of so many tests one may fail on both sides."""


def mute(without: Seen, with_ours: Seen, different: Mapping[str, str]) -> set[str]:
    """The tests that say nothing of the patch; none where they are too many to pass over."""
    found = {
        test
        for test in without.failed & with_ours.failed
        if test not in different and without.why.get(test) == with_ours.why.get(test)
    }
    return found if len(found) * MUTE_SHARE <= len(without.outcomes) else set()


def judge(without: Seen, with_ours: Seen, different: Mapping[str, str]) -> dict[str, str]:
    """What is wrong, by the test's id; ``different`` holds only tests that were run."""
    wrong: dict[str, str] = {}
    for test in sorted(without.outcomes.keys() | with_ours.outcomes.keys()):
        sides = without.outcomes.get(test, "absent"), with_ours.outcomes.get(test, "absent")
        wanted = {(PASSED, FAILED)} if test in different else {(PASSED,) * 2, (SKIPPED,) * 2}
        if sides not in wanted:
            why = with_ours.why.get(test) or without.why.get(test, "")
            wrong[test] = f"{sides[0]} without, {sides[1]} with: {why}"
    return wrong


def _there(name: str) -> bool:
    """Whether this release has it, a module or a class of one. Nova is not imported here."""
    spec = importlib.util.find_spec("nova")
    assert spec is not None
    assert spec.origin is not None
    module, _, last = name.rpartition(".")
    if last.startswith("test_"):
        module, last = name, ""
    source = Path(spec.origin).parents[1].joinpath(*module.split(".")).with_suffix(".py")
    return source.exists() and (not last or f"\nclass {last}(" in source.read_text())


def _both(pythons: Sequence[str], names: Sequence[str], only: Sequence[str]) -> tuple[Seen, Seen]:
    with ThreadPoolExecutor(2) as pool:
        without, with_ours = pool.map(lambda python: run(python, names, only=only), pythons)
    if without.patched or not with_ours.patched:
        raise RuntimeError("expected the patch on one side, the second one, found otherwise")
    return without, with_ours


def _again(test: str, sides: tuple[Seen, Seen], pythons: Sequence[str]) -> tuple[Seen, Seen]:
    """With the outcome of one test as it is alone."""
    alone = [run(python, [test]) for python in pythons]
    return sides[0].but(alone[0]), sides[1].but(alone[1])


def compare(kind: str, pythons: Sequence[str], only: Sequence[str] = ()) -> int:
    """Prints what is wrong in one kind of tests, and returns how much that is."""
    begun = time.monotonic()
    names = [name for name in SUITES[kind] if _there(name)]
    for name in SUITES[kind]:
        if name not in names:
            print(f"not in this release: {name}")
    sides = _both(pythons, names, only)
    ran = {test for test in DIFFERENT if test in sides[0].outcomes}
    different = {test: DIFFERENT[test] for test in ran}
    first = judge(*sides, different)
    for test in sorted(first):
        if not test.startswith("nova."):
            continue
        sides = _again(test, sides, pythons)
    wrong, silent = judge(*sides, different), mute(*sides, different)
    for test in sorted(silent):
        print(f"says nothing: {test}: {wrong.pop(test)}")
    for test in sorted(first.keys() - wrong.keys() - silent):
        print(f"alone it is as it should be: {test}: {first[test]}")
    for test in sorted(different.keys() - wrong.keys()):
        print(f"differs as it must: {test}: {different[test]}")
    for test, what in wrong.items():
        print(f"wrong: {test}: {what}", file=sys.stderr)
    counts = [list(side.outcomes.values()).count(PASSED) for side in sides]
    print(
        f"{kind}: {counts[0]} pass without, {counts[1]} with, {len(wrong)} wrong, "
        f"{time.monotonic() - begun:.0f} s",
        flush=True,
    )
    return len(wrong)


def main(argv: Sequence[str] | None = None) -> int:
    """See the text at the top."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kinds", nargs="*", choices=[[], *SUITES], help="(default: all)")
    parser.add_argument(
        "--only", action="append", default=[], metavar="METHOD", help="no other tests than these"
    )
    options = parser.parse_args(argv)
    kinds = options.kinds or list(SUITES)
    print(f"Nova {importlib.metadata.version('nova')}", flush=True)
    with tempfile.TemporaryDirectory(prefix="novasuites-") as directory:
        pythons = []
        for side in ("without", "with"):
            Path(directory, side).mkdir()
            pythons.append(PatchEnvironment(Path(directory, side)).python)
        install.install(pythons[1])
        wrong = sum(compare(kind, pythons, options.only) for kind in kinds)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
