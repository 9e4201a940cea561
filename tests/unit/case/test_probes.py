"""Probes and reading on real blocks of a file: resumed, lost, damaged, and never a false proof."""

from __future__ import annotations

import dataclasses
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eraser.case import probes, run, sanitize, verify
from eraser.case.entries import Entry, Fingerprinted, Identified, Inspected
from eraser.case.report import AfterLook
from eraser.case.session import CaseJournal, CaseSession
from eraser.case.state import CaseState
from eraser.clock import Clock
from eraser.media.reader import BlockDevice
from eraser.proof.counter import GROUPS
from eraser.proof.tally import Tally
from eraser.proof.verify import NamespacePlan, Verifier, VerifyPlan
from eraser.protocol import codec
from eraser.protocol.policy import Verification, VerificationMode
from eraser.protocol.profile import NamespaceLayout
from eraser.protocol.report import EraseReport, Verdict
from eraser.state.journal import read
from tests.unit.case.fakes import (
    FACTS,
    HEALTH,
    IDENTITY,
    POLICY,
    REQUEST,
    SUCCESS,
    Bed,
    Crash,
    FakeController,
    FakeDrive,
    Plug,
    namespace,
)

SIZE = 1 << 20
LAYOUT = NamespaceLayout(1, SIZE // 512, 512, 0)
TENANT = (secrets.token_bytes(SIZE // 2) + b"the tenant's " * 2048).ljust(SIZE, b"\0")


@dataclass
class FileDrive(FakeDrive):
    """The fake drive with media: a file that its sanitize empties, or does not."""

    media: Path = Path()
    lies: bool = False
    promised: int | None = 0
    resets: int = 0
    """Of both kinds."""
    function_resets: int = 0
    can_reset_function: bool = True

    def log(self) -> bytes:
        """As the fake drive; the media goes at the end."""
        before = self.status
        raw = super().log()
        if before != self.status == SUCCESS and not self.lies:
            self.media.write_bytes(bytes(SIZE))
        return raw


@dataclass
class FileController(FakeController):
    """What reading needs besides."""

    drive: FileDrive
    plug: Plug
    records: list[Any] = field(default_factory=list)

    def active_namespaces(self) -> tuple[int, ...]:
        return (1,)

    def identify_namespace(self, _nsid: int, *, attached: bool = True) -> Any:
        found = namespace(LAYOUT)
        found.expected_byte = self.drive.promised
        return found

    def get_feature(self, _fid: int, _nsid: int) -> int:
        return 0

    def reset(self, *, timeout: float) -> None:
        self.drive.resets += 1

    def reset_function(self, *, timeout: float) -> str:
        if not self.drive.can_reset_function:
            return "the kernel knows none for it"
        self.drive.function_resets += 1
        self.reset(timeout=timeout)
        return ""


@dataclass
class FileHold:
    """The file as namespace 1."""

    paths: dict[int, str]

    def take(self) -> None: ...

    def drop(self) -> None: ...


@pytest.fixture
def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bed:
    """A case on a file, with nothing faked above the device."""
    media = tmp_path / "media"
    media.write_bytes(TENANT)
    try:
        os.close(os.open(media, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        pytest.skip(f"{tmp_path} is on a file system without O_DIRECT; give --basetemp elsewhere")
    policy = dataclasses.replace(POLICY, verification=Verification(canaries=64, visit=0))
    made = Bed(
        tmp_path, FileDrive(media=media), request=dataclasses.replace(REQUEST, policy=policy)
    )
    real_note = CaseJournal.note

    def note(journal: CaseJournal, entry: Entry) -> None:
        made.plug.act(lambda: real_note(journal, entry))

    def open_(session: CaseSession) -> None:
        assert isinstance(made.drive, FileDrive)
        if session.state.identity is None:
            session.note(Identified(IDENTITY))
        monkeypatch.setattr(session, "_controller", FileController(made.drive, made.plug))
        monkeypatch.setattr(session, "_hold", FileHold({1: str(media)}))

    monkeypatch.setattr(CaseJournal, "note", note)
    monkeypatch.setattr(CaseSession, "open", open_)
    monkeypatch.setattr(CaseSession, "prove_idle", lambda _session, **_given: None)
    monkeypatch.setattr(sanitize, "SETTLE_SECONDS", 0.02)
    facts = dataclasses.replace(FACTS, namespaces=(LAYOUT,))
    monkeypatch.setattr(run, "facts", lambda _controller: facts)
    monkeypatch.setattr(run.health, "read", lambda _raw: HEALTH)
    monkeypatch.setattr(
        run, "_look_again", lambda _session: AfterLook(facts, HEALTH, tools={"test": "1"})
    )
    return made


def fresh(bed: Bed) -> FileDrive:
    """The drive as the tenant left it."""
    assert isinstance(bed.drive, FileDrive)
    bed.drive.media.write_bytes(TENANT)
    return FileDrive(media=bed.drive.media)


def crash_after(bed: Bed, kind: str, count: int = 1) -> CaseState:
    """Dies as soon as the journal has the entry for the ``count``-th time."""
    for at in range(200):
        bed.files.clear()
        bed.drive = fresh(bed)
        with pytest.raises(Crash):
            bed.run(Plug(at, after=True))
        kinds = [line.kind for line in read(bed.files.journal)]
        if kinds.count(kind) == count and kinds[-1] == kind:
            return CaseState.of(read(bed.files.journal))
    raise AssertionError(f"no {kind} in the journal")


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
    assert isinstance(bed.drive, FileDrive)
    assert (bed.drive.resets, bed.drive.function_resets) == (2, 1)
    assert bed.files.probe_key.stat().st_mode & 0o777 == 0o600


def test_where_the_kernel_can_reset_no_function_the_controller_is_reset(bed: Bed) -> None:
    assert isinstance(bed.drive, FileDrive)
    bed.drive.can_reset_function = False
    report = bed.run()
    assert (report.verdict, report.fit) == (Verdict.ERASED, True), report.reasons
    assert (bed.drive.resets, bed.drive.function_resets) == (2, 0)


def test_a_liar_is_found_out(bed: Bed) -> None:
    assert isinstance(bed.drive, FileDrive)
    bed.drive.lies = True
    report = bed.run()
    assert (report.verdict, report.fit) == (Verdict.NOT_ERASED, False)
    assert "canaries" in report.reasons[0]


def asked_for(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The blocks that were read, or written, from now on: what a drive knows of its host."""
    found: set[int] = set()
    scattered, in_a_row, write = (
        BlockDevice.read_batches,
        BlockDevice.read_sequential,
        BlockDevice.write_block,
    )

    def read_batches(device: BlockDevice, indexes: Any) -> Any:
        wanted = list(indexes)
        found.update(wanted)
        return scattered(device, wanted)

    def read_sequential(device: BlockDevice, start: int, stop: int) -> Any:
        found.update(range(start, stop))
        return in_a_row(device, start, stop)

    def write_block(device: BlockDevice, index: int, data: bytes, *, by_sector: bool) -> None:
        found.add(index)
        write(device, index, data, by_sector=by_sector)

    monkeypatch.setattr(BlockDevice, "read_batches", read_batches)
    monkeypatch.setattr(BlockDevice, "read_sequential", read_sequential)
    monkeypatch.setattr(BlockDevice, "write_block", write_block)
    return found


@dataclass
class ForgetfulDrive(FileDrive):
    """Its sanitize reaches the blocks that it was asked for alone, as where a mapping is loaded on
    demand and only what is loaded is dropped."""

    asked: set[int] = field(default_factory=set)

    def log(self) -> bytes:
        """As the fake drive; blocks that were asked for go at the end."""
        before = self.status
        raw = FakeDrive.log(self)
        if before != self.status == SUCCESS:
            with self.media.open("r+b") as file:
                for index in self.asked:
                    file.seek(index * 4096)
                    file.write(bytes(4096))
        return raw


def test_a_drive_that_erases_only_what_it_was_asked_for_is_found_out(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The places that are read are drawn after the last method. Without a second reading, whose
    own places would hide that."""
    size = 16 << 20  # 90 places are much less than all of it: a sample
    monkeypatch.setattr(
        "tests.unit.case.test_probes.LAYOUT", NamespaceLayout(1, size // 512, 512, 0)
    )
    facts = dataclasses.replace(FACTS, namespaces=(NamespaceLayout(1, size // 512, 512, 0),))
    monkeypatch.setattr(run, "facts", lambda _controller: facts)
    assert isinstance(bed.drive, FileDrive)
    media = bed.drive.media
    media.write_bytes(b"the tenant's data ".ljust(32, b".") * (size // 32))
    bed.drive = ForgetfulDrive(media=media, asked=asked_for(monkeypatch))
    verification = Verification(
        mode=VerificationMode.STATISTICAL,
        confidence=0.99,
        residual=0.05,
        canaries=64,
        reread=0,
        visit=0,
    )
    policy = dataclasses.replace(POLICY, verification=verification)
    bed.request = dataclasses.replace(REQUEST, policy=policy)

    report = bed.run()

    found = proof(report)
    assert found.done is VerificationMode.STATISTICAL
    assert found.namespaces[0].unchanged == found.namespaces[0].canaries == 0
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
        drive = bed.drive = fresh(bed)
        with pytest.raises(Crash):
            bed.run(Plug(at, after=True))
        report = bed.run()
        assert (report.verdict, report.fit) == (Verdict.ERASED, True), (at, report.reasons)
        assert bed.drive.started == [4, 2], at
        found = proof(report)
        assert found.canaries_checked >= 64
        assert found.fingerprints_taken > 0
        assert not any(drive.media.read_bytes())


def test_canaries_of_a_lost_key_never_count_as_gone(bed: Bed) -> None:
    """With another key they would all be missed, and a liar would pass."""
    crash_after(bed, "WasReset")
    assert isinstance(bed.drive, FileDrive)
    bed.drive.lies, bed.drive.promised = True, None
    bed.files.probe_key.unlink()
    report = bed.run()
    found = proof(report)
    assert (found.canaries_planted, found.canaries_checked) == (0, 0)
    assert any("key was lost" in text for text in found.missing_probes)
    assert report.verdict is not Verdict.ERASED


def test_a_key_lost_before_the_last_method_is_replaced_and_planted_anew(bed: Bed) -> None:
    crash_after(bed, "MethodDone")
    bed.files.probe_key.unlink()
    report = bed.run()
    assert (report.verdict, bed.drive.started) == (Verdict.ERASED, [4, 2])
    found = proof(report)
    assert found.canaries_planted == found.canaries_checked >= 64
    assert any("key was lost" in text for text in found.missing_probes)


def test_damaged_fingerprints_are_named(bed: Bed) -> None:
    crash_after(bed, "WasReset")
    raw = bytearray(bed.files.fingerprints(1).read_bytes())
    raw[60] ^= 1
    bed.files.fingerprints(1).write_bytes(raw)
    report = bed.run()
    found = proof(report)
    assert any(text.startswith("fingerprints:") for text in found.missing_probes)
    assert found.fingerprints_taken == 0
    assert report.verdict is Verdict.ERASED, "the canaries and the content still decide"


def test_a_damaged_checkpoint_is_read_from_the_start(bed: Bed) -> None:
    crash_after(bed, "WasReset")
    bed.files.verify_state.write_bytes(b'{"plan": "')
    report = bed.run()
    assert report.verdict is Verdict.ERASED
    assert proof(report).namespaces[0].read == SIZE // 4096


def test_the_checkpoint_of_a_drive_with_hundreds_of_namespaces_is_gone_on_from(
    tmp_path: Path,
) -> None:
    plan = VerifyPlan(
        VerificationMode.FULL,
        bytes(32),
        0.999,
        0.001,
        tuple(NamespacePlan(nsid, f"/dev/nvme0n{nsid}", SIZE) for nsid in range(1, 401)),
    )
    killed, resumed = (Verifier(plan, BlockDevice, Clock()) for _ in range(2))
    sums = {str(group): (1 << 64) - 1 for group in range(GROUPS)}
    killed._tallies = [Tally(sweep=2, once=dict(sums), twice=dict(sums)) for _ in plan.namespaces]
    kept, said = tmp_path / "verify.json", list[str]()
    kept.write_bytes(codec.canonical(killed.state()))
    session = SimpleNamespace(
        files=SimpleNamespace(verify_state=kept), tell=lambda _fraction, why: said.append(why)
    )
    verify._restore(session, resumed)  # type: ignore[arg-type]
    assert said == []
    assert resumed.state() == killed.state()


def test_a_namespace_without_a_disk_is_not_passed_over(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All blocks of one namespace of two are not all blocks."""
    monkeypatch.setattr(FileController, "active_namespaces", lambda _self: (1, 2))
    report = bed.run()
    assert (report.verdict, report.fit) == (Verdict.UNKNOWN, False)
    assert "no block device of [2]" in report.reasons[0]


class Mute:
    """Fingerprints of a drive on which every read fails, each after a long time."""

    looked = stride = 1
    unreadable = 0

    def __init__(self, _key: bytes, _nsid: int) -> None: ...

    def take(self, _device: Any, _places: Any, progress: Any) -> None:
        for _batch in range(1 << 20):
            self.unreadable += 32
            progress(0.0, "0 fingerprints")
        raise AssertionError("read on for days")

    def save(self, _path: str) -> None: ...

    def __len__(self) -> int:
        return 0


def test_a_drive_that_answers_no_reads_is_erased_all_the_same(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "Fingerprints", Mute)
    report = bed.run()
    assert bed.drive.started == [4, 2]
    assert any("given up after 64 blocks" in text for text in proof(report).missing_probes)


def test_media_errors_of_the_last_owners_blocks_are_not_the_erased_drives() -> None:
    state = CaseState()
    state.apply(Inspected(FACTS, HEALTH, ()))
    assert run._media_errors_before(state) == 0
    state.apply(Fingerprinted(10, ("1 block could not be read",), 3))
    assert run._media_errors_before(state) == 3
