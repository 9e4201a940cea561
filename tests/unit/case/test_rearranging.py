"""Namespaces detached, attached, deleted and created between two methods, and none lost by it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eraser.case import session as case_session
from eraser.case.entries import Entry
from eraser.case.namespaces import rearranging
from eraser.case.run import run_case
from eraser.errors import InUseError
from eraser.protocol.policy import Policy, Unallocated, Verification
from eraser.protocol.report import EraseReport, Verdict, VisitRecord
from eraser.state.case_files import CaseFiles, CaseRequest
from tests.lab.nvme.composed import build
from tests.lab.nvme.composed.audit import bench
from tests.lab.nvme.composed.description import Abilities, Description, Layout, Lie
from tests.lab.nvme.composed.firsttenant import FirstTenant
from tests.lab.nvme.composed.host import Answer
from tests.lab.nvme.composed.kept import Kept
from tests.lab.nvme.composed.oddities import Odd
from tests.lab.nvme.composed.trial import Outcome, attempt
from tests.lab.nvme.composed.triggers import Trigger
from tests.lab.nvme.drive import Drive
from tests.lab.nvme.linux import case as lab
from tests.lab.nvme.linux.kernel import Kernel
from tests.lab.nvme.nature import Method

TWO = (Method.SANITIZE_CRYPTO, Method.SANITIZE_BLOCK)
ONE = (Method.SANITIZE_BLOCK,)
CLEAR = (Method.FORMAT_USER,)
VISITED = Verification(residual=0.05, canaries=100, visit=4, settle=1)
POLICY = Policy(allow_clear=True, verification=VISITED)
QUICK = replace(POLICY, verification=replace(VISITED, canaries=24, visit=1, reread=16))
"""Where it is not the content that counts."""
SKIP = replace(QUICK, verification=replace(QUICK.verification, unallocated=Unallocated.SKIP))
HOLD = replace(QUICK, verification=replace(QUICK.verification, unallocated=Unallocated.HOLD))
ATTACHMENT, MANAGEMENT, FORMAT = 0x15, 0x0D, 0x80
CREATE, DELETE, ATTACH, DETACH = 0, 1, 0, 1
LISTS = {ATTACHMENT: ("attach", "detach"), MANAGEMENT: ("create", "delete")}


def managing(
    layout: Layout = Layout.ONE, methods: tuple[Method, ...] = TWO, *odd: Odd
) -> Description:
    return Description("honest", Abilities(methods, layout, management=True), odd=odd)


def between(report: EraseReport) -> VisitRecord:
    [found] = [visit for visit in report.visits if visit.wrote]
    return found


def said(report: EraseReport) -> list[str]:
    return [text for text in between(report).not_done if text.startswith("namespaces ")]


def layout_of(drive: Drive) -> list[tuple[int, int, int, bool]]:
    return [(n.nsid, n.size, n.lba_format, n.attached) for n in drive.state.namespaces]


class Crash(BaseException):
    """SIGKILL: nothing of this process runs any more."""


class Site:
    """A drive that a tenant had, and the machine that erases it, as often as it dies."""

    def __init__(
        self,
        drive: Drive,
        kernel: Kernel,
        machine: lab.Linux,
        directory: Path,
        profile: Any,
        policy: Policy,
    ) -> None:
        self.drive, self.kernel, self.machine, self.directory = drive, kernel, machine, directory
        self.profile, self.policy = profile, policy
        self.before = layout_of(drive)

    def erase(self) -> EraseReport:
        return lab.erase(self.machine, self.directory, self.profile, self.policy)

    def whole(self, report: EraseReport) -> None:
        assert (report.verdict, report.fit) == (Verdict.ERASED, True), report.reasons
        assert layout_of(self.drive) == self.before


@contextmanager
def site(
    what: Description, directory: Path, policy: Policy = QUICK, size: int = 6 << 20
) -> Iterator[Site]:
    directory.mkdir(exist_ok=True)
    with bench(what, directory, size=size) as (drive, host, clock):
        kernel = Kernel(host, directory / "root")
        machine = lab.linux(kernel, clock)
        profile = lab.profile_of(machine)
        FirstTenant(host, 1).stay()
        kernel.reset()
        yield Site(drive, kernel, machine, directory, profile, policy)


def sent(report: EraseReport) -> list[str]:
    """What changed namespaces, in order."""
    return [
        f"{LISTS[command.opcode][command.cdw10 & 1]} {command.nsid}"
        for command in report.commands
        if command.opcode in LISTS
    ]


@pytest.mark.parametrize(
    ("layout", "act"),
    [
        (Layout.ONE, "detached"),
        (Layout.ONE, "attached"),
        (Layout.TWO, "detached"),
        (Layout.ROOMY, "attached"),
        (Layout.ROOMY, "created"),
        (Layout.ROOMY, "deleted"),
    ],
)
def test_what_a_drive_shows_after_it_holds_the_drive(
    tmp_path: Path, layout: Layout, act: str
) -> None:
    lie = Lie(Kept(), TWO, Trigger("namespace", act))
    liar = replace(managing(layout), lies=(lie,))
    found = attempt(liar, tmp_path, POLICY, size=6 << 20)
    assert (found.outcome, found.report.verdict) == (Outcome.HELD, Verdict.NOT_ERASED)


@pytest.mark.parametrize("methods", [TWO, ONE, CLEAR], ids=["two", "one", "clear"])
@pytest.mark.parametrize("layout", [Layout.ONE, Layout.TWO, Layout.ROOMY])
def test_an_honest_drive_has_its_layout_and_is_released(
    tmp_path: Path, layout: Layout, methods: tuple[Method, ...]
) -> None:
    with site(managing(layout, methods), tmp_path) as made:
        report = made.erase()
        made.whole(report)
    expected = ["no capacity was in none, of which one could be made"]
    if layout is Layout.ROOMY:
        expected = ["a Format that follows is of the namespaces that there are"]
        expected = expected if methods is CLEAR else []
    assert said(report) == [f"{rearranging.MADE}: {why}" for why in expected]
    last = report.visits[-1].not_done
    for act in (rearranging.DETACHED, rearranging.MADE):
        assert f"{act}: none after the last method" in last


def test_one_that_a_tenant_left_detached_is_deleted_as_before(tmp_path: Path) -> None:
    with site(managing(Layout.ASIDE), tmp_path) as made:
        report = made.erase()
        made.before = made.before[:1]
        made.whole(report)


def test_a_temporary_one_is_taken_where_there_is_one(tmp_path: Path) -> None:
    with site(managing(Layout.ROOMY), tmp_path) as made:
        report = made.erase()
        made.whole(report)
    assert "detach 1" not in sent(report)
    assert sent(report) == [
        *("create 0", "attach 2"),
        *("detach 2", "attach 2"),
        *("detach 2", "attach 2", "delete 2", "create 0", "attach 2"),
        "delete 2",
    ]


def test_nothing_of_it_comes_after_the_last_method(tmp_path: Path) -> None:
    with site(managing(), tmp_path) as made:
        report = made.erase()
        made.whole(report)
    opcodes = [command.opcode for command in report.commands]
    last = len(opcodes) - 1 - opcodes[::-1].index(0x84)
    assert ATTACHMENT in opcodes[:last]
    assert ATTACHMENT not in opcodes[last:]


def test_a_drive_that_manages_none_is_asked_for_nothing(tmp_path: Path) -> None:
    with site(Description("honest", Abilities(TWO)), tmp_path) as made:
        report = made.erase()
        made.whole(report)
    assert (said(report), sent(report)) == ([], [])
    assert not any("namespaces" in text for text in report.visits[-1].not_done)


def test_a_policy_that_has_none_made_has_none_detached(tmp_path: Path) -> None:
    with site(managing(Layout.ROOMY), tmp_path, SKIP) as made:
        report = made.erase()
        made.whole(report)
    assert sent(report) == []
    assert all("the policy does not want it" in text for text in said(report))
    assert len(said(report)) == 2


def test_a_policy_that_would_hold_for_it_has_none_deleted(tmp_path: Path) -> None:
    with site(managing(Layout.ROOMY), tmp_path, HOLD) as made:
        report = made.erase()
        made.whole(report)
    assert sent(report).count("create 0") == 1
    [text] = said(report)
    assert "the policy holds" in text


@pytest.mark.parametrize(("number", "why"), [(2, "another controller"), (0, "may have")])
def test_another_controller_keeps_its_namespaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, why: str
) -> None:
    monkeypatch.setattr("eraser.case.subsystem.count", lambda _session: number)
    with site(managing(), tmp_path) as made:
        report = made.erase()
        made.whole(report)
    assert sent(report) == []
    assert any(why in text for text in said(report))


def refusing(
    monkeypatch: pytest.MonkeyPatch, opcode: int, select: int, numbers: set[int]
) -> list[int]:
    """The commands of this kind that have one of these numbers are refused."""
    asked, real = list[int](), Kernel.send

    def send(kernel: Kernel, code: int, **words: Any) -> Answer:
        if words.get("io") or (code, words.get("cdw10", 0) & 0xF) != (opcode, select):
            return real(kernel, code, **words)
        asked.append(len(asked))
        if asked[-1] not in numbers:
            return real(kernel, code, **words)
        # No such field, Do Not Retry.
        return replace(real(kernel, 0xFF), code=0x002, again=False)

    monkeypatch.setattr(Kernel, "send", send)
    return asked


def test_a_drive_that_detaches_none_is_held_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, ATTACHMENT, DETACH, set(range(9)))
    with site(managing(), tmp_path) as made:
        report = made.erase()
        made.whole(report)
    [refused] = [text for text in said(report) if text.startswith(rearranging.DETACHED)]
    assert "status 0x002" in refused


def test_one_that_calls_it_detached_and_lists_it_is_held_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Kernel.send

    def send(kernel: Kernel, code: int, **words: Any) -> Answer:
        if (code, words.get("cdw10", 0)) == (ATTACHMENT, DETACH) and not words.get("io"):
            return real(kernel, 0x02, nsid=0xFFFFFFFF, receive=512, cdw10=127 << 16 | 2)
        return real(kernel, code, **words)

    monkeypatch.setattr(Kernel, "send", send)
    with site(managing(), tmp_path) as made:
        report = made.erase()
        made.whole(report)
    assert any("still lists it" in text for text in said(report))


def test_one_that_attaches_it_after_a_reset_alone_has_its_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = refusing(monkeypatch, ATTACHMENT, ATTACH, {0})
    with site(managing(), tmp_path) as made:
        report = made.erase()
        made.whole(report)
    assert len(asked) == 3, "twice for the first, once for the second"
    assert not [text for text in said(report) if text.startswith(rearranging.DETACHED)]


def test_one_that_attaches_it_late_has_its_layout_before_the_last_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the acts gave up is tried before the method, and where the layout is restored."""
    refusing(monkeypatch, ATTACHMENT, ATTACH, set(range(4)))
    with site(managing(Layout.TWO), tmp_path) as made:
        report = made.erase()
        made.whole(report)
    assert any(text.startswith(rearranging.DETACHED) for text in said(report))


def test_one_that_attaches_it_never_is_held_with_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, ATTACHMENT, ATTACH, set(range(99)))
    with site(managing(Layout.TWO), tmp_path) as made:
        report = made.erase()
    assert report.fit is False
    assert "detach 1" not in sent(report), "one is enough"
    assert any("namespace 2" in reason for reason in report.reasons), report.reasons


@pytest.mark.parametrize("status", ["refused", "no capacity"])
def test_one_that_creates_it_no_more_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    asked = refusing(monkeypatch, MANAGEMENT, CREATE, set(range(1, 99)))
    assert not asked
    with site(managing(Layout.ROOMY), tmp_path) as made:
        report = made.erase()
        made.whole(report)
    assert any(text.startswith(rearranging.MADE) for text in said(report))
    assert any(line.startswith("Capacity: ") for line in report.residues)


@pytest.mark.parametrize(
    ("what", "act"),
    [
        (managing(), rearranging.DETACHED),
        (managing(Layout.ROOMY), rearranging.MADE),
        (Description("honest", Abilities(CLEAR)), rearranging.FORMATTED),
    ],
    ids=["detached", "made", "formatted"],
)
def test_nobody_who_came_meanwhile_loses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: Description, act: str
) -> None:
    """They let go of it again: it is not done, and the case goes on."""
    real, here = rearranging.resets.in_use, list[str]()

    def prove(_session: case_session.CaseSession, **_given: Any) -> None:
        if here:
            raise InUseError(here.pop())

    def in_use(session: case_session.CaseSession) -> str:
        here.append("mounted: /dev/nvme0n1 on /mnt")
        with monkeypatch.context() as used:
            used.setattr(case_session.CaseSession, "prove_idle", prove)
            return real(session)

    monkeypatch.setattr(rearranging.resets, "in_use", in_use)
    with site(what, tmp_path) as made:
        report = made.erase()
        made.whole(report)
    assert f"{act}: mounted: /dev/nvme0n1 on /mnt" in between(report).not_done
    # The temporary one is the case's own, and deleted in the end.
    own = ["create 0", "attach 2", "delete 2"] if act == rearranging.MADE else []
    assert sent(report) == own
    assert 0 not in formats(report)


@pytest.mark.parametrize("odd", ["media-not-ready", "interrupted", "not-ready"])
def test_honest_oddities_hold_nothing(tmp_path: Path, odd: str) -> None:
    with site(managing(Layout.ROOMY, TWO, Odd(odd, 5)), tmp_path) as made:
        made.whole(made.erase())


def formats(report: EraseReport) -> list[int]:
    """SES of each Format, in order."""
    return [c.cdw10 >> 9 & 7 for c in report.commands if c.opcode == FORMAT]


def test_a_drive_that_format_erases_is_formatted_without_an_erase_too(tmp_path: Path) -> None:
    lie = Lie(Kept(), CLEAR, Trigger("command", "format"))
    liar = Description("liar", Abilities(CLEAR), (lie,))
    found = attempt(liar, tmp_path, POLICY, size=6 << 20)
    assert (found.outcome, found.report.verdict) == (Outcome.HELD, Verdict.NOT_ERASED)


@pytest.mark.parametrize("layout", [Layout.ONE, Layout.TWO, Layout.ROOMY])
def test_its_layout_stays_and_an_erase_is_the_last(tmp_path: Path, layout: Layout) -> None:
    with site(managing(layout, CLEAR), tmp_path) as made:
        report = made.erase()
        made.whole(report)
    each = 1 if layout is Layout.ONE else 2
    assert formats(report) == [1] * each + [0] * each + [1] * each
    assert not any("Format without" in text for text in between(report).not_done)
    assert "Format without an erase: none after the last method" in report.visits[-1].not_done


def test_a_drive_that_sanitize_erases_is_not_formatted(tmp_path: Path) -> None:
    both = (*TWO, *CLEAR)
    with site(Description("honest", Abilities(both)), tmp_path) as made:
        report = made.erase()
        made.whole(report)
    assert formats(report) == []
    [text] = [text for text in between(report).not_done if "Format without" in text]
    assert "none has erased the drive" in text


def test_a_drive_that_refuses_it_is_held_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, FORMAT, 0, {1})
    with site(Description("honest", Abilities(CLEAR)), tmp_path) as made:
        report = made.erase()
        made.whole(report)
    assert formats(report) == [1, 0, 1]
    [text] = [text for text in between(report).not_done if "Format without" in text]
    assert "status 0x002" in text


def whole_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """FNA bit 1: an erase of one namespace is one of all, so no Format fails."""
    real = build.profile_of

    def whole(what: Description) -> tuple[Any, Any]:
        profile, faults = real(what)
        kinds = replace(profile.format, secure_all_namespaces=True, broadcast=True)
        return replace(profile, format=kinds), faults

    monkeypatch.setattr(build, "profile_of", whole)


@pytest.mark.parametrize(
    ("methods", "policy"), [(CLEAR, QUICK), (ONE, HOLD)], ids=["Clear", "hold"]
)
def test_capacity_that_came_back_no_more_holds_the_drive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, methods: tuple[Method, ...], policy: Policy
) -> None:
    """Nothing of it is read, and whoever makes a namespace there would read it."""
    whole_format(monkeypatch)
    refusing(monkeypatch, ATTACHMENT, ATTACH, set(range(1, 99)))
    with site(managing(Layout.ROOMY, methods), tmp_path, policy) as made:
        report = made.erase()
    assert report.verification is not None
    assert not any(each.temporary for each in report.verification.namespaces)
    assert (report.verdict, report.fit) == (Verdict.ERASED, False)
    assert any("belong to no namespace" in reason for reason in report.reasons), report.reasons


def test_capacity_that_came_back_no_more_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, ATTACHMENT, ATTACH, set(range(1, 99)))
    with site(managing(Layout.ROOMY, ONE), tmp_path) as made:
        report = made.erase()
        made.whole(report)
    [text] = [line for line in report.residues if line.startswith("Capacity: ")]
    assert "nobody has read them" in text


@pytest.mark.parametrize("layout", [Layout.ONE, Layout.TWO])
def test_a_list_of_all_that_has_the_attached_alone_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    """Firmware that answers CNS 10h as 02h: what is detached is not told of, and is there."""
    real = Kernel.send

    def send(kernel: Kernel, code: int, **words: Any) -> Answer:
        if code == 0x06 and words.get("cdw10", 0) & 0xFF == 0x10 and not words.get("io"):
            words["cdw10"] = 0x02
        return real(kernel, code, **words)

    monkeypatch.setattr(Kernel, "send", send)
    with site(managing(layout), tmp_path) as made:
        report = made.erase()
        made.whole(report)
    acts = sent(report)
    assert [what.split()[0] for what in acts] == ["detach", "attach"] * (len(acts) // 2)


@pytest.mark.parametrize("layout", [Layout.ONE, Layout.TWO])
def test_none_is_attached_after_the_only_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    refusing(monkeypatch, ATTACHMENT, ATTACH, set(range(4)))
    with site(managing(layout, ONE), tmp_path) as made:
        report = made.erase()
        made.whole(report)
    opcodes = [command.opcode for command in report.commands]
    last = len(opcodes) - 1 - opcodes[::-1].index(0x84)
    assert ATTACHMENT in opcodes[:last]
    assert ATTACHMENT not in opcodes[last:]


def test_what_was_detached_is_attached_also_when_the_orders_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Kernel.send
    with site(managing(), tmp_path) as made:

        def send(kernel: Kernel, code: int, **words: Any) -> Answer:
            answer = real(kernel, code, **words)
            if (code, words.get("cdw10", 0) & 0xF) == (ATTACHMENT, DETACH) and not words.get("io"):
                made.machine.host.clock.sleep(4000)
            return answer

        monkeypatch.setattr(Kernel, "send", send)
        request = CaseRequest(lab.SLOT, None, made.profile, made.policy, seconds_allowed=3600)
        report = run_case(
            request,
            CaseFiles.of(tmp_path / "state", request),
            made.machine.host,
            on_progress=lambda *_: None,
            run_dir=tmp_path / "run",
            disk=made.machine.disk,
        )
        assert layout_of(made.drive) == made.before
    assert report.verdict is not Verdict.ERASED
    assert sent(report) == ["detach 1", "attach 1"]


def test_one_that_is_deleted_at_the_second_try_has_its_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, MANAGEMENT, DELETE, {0})
    with site(managing(Layout.ROOMY), tmp_path) as made:
        report = made.erase()
        made.whole(report)


def test_each_format_without_an_erase_has_a_proof_of_its_own_that_nobody_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One takes as long as the drive likes; whoever came meanwhile would lose the next one's."""
    seen, real_send = list[str](), Kernel.send
    real_idle = case_session.CaseSession.prove_idle

    def send(kernel: Kernel, code: int, **words: Any) -> Answer:
        if code == FORMAT and not words.get("io"):
            seen.append(f"format {words['cdw10'] >> 9 & 7}")
        return real_send(kernel, code, **words)

    def prove(session: case_session.CaseSession, **given: Any) -> None:
        seen.append("idle")
        real_idle(session, **given)

    monkeypatch.setattr(Kernel, "send", send)
    monkeypatch.setattr(case_session.CaseSession, "prove_idle", prove)
    with site(managing(Layout.TWO, CLEAR), tmp_path) as made:
        report = made.erase()
        made.whole(report)
    first, second = (place for place, what in enumerate(seen) if what == "format 0")
    assert "idle" in seen[first:second]


class Plug:
    """Pulled at one of the moments that count: before and after each journal entry and each
    command that changes or formats namespaces, from the first method's end on."""

    def __init__(self, at: int) -> None:
        self.at, self.moments, self.begun = at, 0, False

    def moment(self) -> None:
        if self.begun:
            self.moments += 1
            if self.moments == self.at:
                raise Crash


@contextmanager
def plugged(monkeypatch: pytest.MonkeyPatch, plug: Plug) -> Iterator[None]:
    real_note, real_send = case_session.CaseJournal.note, Kernel.send

    def note(journal: case_session.CaseJournal, entry: Entry) -> None:
        plug.begun |= type(entry).__name__ == "MethodDone"
        plug.begun &= type(entry).__name__ not in ("Visited", "Intent")
        plug.moment()
        real_note(journal, entry)
        plug.moment()

    def send(kernel: Kernel, code: int, **words: Any) -> Answer:
        if code not in (*LISTS, FORMAT) or words.get("io"):
            return real_send(kernel, code, **words)
        plug.moment()
        answer = real_send(kernel, code, **words)
        plug.moment()
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(case_session.CaseJournal, "note", note)
        patched.setattr(Kernel, "send", send)
        yield


@pytest.mark.parametrize(
    ("layout", "methods", "stride"),
    [
        (Layout.ONE, TWO, 9),
        (Layout.ROOMY, ONE, 13),
        (Layout.TWO, CLEAR, 17),
        *(
            pytest.param(layout, methods, 1, marks=pytest.mark.campaign)
            for layout in (Layout.ONE, Layout.TWO, Layout.ROOMY)
            for methods in (TWO, ONE, CLEAR)
        ),
    ],
)
def test_killed_at_any_moment_no_layout_is_lost(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    layout: Layout,
    methods: tuple[Method, ...],
    stride: int,
) -> None:
    whole = Plug(0)
    with site(managing(layout, methods), tmp_path / "whole") as made, plugged(monkeypatch, whole):
        made.whole(made.erase())
    assert whole.moments > 15
    for at in range(1, whole.moments + 1, stride):
        with site(managing(layout, methods), tmp_path / f"at-{at}") as made:
            with plugged(monkeypatch, Plug(at)), pytest.raises(Crash):
                made.erase()
            made.whole(made.erase())
