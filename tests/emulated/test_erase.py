"""One drive, one erase: every kind of honest and dishonest drive, and what is said about it."""

from __future__ import annotations

import json

import pytest

from eraser.case import guestcommands
from eraser.case.namespaces import rearranging
from eraser.controller.passthru import ABORT
from tests.emulated.erasing import CLEAR, PROFILE, QUICK, STATE, VISITED, bench
from tests.lab.nvme.faults import EraseFault, Faults
from tests.lab.rack import Rack

CRYPTO, BLOCK = 4, 2


@pytest.mark.parametrize(
    ("preset", "sanitizes"),
    [
        # The default run is to stay short: it has one of them in test_testimony.py, up to the end.
        pytest.param("block-only", [BLOCK], marks=pytest.mark.rack),
        pytest.param("crypto-only-random", [CRYPTO], marks=pytest.mark.rack),
        *(
            pytest.param(name, [CRYPTO, BLOCK], marks=pytest.mark.rack)
            for name in (
                *("honest", "honest-4k", "namespaces", "sanitize-instant"),
                *("crypto-random", "block-pattern", "reads-ones"),
            )
        ),
    ],
)
def test_an_honest_drive_is_erased_and_fit(rack: Rack, preset: str, sanitizes: list[int]) -> None:
    made = bench(rack, preset)
    erased = made.erase()
    assert (erased.code, erased.verdict, erased.fit) == (0, "erased", True), erased.reasons
    assert erased.reasons == []
    assert (erased.asked, erased.achieved, erased.downgraded) == ("Purge", "Purge", False)
    assert made.sanitizes() == sanitizes
    assert made.leaked == 0
    report = made.report(erased)
    assert report["verification"]["canaries_checked"] >= 688
    assert report["verification"]["fingerprints_taken"] > 0
    assert [m["changed"] for m in report["methods"]] == [True] * len(sanitizes)
    assert report["verification"]["missing_probes"] == []
    assert made.drive.commands("format_nvm") == []


@pytest.mark.rack
def test_an_honest_drive_is_used_as_by_its_next_tenant_and_fit(rack: Rack) -> None:
    """The acts on the real driver: each was done, and none showed anything."""
    resets = {"subsystem_reset": True, "bus_reset": True}
    asked = VISITED | {"verification": VISITED["verification"] | resets | {"visit": 4}}
    able = ["--profile", json.dumps({"subsystem_reset": True})]
    made = bench(rack, "honest", policy=asked, options=able)
    method = f"/sys/bus/pci/devices/{made.drive.address}/reset_method"
    before = made.compute.get(method)
    began = len(made.drive.events())
    erased = made.erase()
    assert (erased.code, erased.reasons, made.leaked) == (0, [], 0)
    between, after = made.report(erased)["visits"]
    assert (between["wrote"], after["wrote"]) == (True, False)
    acts = between["acts"] + after["acts"]
    assert [act for act in acts if not act["done"] or act["canaries"] or act["unchanged"]] == []
    undone = between["not_done"] + after["not_done"]
    assert not any(
        text.startswith(("namespace ", "shutdown", guestcommands.ABORTED)) for text in undone
    )
    # Eight in each of two rounds, and after the last method.
    assert len(made.drive.commands("abort")) == 3 * guestcommands.OFTEN
    assert not any("reset" in text for text in between["not_done"])
    seen = made.drive.events()[began:]
    assert [event.event for event in seen].count("shutdown") == 3
    # QEMU tells the drive of a reset of the bus above it in these words.
    by_bus = [event for event in seen if event.event == "pci_reset" and "device" in event.detail]
    assert len(by_bus) == 3
    assert [event.event for event in seen].count("subsystem_reset") == 3
    assert made.compute.get(method) == before == b"flr bus\n"


@pytest.mark.rack
def test_a_drive_that_never_ends_an_abort_is_fit_all_the_same(rack: Rack) -> None:
    """The kernel waits for it, resets the controller, and the case goes on with what comes back."""
    made = bench(rack, "honest", policy=VISITED)
    made.drive.set_faults(Faults(admin_hang=[ABORT]))
    erased = made.erase()
    assert (erased.code, erased.reasons, made.leaked) == (0, [], 0)
    for visit in made.report(erased)["visits"]:
        assert f"{guestcommands.ABORTED}: the drive did not end one" in visit["not_done"]
    assert made.drive.commands("abort")
    assert "timeout, reset controller" in made.compute.sh("dmesg").stdout


@pytest.mark.rack
@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(CLEAR | {"label": "Clear"}, id="Format"),
        pytest.param(QUICK, id="Sanitize", marks=pytest.mark.rack),
    ],
)
def test_capacity_in_no_namespace_is_erased_and_read_too(
    rack: Rack, policy: dict[str, object]
) -> None:
    """A quarter of the media: the kernel gets a disk over it for the time of the case."""
    made = bench(rack, "unallocated", policy=policy)
    erased = made.erase()
    assert (erased.code, erased.reasons, made.leaked) == (0, [], 0)
    report = made.report(erased)
    before, after = report["facts_before"], report["facts_after"]
    assert after["namespaces"] == before["namespaces"]
    assert (after["detached"], after["unallocated_bytes"]) == ([], before["unallocated_bytes"])
    read = report["verification"]["namespaces"]
    assert [each["nsid"] for each in read if each.get("temporary")] == [2]
    assert sum(each["blocks"] for each in read) * 4096 >= after["total_bytes"] - 65536
    assert not [text for text in report.get("residues", ()) if text.startswith("Capacity")]


@pytest.mark.rack
@pytest.mark.parametrize(
    ("policy", "acts"),
    [
        pytest.param(
            VISITED | {"allow_clear": True, "label": "Clear"},
            [rearranging.DETACHED, rearranging.FORMATTED],
            id="Format",
        ),
        pytest.param(VISITED, [rearranging.DETACHED, rearranging.MADE], id="Sanitize"),
    ],
)
def test_namespaces_are_handled_as_by_a_tenant_on_the_real_driver(
    rack: Rack, policy: dict[str, object], acts: list[str]
) -> None:
    """Its disks go and come while the case has the drive; the layout is the one of before."""
    made = bench(rack, "unallocated", policy=policy)
    erased = made.erase()
    assert (erased.code, erased.reasons, made.leaked) == (0, [], 0)
    report = made.report(erased)
    between = next(visit for visit in report["visits"] if visit["wrote"])
    for act in acts:
        assert not [text for text in between["not_done"] if text.startswith(act)], act
    assert len(made.drive.commands("namespace_attachment")) >= 4
    before, after = report["facts_before"], report["facts_after"]
    assert after["namespaces"] == before["namespaces"]
    assert (after["detached"], after["unallocated_bytes"]) == ([], before["unallocated_bytes"])


@pytest.mark.rack
def test_a_drive_that_shows_what_it_kept_to_a_tenant_alone_is_held(rack: Rack) -> None:
    """Seed 2: half of each page, to reads that do not begin at 4 KiB once arbitration was set."""
    made = bench(rack, "composed:2", policy=VISITED)
    erased = made.erase()
    assert (erased.code, erased.verdict) == (8, "not_erased")
    assert "as its next tenant will" in erased.reasons[0]


@pytest.mark.parametrize(
    "preset",
    [
        "lying",
        *(
            pytest.param(name, marks=pytest.mark.rack)
            for name in ("partial", "lying-stale", "sanitize-rejected")
        ),
    ],
)
def test_a_drive_that_keeps_data_is_not_erased(rack: Rack, preset: str) -> None:
    made = bench(rack, preset)
    erased = made.erase()
    assert (erased.code, erased.verdict, erased.fit) == (8, "not_erased", False)
    assert "canaries" in erased.reasons[0]
    assert made.leaked > 0
    assert "Nothing is claimed" in erased.sentence


@pytest.mark.rack
def test_an_older_success_is_not_ours(rack: Rack) -> None:
    """The log shows a success of the very command, blank media and no probes: still unknown."""
    policy = QUICK | {"verification": {"residual": 0.001, "canaries": 0}}
    made = bench(rack, "honest", policy=policy)
    made.compute.sh("nvme admin-passthru /dev/nvme0 --opcode=0x84 --cdw10=2")
    made.compute.sh(
        "until nvme get-log /dev/nvme0 -i 0x81 -l 8 -b | od -An -tx1 -j2 -N1"
        " | grep -q 01; do sleep 0.2; done",
        timeout=60,
    )
    made.drive.set_faults(Faults(sanitize=EraseFault.STALE))
    made.policy(policy | {"purge_methods": ["sanitize-block"]})
    erased = made.erase()
    assert (erased.code, erased.verdict, erased.fit) == (1, "unknown", False)
    assert "older" in " ".join(erased.reasons)
    assert made.leaked == 0


@pytest.mark.rack
def test_a_failed_sanitize_is_repeated_once_by_the_other_method(rack: Rack) -> None:
    made = bench(rack, "sanitize-fails")
    erased = made.erase()
    assert (erased.code, erased.verdict, erased.fit) == (8, "not_erased", False)
    assert sum("SSTAT 3" in reason for reason in erased.reasons) == 2
    assert made.sanitizes() == [CRYPTO, BLOCK]


@pytest.mark.rack
def test_a_failed_single_sanitize_is_repeated_once(rack: Rack) -> None:
    made = bench(rack, "block-only", faults=Faults(sanitize=EraseFault.FAIL))
    erased = made.erase()
    assert (erased.code, erased.verdict) == (8, "not_erased")
    assert made.sanitizes() == [BLOCK, BLOCK]
    assert all(c.cdws[0] == BLOCK for c in made.drive.commands("sanitize")), "AUSE stays 0"


@pytest.mark.rack
def test_a_stuck_sanitize_ends_as_unknown(rack: Rack) -> None:
    made = bench(rack, "sanitize-stuck")
    erased = made.erase()
    assert (erased.code, erased.verdict, erased.fit) == (1, "unknown", False)
    assert "stuck" in erased.reasons[0]
    assert made.sanitizes() == [CRYPTO]


@pytest.mark.rack
def test_a_sanitize_command_without_an_answer_does_not_hang(rack: Rack) -> None:
    made = bench(rack, "sanitize-hangs", policy=QUICK | {"limits": {"command": 4, "poll": 0.1}})
    erased = made.erase()
    assert (erased.code == 0, erased.fit) == (False, False)
    assert made.leaked > 0


@pytest.mark.rack
def test_a_worn_drive_is_erased_and_held(rack: Rack) -> None:
    made = bench(rack, "worn")
    erased = made.erase()
    assert (erased.code, erased.verdict, erased.fit) == (7, "erased", False)
    assert any(reason.startswith("health:") for reason in erased.reasons)
    assert made.leaked == 0


@pytest.mark.rack
def test_a_changed_layout_is_erased_and_held(rack: Rack) -> None:
    made = bench(rack)
    profile = json.loads(made.compute.get(PROFILE))
    profile["namespaces"][0]["blocks"] -= 8
    profile["firmware"] = ["TRUSTED1"]
    made.compute.put(PROFILE, json.dumps(profile).encode())
    erased = made.erase()
    assert (erased.code, erased.verdict, erased.fit) == (7, "erased", False)
    assert any("firmware" in reason for reason in erased.reasons)
    assert any("blocks" in reason for reason in erased.reasons)
    assert made.leaked == 0


@pytest.mark.rack
def test_blocks_that_cannot_be_read_make_it_unknown(rack: Rack) -> None:
    made = bench(rack, "bad-blocks")
    erased = made.erase()
    assert (erased.code, erased.verdict, erased.fit) == (1, "unknown", False)
    assert "cannot be read" in " ".join(erased.reasons)


@pytest.mark.rack
def test_a_hostile_serial_is_data_and_never_a_name(rack: Rack) -> None:
    made = bench(rack, "hostile-names")
    erased = made.erase()
    assert (erased.code, erased.serial) == (0, "../../x<b>&'\"")
    names = made.compute.sh(f"find {STATE} /run/nvme-quarantine -printf '%P\\n'").stdout
    assert "x<b>" not in names
    assert "script" not in names
    assert all(".." not in name for name in names.splitlines())


@pytest.mark.rack
def test_purge_without_sanitize_is_refused_and_nothing_is_sent(rack: Rack) -> None:
    made = bench(rack, "format-crypto")
    erased = made.erase()
    assert (erased.code, erased.outcome, erased.fit) == (10, "no_method", False)
    assert "allow_clear" in erased.reasons[0]
    assert made.destructive() == []
    made.policy(CLEAR)
    plan = made.plan()
    assert [(c["method"], c["cdw10"]) for c in plan["commands"]] == [("format-user-data", 0x200)]
    assert (plan["downgraded"], made.destructive()) == (True, [])
    erased = made.erase()
    assert (erased.code, erased.verdict, erased.fit) == (0, "erased", True), erased.reasons
    assert (erased.asked, erased.achieved, erased.downgraded) == ("Purge", "Clear", True)
    assert [(c.name, c.nsid, c.cdws[0]) for c in made.destructive()] == [("format_nvm", 1, 0x200)]
    assert made.leaked == 0


@pytest.mark.rack
def test_another_drive_than_the_interrupted_cases_gets_nothing(rack: Rack) -> None:
    """Stand-alone the identity is learned first; a swapped drive ends the case untouched."""
    made = bench(rack, faults=Faults(sanitize_seconds=30))
    made.drive.set_faults(Faults(sanitize_seconds=30))
    process = made.compute.spawn(made.argv())
    made.compute.sh(
        f"until grep -q Fingerprinted {STATE}/cases/*/journal.jsonl; do sleep 0.05; done",
        timeout=60,
    )
    process.signal(9)
    before = len(made.destructive())
    journal = made.compute.sh(f"ls {STATE}/cases/*/journal.jsonl").stdout.strip()
    assert journal
    rack.power_cut(made.compute)
    made.drive.kill()
    made.drive.serial = "SWAPPED01"
    made.drive._options = ()
    for path in made.drive.backing.parent.glob("media*"):
        if path != made.drive.command_log:
            path.unlink()
    made.drive.start()
    rack.power_on(made.compute)
    erased = made.erase()
    assert (erased.code, erased.outcome, erased.fit) == (4, "wrong_drive", False)
    assert "SWAPPED01" in erased.reasons[0]
    assert len(made.destructive()) == before


def test_a_drive_in_use_gets_nothing(rack: Rack) -> None:
    made = bench(rack)
    made.compute.sh(
        "mkfs.ext4 -q -F /dev/nvme0n1 && mkdir -p /mnt && mount /dev/nvme0n1 /mnt", timeout=60
    )
    before = len(made.drive.commands())
    erased = made.erase()
    assert (erased.code, erased.outcome, erased.fit) == (3, "in_use", False)
    assert "mounted" in erased.reasons[0]
    assert made.destructive() == []
    assert all(c.name not in ("set_features",) for c in made.drive.commands()[before:])
    made.compute.sh("umount /mnt")
    assert made.erase().code == 0


@pytest.mark.rack
def test_malformed_input_touches_nothing(rack: Rack) -> None:
    made = bench(rack)
    run = made.compute.run
    before = len(made.drive.commands())
    made.compute.put("/tmp/bad.json", b'{"name": "x", "surprise": 1}')
    made.compute.put("/tmp/torn.json", b'{"name": ')
    base = ["nvme-eraser", "erase", "--any-drive", "--state-dir", "/tmp/none"]
    for more in (
        ["--pci", "nvme0", "--profile", PROFILE],
        ["--pci", made.drive.address, "--profile", "/tmp/bad.json"],
        ["--pci", made.drive.address, "--profile", "/tmp/torn.json"],
        ["--pci", made.drive.address, "--profile", "/nowhere"],
        ["--pci", made.drive.address, "--profile", PROFILE, "--policy", "/tmp/bad.json"],
        ["--pci", made.drive.address, "--profile", PROFILE, "--stuck-after", "0"],
        ["--pci", made.drive.address, "--profile", PROFILE, "--poll", "soon"],
        ["--pci", made.drive.address, "--profile", PROFILE, "--host", "a b"],
        ["--pci", made.drive.address],
        ["--frobnicate"],
    ):
        done = run(base + more, check=False)
        assert done.returncode == 2, more
        assert done.stdout == ""
        assert len(done.stderr.splitlines()) == 1, done.stderr
        assert done.stderr.startswith("nvme-eraser: ")
    assert run(["ls", "/tmp/none"], check=False).returncode != 0
    assert len(made.drive.commands()) == before
