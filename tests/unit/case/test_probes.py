"""Probes and reading on real blocks of a file: resumed, lost, damaged, and never a false proof."""

from __future__ import annotations

import dataclasses
import shutil
from typing import Any

import pytest

from eraser.case import run
from eraser.case.entries import Fingerprinted, Inspected
from eraser.case.state import CaseState
from eraser.protocol.policy import VerificationMode
from eraser.protocol.report import EraseReport, Verdict
from eraser.state.journal import read
from tests.lab.nvme.acts import Act, Kind, Reset
from tests.lab.nvme.drive import Drive
from tests.lab.nvme.faults import HEALTHY, EraseFault, Faults, MediaError
from tests.lab.nvme.fill import Fill
from tests.lab.nvme.nature import Method, Nature
from tests.lab.nvme.profile import NamespaceProfile
from tests.unit.case.bed import SIZE, Bed
from tests.unit.case.bed import bed as plain
from tests.unit.case.fakes import DRIVE, FACTS, HEALTH, Crash, Plug

__all__ = ["plain"]

SANITIZE = 0x84
LIES = Faults(sanitize=EraseFault.LIE)


@pytest.fixture
def bed(plain: Bed) -> Bed:
    """A case with probes enough, and a second reading."""
    plain.ask(residual=0.0001, canaries=64, reread=4096)
    return plain


def proof(report: EraseReport) -> Any:
    assert report.verification is not None
    return report.verification


def test_every_probe_is_planted_checked_and_gone(bed: Bed) -> None:
    report = bed.run()
    assert (report.verdict, report.fit) == (Verdict.ERASED, True), report.reasons
    found = proof(report)
    assert found.canaries_planted == found.canaries_checked >= 64
    # Blank blocks that were looked at before count too: they had nothing to keep.
    assert 64 <= (found.probed or 0) <= found.namespaces[0].blocks
    # Where a canary was planted over a fingerprinted block, the canary speaks for it.
    assert found.fingerprints_taken >= found.fingerprints_checked > 0
    assert found.missing_probes == ()
    assert bed.resets == [Reset.CONTROLLER, Reset.FUNCTION]
    assert bed.files.probe_key.stat().st_mode & 0o777 == 0o600


def test_where_the_kernel_can_reset_no_function_the_controller_is_reset(bed: Bed) -> None:
    bed.resettable = ()
    bed.anew()
    report = bed.run()
    assert (report.verdict, report.fit) == (Verdict.ERASED, True), report.reasons
    assert bed.resets == [Reset.CONTROLLER] * 2


def test_a_liar_is_found_out(bed: Bed) -> None:
    bed.anew(faults=LIES)
    report = bed.run()
    assert bed.kept
    assert (report.verdict, report.fit) == (Verdict.NOT_ERASED, False)
    assert "canaries" in report.reasons[0]


class Forgetful(Nature):
    """Its sanitize reaches the blocks that it was asked for alone, as where a mapping is loaded on
    demand and only what is loaded is dropped."""

    def __init__(self) -> None:
        self._asked: list[tuple[int, int]] = []

    def joins(self, drive: Drive) -> None:
        self._drive = drive

    def hears(self, act: Act) -> None:
        if act.kind is Kind.IO and act.end > act.start:
            self._asked.append((act.start, act.end))

    def forget(self) -> None:
        """What was asked for so far is loaded no more."""
        self._asked.clear()

    def survives(self, method: Method) -> bool:
        return True

    def erases(self, method: Method, start: int, end: int, fill: Fill) -> bool:
        for first, last in self._asked:
            self._drive.media.empty(first // 4096 * 4096, -(-last // 4096) * 4096, fill)
        return True


def test_a_drive_that_erases_only_what_it_was_asked_for_is_found_out(bed: Bed) -> None:
    """The places that are read are drawn after the last method. Without a second reading, whose
    own places would hide that."""
    nature = Forgetful()
    # 90 places are much less than all of it: a sample.
    bed.anew(dataclasses.replace(DRIVE, size=16 << 20), nature=nature)
    nature.forget()
    bed.ask(mode=VerificationMode.STATISTICAL, confidence=0.99, residual=0.05, reread=0)

    report = bed.run()

    found = proof(report)
    assert found.done is VerificationMode.STATISTICAL
    assert found.namespaces[0].unchanged == found.namespaces[0].canaries == 0
    assert bed.kept
    assert report.verdict is not Verdict.ERASED
    assert not report.fit


def test_no_place_is_drawn_before_the_last_method(bed: Bed) -> None:
    """Nor is it kept over one that follows, as after a reading that asks for another round."""
    bed.run()
    lines = [line.kind for line in read(bed.files.journal)]
    assert lines.index("Seeded") < lines.index("Intent")
    assert lines.count("Drawn") == 1
    assert lines.index("Drawn") > max(n for n, kind in enumerate(lines) if kind == "MethodDone")
    state = CaseState.of(read(bed.files.journal))
    assert state.seed
    assert state.seed != state.probe_seed


def test_killed_at_every_act_once(bed: Bed) -> None:
    bed.run()
    total = bed.plug.acts
    for at in range(0, total, 3):
        bed.files.clear()
        bed.anew()
        with pytest.raises(Crash):
            bed.run(Plug(at, after=True))
        report = bed.run()
        assert (report.verdict, report.fit) == (Verdict.ERASED, True), (at, report.reasons)
        assert bed.started == [4, 2], at
        found = proof(report)
        assert found.canaries_checked >= 64
        assert found.fingerprints_taken > 0
        assert not any(bed.drive.backing.read_bytes())


def test_canaries_of_a_lost_key_never_count_as_gone(bed: Bed) -> None:
    """With another key they would all be missed, and a liar would pass."""
    bed.anew(dataclasses.replace(DRIVE, dlfeat=0))
    bed.crash_after("WasReset")
    bed.files.probe_key.unlink()
    report = bed.run()
    found = proof(report)
    assert (found.canaries_planted, found.canaries_checked) == (0, 0)
    assert any("key was lost" in text for text in found.missing_probes)
    assert report.verdict is not Verdict.ERASED


def test_a_key_lost_before_the_last_method_is_replaced_and_planted_anew(bed: Bed) -> None:
    bed.crash_after("MethodDone")
    bed.files.probe_key.unlink()
    report = bed.run()
    assert (report.verdict, bed.started) == (Verdict.ERASED, [4, 2])
    found = proof(report)
    assert found.canaries_planted == found.canaries_checked >= 64
    assert any("key was lost" in text for text in found.missing_probes)


def test_damaged_fingerprints_are_named(bed: Bed) -> None:
    bed.crash_after("WasReset")
    raw = bytearray(bed.files.fingerprints(1).read_bytes())
    raw[60] ^= 1
    bed.files.fingerprints(1).write_bytes(raw)
    report = bed.run()
    found = proof(report)
    assert any(text.startswith("fingerprints:") for text in found.missing_probes)
    assert found.fingerprints_taken == 0
    assert report.verdict is Verdict.ERASED, "the canaries and the content still decide"


def test_a_damaged_checkpoint_is_read_from_the_start(bed: Bed) -> None:
    bed.crash_after("WasReset")
    bed.files.verify_state.write_bytes(b'{"plan": "')
    report = bed.run()
    assert report.verdict is Verdict.ERASED
    assert proof(report).namespaces[0].read == SIZE // 4096


def test_a_namespace_without_a_disk_is_not_passed_over(bed: Bed) -> None:
    """All blocks of one namespace of two are not all blocks."""
    two = (NamespaceProfile(1, 0.5), NamespaceProfile(2, 0.5))
    bed.anew(dataclasses.replace(DRIVE, namespaces=two))

    def firmware(opcode: int, words: dict[str, Any], done: Any) -> Any:
        answer = done()
        if 2 in bed.kernel.disks:
            shutil.rmtree(bed.kernel.forget_disk(2))
        return answer

    bed.firmware = firmware
    report = bed.run()
    assert (report.verdict, report.fit) == (Verdict.UNKNOWN, False)
    assert "no block device of [2]" in report.reasons[0]


def test_a_drive_that_answers_no_reads_is_erased_all_the_same(bed: Bed) -> None:
    bed.drive.set_faults(Faults(media_errors=[MediaError(0, SIZE // 512 - 1)]))

    def meanwhile(opcode: int) -> None:
        if opcode == SANITIZE:
            bed.drive.set_faults(HEALTHY)

    bed.meanwhile = meanwhile
    report = bed.run()
    assert bed.started == [4, 2]
    assert any("given up after 64 blocks" in text for text in proof(report).missing_probes)


def test_media_errors_of_the_last_owners_blocks_are_not_the_erased_drives() -> None:
    state = CaseState()
    state.apply(Inspected(FACTS, HEALTH, ()))
    assert run._media_errors_before(state) == 0
    state.apply(Fingerprinted(10, ("1 block could not be read",), 3))
    assert run._media_errors_before(state) == 3
