"""Whatever is killed, and whenever: the case ends, with one verdict and no needless command."""

from __future__ import annotations

import time

import pytest

from tests.emulated.erasing import CLEAR, QUICK, STATE, Bench, Erased, bench
from tests.lab.guest.argv import SHORT_TIMEOUTS
from tests.lab.nvme.faults import Faults
from tests.lab.rack import Rack

pytestmark = pytest.mark.rack

CRYPTO, BLOCK = 4, 2
SLOW = Faults(sanitize_seconds=600)
"""Far longer than any test: the test ends it when it has seen what it waited for."""
FAST = Faults(sanitize_seconds=0.5)


def wait_for_entry(made: Bench, kind: str, count: int = 1) -> None:
    """Until the journal has the entry; polls in the guest, where it is quickest.

    The last ones stand behind the verifier's wait (30 s), on a machine that may be busy.
    """
    made.compute.sh(
        f"until [ $(cat {STATE}/cases/*/journal.jsonl 2>/dev/null | grep -c '\"{kind}\"')"
        f" -ge {count} ]; do sleep 0.02; done",
        timeout=480,
    )


def wait_for_format(made: Bench) -> None:
    """Until the drive has the command."""
    deadline = time.monotonic() + 60
    while not made.drive.commands("format_nvm"):
        assert time.monotonic() < deadline, "the drive never saw a Format"
        time.sleep(0.05)


def kill_during(made: Bench, method: str) -> None:
    """Starts an erase and kills it with SIGKILL while the drive is in the named sanitize."""
    process = made.compute.spawn(made.argv())
    wait_for_entry(made, "SeenRunning")
    if method == "block":
        made.drive.set_faults(FAST)
        wait_for_entry(made, "MethodDone")
        made.drive.set_faults(SLOW)
        wait_for_entry(made, "SeenRunning", 2)
    process.signal(9)


def erase_again(made: Bench) -> Erased:
    """The next run; the drive is let go on only when that run is watching it."""
    process = made.compute.spawn(made.argv())
    made.compute.sh(
        f"until grep -q -e '\"Resumed\"' -e '\"adopted\":true' {STATE}/cases/*/journal.jsonl;"
        " do sleep 0.05; done",
        timeout=120,
    )
    made.drive.set_faults(FAST)
    code = process.wait(240)
    return Erased(code, process.stdout(), process.stderr())


@pytest.mark.parametrize("during", ["crypto", "block"])
@pytest.mark.parametrize("journal", ["kept", "journal deleted", "state deleted"])
def test_a_killed_worker_is_succeeded_by_one_that_sends_nothing_again(
    rack: Rack, during: str, journal: str
) -> None:
    made = bench(rack, faults=SLOW)
    kill_during(made, during)
    if journal == "journal deleted":
        made.compute.sh(f"rm {STATE}/cases/*/journal.jsonl")
    elif journal == "state deleted":
        made.compute.sh(f"rm -r {STATE}/cases {STATE}/reports")
    erased = erase_again(made)
    assert (erased.code, erased.verdict, erased.fit) == (0, "erased", True), erased.reasons
    assert made.sanitizes() == [CRYPTO, BLOCK]
    assert made.leaked == 0
    assert erased.resumed == (1 if journal == "kept" else 0)
    methods = made.report(erased)["methods"]
    if journal == "kept":
        assert [m["adopted"] for m in methods] == [False, False]
    else:
        assert methods[0]["adopted"]
        assert [m["method"] for m in methods][-1] == "sanitize-block"


def test_probes_lost_with_the_journal_are_planted_for_a_second_round(rack: Rack) -> None:
    """DLFEAT promises nothing, so content alone would hold an honest drive."""
    made = bench(rack, "block-pattern", faults=SLOW)
    kill_during(made, "block")
    made.compute.sh(f"rm -r {STATE}/cases")
    erased = erase_again(made)
    assert (erased.code, erased.verdict, erased.fit) == (0, "erased", True), erased.reasons
    assert made.sanitizes() == [CRYPTO, BLOCK, BLOCK]


@pytest.mark.parametrize(
    "entry",
    [
        *("WasReset", "Identified", "Planned", "Fingerprinted", "Planted", "Intent"),
        *("SeenRunning", "MethodDone", "Verified"),
    ],
)
def test_a_power_cut_at_any_step_is_resumed(rack: Rack, entry: str) -> None:
    made = bench(rack, faults=Faults(sanitize_seconds=2))
    made.compute.spawn(made.argv())
    wait_for_entry(made, entry)
    rack.power_cut(made.compute)
    rack.power_on(made.compute)
    made.drive.set_faults(Faults(sanitize_seconds=1))
    erased = made.erase()
    assert (erased.code, erased.verdict, erased.fit) == (0, "erased", True), erased.reasons
    assert made.sanitizes() == [CRYPTO, BLOCK]
    assert made.leaked == 0


def test_two_runners_exclude_each_other(rack: Rack) -> None:
    made = bench(rack, faults=SLOW)
    process = made.compute.spawn(made.argv())
    wait_for_entry(made, "SeenRunning")
    second = made.erase()
    assert second.code == 5
    assert (second.outcome, second.verdict, second.fit) == ("busy", "unknown", False)
    made.drive.set_faults(FAST)
    assert process.wait(120) == 0
    assert made.sanitizes() == [CRYPTO, BLOCK]


def test_sigterm_leaves_the_drive_going_and_says_how_to_resume(rack: Rack) -> None:
    made = bench(rack, faults=SLOW)
    process = made.compute.spawn(made.argv())
    wait_for_entry(made, "SeenRunning")
    process.signal(15)
    assert process.wait(60) == 143
    assert "call the same command again" in process.stderr()
    erased = erase_again(made)
    assert (erased.code, made.sanitizes()) == (0, [CRYPTO, BLOCK])


def test_a_damaged_journal_touches_nothing(rack: Rack) -> None:
    made = bench(rack, faults=SLOW)
    process = made.compute.spawn(made.argv())
    wait_for_entry(made, "Planted")
    process.signal(9)
    process.wait()
    # What it had started by then, the drive's first sanitize perhaps, ends by itself.
    made.compute.sh("while grep -qsx nvme /proc/[0-9]*/comm; do sleep 0.1; done")
    sent = len(made.destructive())
    made.compute.sh(f"sed -i '3s/[0-9]/x/' {STATE}/cases/*/journal.jsonl")
    erased = made.erase()
    assert (erased.code, erased.verdict, erased.fit) == (1, "unknown", False)
    assert "line 2" in erased.reasons[0]
    assert len(made.destructive()) == sent


def test_a_format_slower_than_the_kernels_timeout_is_not_reset(rack: Rack) -> None:
    made = bench(rack, "format-only", faults=Faults(format_seconds=9), policy=CLEAR,
                 flavour=SHORT_TIMEOUTS)  # fmt: skip
    erased = made.erase()
    assert (erased.code, erased.verdict, erased.fit) == (0, "erased", True), erased.reasons
    assert [c.name for c in made.destructive()] == ["format_nvm"]
    assert not [e for e in made.drive.events() if e.event == "format_interrupted"]
    assert made.leaked == 0


def test_a_format_outlives_its_killed_sender(rack: Rack) -> None:
    # So long that the next run meets its child: one that had let go of the slot is not believed.
    made = bench(rack, "format-only", faults=Faults(format_seconds=20), policy=CLEAR)
    process = made.compute.spawn(made.argv())
    wait_for_entry(made, "Intent")
    wait_for_format(made)
    process.signal(9)
    erased = made.erase()
    assert (erased.code, erased.verdict, erased.fit) == (0, "erased", True), erased.reasons
    assert len(made.destructive()) == 1
    assert made.leaked == 0


def test_a_format_cut_off_by_a_power_loss_is_repeated(rack: Rack) -> None:
    made = bench(rack, "format-only", faults=Faults(format_seconds=30), policy=CLEAR)
    made.compute.spawn(made.argv())
    wait_for_entry(made, "Intent")
    wait_for_format(made)
    rack.power_cut(made.compute)
    made.drive.set_faults(Faults(format_seconds=1))
    rack.power_on(made.compute)
    erased = made.erase()
    assert (erased.code, erased.verdict, erased.fit) == (0, "erased", True), erased.reasons
    assert len(made.destructive()) == 2
    assert made.report(erased)["methods"][0]["attempts"] == 2
    assert made.leaked == 0


@pytest.mark.parametrize("preset", ["lying-format", "format-fails"])
def test_a_format_that_keeps_data_is_not_erased(rack: Rack, preset: str) -> None:
    made = bench(rack, preset, policy=CLEAR)
    erased = made.erase()
    assert (erased.code, erased.verdict, erased.fit) == (8, "not_erased", False)
    assert made.leaked > 0


def test_a_format_without_an_answer_ends_as_unknown_or_worse(rack: Rack) -> None:
    limits = QUICK["limits"] | {"format": 5}
    made = bench(rack, "format-hangs", policy=CLEAR | {"limits": limits})
    erased = made.erase()
    assert erased.code in (1, 8)
    assert erased.fit is False
    assert made.leaked > 0


def test_every_namespace_is_formatted_with_its_own_lba_format(rack: Rack) -> None:
    made = bench(rack, "namespaces", policy=CLEAR | {"label": "Clear"}, mib=4)
    erased = made.erase()
    assert (erased.code, erased.achieved, erased.downgraded) == (0, "Clear", False), erased.reasons
    assert [(c.nsid, c.cdws[0]) for c in made.destructive()] == [
        (1, 0x200),
        (2, 0x201),
        (5, 0x200),
    ]
    assert made.leaked == 0


def test_a_foreign_sanitize_is_waited_for_and_ours_follows(rack: Rack) -> None:
    made = bench(rack, faults=Faults(sanitize_seconds=5))
    overwrite = 3 | 1 << 4
    made.compute.sh(f"nvme admin-passthru /dev/nvme0 --opcode=0x84 --cdw10={overwrite:#x}")
    erased = made.erase()
    assert (erased.code, erased.verdict) == (0, "erased"), erased.reasons
    assert made.sanitizes() == [3, CRYPTO, BLOCK]


def test_dulble_left_by_a_tenant_does_not_hold_the_drive(rack: Rack) -> None:
    made = bench(rack)
    made.compute.sh(
        "nvme admin-passthru /dev/nvme0 --opcode=0x09 --namespace-id=1 --cdw10=5 --cdw11=0x10000"
    )
    erased = made.erase()
    assert (erased.code, erased.verdict) == (0, "erased"), erased.reasons
