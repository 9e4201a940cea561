"""A drive that answers a verification well and its next tenant otherwise is met by what he does.

The drives are the lab's model with one lie each; the eraser's own case has them in its hands, above
a stand-in of the kernel (tests/lab/nvme/linux). With ``visit=0`` the same drives are released: that
is what each of these acts is for.
"""

from __future__ import annotations

import errno
import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eraser.case import resets
from eraser.case import session as case_session
from eraser.case import verify as case_verify
from eraser.case import visit as case_visit
from eraser.case.session import CaseSession
from eraser.controller.lock import NamespaceHold
from eraser.errors import InUseError
from eraser.host import sysfs
from eraser.media.iocommand import Namespace
from eraser.ownership import revoke
from eraser.proof.plan import NamespacePlan
from eraser.proof.verify import Verifier
from eraser.proof.visit import AHEAD
from eraser.protocol.policy import Policy, Verification
from eraser.protocol.report import Outcome as Ending
from eraser.protocol.report import Verdict, VisitRecord
from tests.lab.nvme.acts import Reset
from tests.lab.nvme.composed import corpus
from tests.lab.nvme.composed.audit import bench
from tests.lab.nvme.composed.description import Abilities, Description, Lie
from tests.lab.nvme.composed.host import Host
from tests.lab.nvme.composed.kept import Kept, What
from tests.lab.nvme.composed.oddities import Odd
from tests.lab.nvme.composed.trial import Outcome, Trial, attempt
from tests.lab.nvme.composed.triggers import Trigger
from tests.lab.nvme.faults import Faults
from tests.lab.nvme.linux import case as lab
from tests.lab.nvme.linux.kernel import ADDRESS, Kernel
from tests.lab.nvme.nature import Method

TWO = (Method.SANITIZE_CRYPTO, Method.SANITIZE_BLOCK)
VISITED = Verification(residual=0.05, canaries=100, visit=4)
"""What shows to an act shows at each of its places: a few of them are enough."""
UNSEEN = replace(VISITED, visit=0)
TWICE_AT_MOST = {"single blocks", "the same again", "other queues", "Compare", "Write Zeroes"}
_number = itertools.count()


@pytest.fixture(autouse=True)
def seldom_polled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is simulated here, and a minute of waiting in vain is thousands of looks."""
    monkeypatch.setattr(sysfs, "POLL", 0.25)


def liar(trigger: Trigger, methods: tuple[Method, ...] = TWO) -> Description:
    return Description("liar", Abilities(methods=methods), (Lie(Kept(), methods, trigger),))


def tried(drive: Description, directory: Path, verification: Verification = VISITED) -> Trial:
    here = directory / str(next(_number))
    here.mkdir()
    policy = Policy(allow_clear=True, verification=verification)
    return attempt(drive, here, policy, size=2 << 20)


def between(trial: Trial) -> VisitRecord:
    [found] = [visit for visit in trial.report.visits if visit.wrote]
    return found


TO_READS = [
    Trigger("order", "backward"),
    Trigger("order", "again", 3),
    Trigger("size", "block"),
    Trigger("size", "odd"),
    Trigger("alignment", "block"),
    Trigger("alignment", "buffer"),
    Trigger("path", "fua"),
    Trigger("path", "limited-retry"),
    Trigger("path", "hinted"),
    Trigger("path", "compare"),
    Trigger("queue", "above", 4),
    Trigger("nth", "", 5),
    Trigger("size", "large"),
]
"""Of these the last method's lie is met too: nothing is written for them."""

TO_OTHERS = [
    Trigger("wrote", "here"),
    Trigger("wrote", "near"),
    Trigger("wrote", "far"),
    Trigger("command", "write-zeroes", 2),
    Trigger("command", "deallocate", 2),
    Trigger("command", "flush", 2),
    Trigger("command", "fua"),
    Trigger("reset", "controller", 2),
    Trigger("reset", "function", 2),
    Trigger("left", "", 2),
    Trigger("command", "firmware-log", 8),
    Trigger("command", "smart", 8),
    Trigger("command", "sanitize-log", 8),
    Trigger("command", "abort", 8),
    Trigger("feature", "arbitration"),
    Trigger("feature", "error-recovery"),
    Trigger("feature", "host-id"),
    Trigger("feature", "saved"),
    Trigger("feature", "timestamp"),
    Trigger("time", "idle", 1),
]


@pytest.mark.parametrize("trigger", [*TO_READS, *TO_OTHERS], ids=lambda one: one.sentence)
def test_what_shows_to_the_next_tenant_alone_holds_the_drive(
    tmp_path: Path, trigger: Trigger
) -> None:
    found = tried(liar(trigger), tmp_path)
    assert (found.outcome, found.report.verdict) == (Outcome.HELD, Verdict.NOT_ERASED)
    assert any(act.canaries for visit in found.report.visits for act in visit.acts)


@pytest.mark.parametrize(
    "command",
    [
        "deallocate",
        *(
            pytest.param(command, marks=pytest.mark.campaign)
            for command in ("fua", "flush", "write-zeroes")
        ),
    ],
)
def test_acts_leave_witnesses_for_the_acts_after_them(tmp_path: Path, command: str) -> None:
    """Whoever has more places visited than there are canaries sees no less: a liar that shows
    what lay beside a write, once another command was seen, is met as with fewer."""
    trigger = Trigger("and", parts=(Trigger("wrote", "here"), Trigger("command", command)))
    many = Policy(verification=Verification(residual=0.05, canaries=24, visit=64))
    found = attempt(liar(trigger, (Method.SANITIZE_BLOCK,)), tmp_path, many, size=8 << 20)
    assert found.outcome is Outcome.HELD


def test_an_act_that_would_take_the_last_witnesses_is_said_not_to_be_done(tmp_path: Path) -> None:
    # With both ends of the namespace and what is deallocated these are six at most, where the act
    # takes one in eight. Of five there are eight by chance.
    few = Policy(verification=Verification(residual=0.05, canaries=3, visit=8))
    found = attempt(Description("honest", Abilities(methods=TWO)), tmp_path, few, size=2 << 20)
    assert found.outcome is Outcome.RELEASED
    visit = between(found)
    assert all(act.blocks for act in visit.acts if not act.refused), visit.acts
    assert any("too few to write over one" in why for why in visit.not_done)
    assert "writes of 4 KiB" not in {act.act for act in visit.acts}


@pytest.mark.parametrize("trigger", [TO_READS[4], TO_OTHERS[0]], ids=lambda one: one.sentence)
def test_without_a_visit_it_would_be_released(tmp_path: Path, trigger: Trigger) -> None:
    found = tried(liar(trigger), tmp_path, UNSEEN)
    assert found.outcome is Outcome.LET_THROUGH
    assert not found.report.visits


@pytest.mark.parametrize("settle", [0, 30])
@pytest.mark.parametrize("since", ["since", "idle"])
def test_what_shows_after_a_while_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, since: str, settle: float
) -> None:
    """Also where the first reading took longer than that: a drive that is read is not idle."""
    pieces = Verifier._pieces

    def busy(
        self: Verifier, namespace: NamespacePlan, *arguments: Any, **options: Any
    ) -> Iterator[None]:
        for _ in range(60 if settle else 0):
            self._clock.sleep(1)
            with self._open(namespace.path) as device:
                list(device.read_blocks([0]))
        yield from pieces(self, namespace, *arguments, **options)

    monkeypatch.setattr(Verifier, "_pieces", busy)
    drive = liar(Trigger("time", since, 20))
    found = tried(drive, tmp_path, replace(VISITED, settle=settle))
    assert found.outcome is (Outcome.HELD if settle else Outcome.LET_THROUGH)
    if since == "idle":  # nothing was seen before
        assert found.report.visits[-1].idle == max(settle, 1)


@pytest.mark.parametrize("trigger", TO_READS[4:6], ids=lambda one: one.sentence)
def test_a_lie_of_the_last_method_alone_is_met_by_reads(tmp_path: Path, trigger: Trigger) -> None:
    drive = Description(
        "liar", Abilities(methods=TWO), (Lie(Kept(), (Method.SANITIZE_BLOCK,), trigger),)
    )
    found = tried(drive, tmp_path)
    assert found.report.verdict is Verdict.NOT_ERASED
    assert not any(act.canaries for act in between(found).acts), "the first method was honest"


@pytest.mark.parametrize("method", [Method.SANITIZE_CRYPTO, Method.FORMAT_USER])
def test_a_single_method_is_run_twice_with_the_visit_in_between(
    tmp_path: Path, method: Method
) -> None:
    found = tried(liar(Trigger("wrote", "here"), (method,)), tmp_path)
    assert found.outcome is Outcome.HELD
    assert len(found.report.methods) == 2


[ENCRYPTED] = [one for one in corpus.read() if one.name == "FUA, of places that nobody probed"]
"""No probe tells of these places, and an encrypted tenant's data look like noise."""
BY_SINGLE_BLOCKS = liar(
    Trigger("and", parts=(Trigger("unasked", "either"), Trigger("size", "block")))
)
PIECEMEAL = Odd("small-transfers")
"""Or our own large reads would ask for most of a drive that is as small as the lab's."""
FEW = replace(VISITED, residual=0.1, visit=12)
MANY = replace(FEW, canaries=700)
"""688 probes at least, where nothing is promised."""


@pytest.mark.parametrize(
    ("drive", "act", "odd", "verification"),
    [
        (ENCRYPTED, "reads with FUA", (), FEW),
        (ENCRYPTED, "reads with FUA", (Odd("silent"),), MANY),
        (ENCRYPTED, "reads with FUA", (Odd("by-die"),), MANY),
        pytest.param(BY_SINGLE_BLOCKS, "single blocks", (), FEW, marks=pytest.mark.campaign),
    ],
    ids=["zeros", "silent", "by die", "single blocks"],
)
def test_noise_where_the_reading_found_none_holds_the_drive(
    tmp_path: Path, drive: Description, act: str, odd: tuple[Odd, ...], verification: Verification
) -> None:
    """Where a value is promised, where none is and one was read, and where two were."""
    drive = replace(drive, odd=(PIECEMEAL, *odd))
    report = attempt(drive, tmp_path, Policy(verification=verification), size=12 << 20).report
    last = report.visits[-1]
    assert not last.wrote
    assert act in {found.act for found in last.acts if found.otherwise}
    every = [found for visit in report.visits for found in visit.acts]
    assert not any(
        found.otherwise for visit in report.visits if visit.wrote for found in visit.acts
    )
    # Now and then the act's seed draws a place of which there is a fingerprint.
    known = any(found.canaries or found.unchanged for found in every)
    verdict, why = Verdict.UNKNOWN, "read otherwise than anything"
    if known:
        verdict, why = Verdict.NOT_ERASED, "of the last owner were there"
    assert (report.verdict, report.fit) == (verdict, False)
    assert any(why in reason for reason in report.reasons)


@pytest.mark.parametrize("odd", ["by-range", "scrambled"])
def test_what_an_honest_erase_leaves_is_known_again_in_every_act(tmp_path: Path, odd: str) -> None:
    """One value here and another there, and noise where all is noise."""
    drive = Description("odd", Abilities(methods=TWO), odd=(Odd(odd), PIECEMEAL))
    found = attempt(drive, tmp_path, Policy(verification=MANY), size=12 << 20)
    assert found.outcome is Outcome.RELEASED
    assert not any(act.otherwise for visit in found.report.visits for act in visit.acts)


def test_an_honest_drive_is_visited_twice_and_released(tmp_path: Path) -> None:
    found = tried(Description("honest", Abilities(methods=TWO)), tmp_path)
    assert found.outcome is Outcome.RELEASED
    assert [(visit.place, visit.wrote) for visit in found.report.visits] == [(1, True), (2, False)]
    acts = {act.act: act for visit in found.report.visits for act in visit.acts}
    assert all(act.done and not act.canaries + act.unchanged for act in acts.values())
    once = [act for visit in found.report.visits for act in visit.acts if act.act in TWICE_AT_MOST]
    assert all(0 < act.blocks <= 2 * VISITED.visit + 2 for act in once), "in two rounds together"
    assert {"single blocks", "other queues", "Compare", "Write Zeroes"} <= acts.keys()
    assert not any(act.structured or act.otherwise for act in found.report.visits[-1].acts)


@pytest.mark.parametrize(
    "odd", ["not-ready", "media-not-ready", "deallocated-error", "interrupted"]
)
def test_honest_oddities_hold_nothing(tmp_path: Path, odd: str) -> None:
    drive = Description("odd", Abilities(methods=TWO), odd=(Odd(odd, 5),))
    assert tried(drive, tmp_path).outcome is Outcome.RELEASED


def test_what_was_written_in_less_than_a_page_is_probed_for(tmp_path: Path) -> None:
    """A drive that keeps what is less than its mapping unit elsewhere, and never erases it."""
    small = Lie(Kept(What.SMALL), TWO[:1], Trigger("path", "fua"))
    # One canary in eight is so small: of a few places it would be chance whether one is met.
    many = replace(VISITED, visit=48)
    found = tried(Description("liar", Abilities(methods=TWO), (small,)), tmp_path, many)
    assert found.report.verdict is Verdict.NOT_ERASED
    assert any(act.canaries for act in between(found).acts)


def test_what_was_deallocated_before_the_erase_is_probed_for(tmp_path: Path) -> None:
    """Seed 20: blocks that a tenant's file system dropped are still in flash, and no Format
    reaches them there; a write to the same place shows them."""
    only = (Method.FORMAT_USER,)
    lie = Lie(Kept(What.DEALLOCATED), only, Trigger("wrote", "here"))
    many = replace(VISITED, visit=16)
    found = tried(Description("liar", Abilities(methods=only), (lie,)), tmp_path, many)
    assert (found.outcome, found.report.verdict) == (Outcome.HELD, Verdict.NOT_ERASED)


@pytest.mark.parametrize("odd", ["scrambled", "keeps-deallocated"])
def test_what_was_deallocated_holds_no_honest_drive(tmp_path: Path, odd: str) -> None:
    """One whose erase leaves noise where data was, and one that drops nothing before an erase."""
    drive = Description("odd", Abilities(methods=TWO), odd=(Odd(odd),))
    # Noise is told from data by 688 probes at least.
    policy = Policy(verification=replace(VISITED, canaries=700))
    found = attempt(drive, tmp_path, policy, size=12 << 20)
    assert found.outcome is Outcome.RELEASED
    proved = found.report.verification
    assert proved is not None
    assert proved.canaries_planted == proved.canaries_checked >= 700


def test_a_seed_says_where_the_eraser_looks_too(tmp_path: Path) -> None:
    """What a trial found is found again: whether a lie is met may hang on a few places."""
    drive = Description("honest", Abilities(methods=TWO))
    seeds = []
    for number, seed in enumerate((1, 1, 2)):
        directory = tmp_path / str(number)
        directory.mkdir()
        found = attempt(drive, directory, Policy(verification=VISITED), seed=seed).report
        assert found.verification is not None
        seeds.append(found.verification.seed)
    assert seeds[0] == seeds[1] != seeds[2]


def test_the_last_method_is_followed_by_a_shutdown_too(tmp_path: Path) -> None:
    drive = Description(
        "liar", Abilities(methods=TWO), (Lie(Kept(), (Method.SANITIZE_BLOCK,), Trigger("left")),)
    )
    assert tried(drive, tmp_path, UNSEEN).report.verdict is Verdict.ERASED
    assert tried(drive, tmp_path).report.verdict is Verdict.NOT_ERASED


def test_a_driver_that_does_not_let_go_is_told_of_and_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(_kernel: Kernel) -> None:
        raise OSError(errno.EBUSY, "busy")

    monkeypatch.setattr(Kernel, "unbind", busy)
    found = tried(Description("honest", Abilities(methods=TWO)), tmp_path)
    assert found.outcome is Outcome.RELEASED
    for visit in found.report.visits:
        assert any(text.startswith("shutdown of the controller") for text in visit.not_done)


def test_a_drive_that_somebody_has_opened_meanwhile_is_not_taken_from_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the moment between the end of our claim and the unbind. They let go again."""
    real_drop, real_prove, real_unbind = NamespaceHold.drop, case_session.prove_idle, Kernel.unbind
    real_init, kernels = Kernel.__init__, list[Kernel]()
    unbound = list[str]()

    def init(kernel: Kernel, host: Host, root: Path) -> None:
        real_init(kernel, host, root)
        kernels.append(kernel)

    def drop(hold: NamespaceHold) -> None:
        if hold.paths and kernels[-1].disks:
            kernels[-1].mounted(1)
        real_drop(hold)

    def prove(*args: Any, **options: Any) -> None:
        try:
            real_prove(*args, **options)
        finally:
            kernels[-1].mounted()

    def unbind(kernel: Kernel) -> None:
        unbound.append("unbound")
        real_unbind(kernel)

    monkeypatch.setattr(Kernel, "__init__", init)
    monkeypatch.setattr(NamespaceHold, "drop", drop)
    monkeypatch.setattr(case_session, "prove_idle", prove)
    monkeypatch.setattr(Kernel, "unbind", unbind)
    found = tried(Description("honest", Abilities(methods=TWO)), tmp_path)
    assert unbound == []
    [said] = [text for text in between(found).not_done if text.startswith("shutdown of the")]
    assert "nvme0n1 is mounted at /mnt" in said
    assert "shutdown of the controller" in found.report.visits[-1].not_done


@pytest.mark.parametrize("nth", [1, 3])
def test_a_drive_that_does_not_come_back_is_held_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    """Between the methods, and after the last one."""
    real, calls = Kernel.bind, itertools.count(1)

    def gone(kernel: Kernel) -> None:
        if next(calls) >= nth:
            raise OSError(errno.ENODEV, "no such device")
        real(kernel)

    monkeypatch.setattr(Kernel, "bind", gone)
    report = tried(Description("honest", Abilities(methods=TWO)), tmp_path).report
    assert report.fit is False
    assert report.outcome is Ending.COMPLETED
    assert any("expected a live NVMe controller" in reason for reason in report.reasons)


def test_nothing_is_written_after_the_last_method(tmp_path: Path) -> None:
    found = tried(Description("honest", Abilities(methods=TWO)), tmp_path)
    last = found.report.visits[-1]
    assert not last.wrote
    assert not {act.act for act in last.acts} & {"writes of single blocks", "Write Zeroes"}
    assert any(text.startswith("writes:") for text in last.not_done)


def reset_method(directory: Path) -> str:
    """At the end of the one trial below a directory."""
    [found] = directory.glob(f"*/root/sys/bus/pci/devices/{ADDRESS}/reset_method")
    return found.read_text().strip()


BY_BUS = replace(VISITED, bus_reset=True)


def said_of(word: str, trial: Trial) -> list[str]:
    return [text for text in between(trial).not_done if word in text]


def test_what_a_reset_of_the_bus_shows_holds_the_drive(tmp_path: Path) -> None:
    """As vfio-pci resets a drive that has no reset of the function."""
    unasked = tried(liar(Trigger("reset", "bus", 3)), tmp_path)
    assert unasked.outcome is Outcome.LET_THROUGH
    assert (
        f"reset of the bus: {resets.NOT_IN_POLICY.format('bus_reset')}" in between(unasked).not_done
    )
    found = tried(liar(Trigger("reset", "bus", 3)), tmp_path, replace(VISITED, bus_reset=True))
    assert (found.outcome, found.report.verdict) == (Outcome.HELD, Verdict.NOT_ERASED)


@pytest.mark.parametrize(
    ("kernel", "undone"),
    [
        (("flr", "bus"), []),
        (("bus",), []),
        (("flr",), ["reset of the bus"]),
        ((), ["reset of the function", "reset of the bus"]),
    ],
    ids=["both", "bus", "flr", "none"],
)
def test_resets_that_the_kernel_has_are_done_and_the_others_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: tuple[str, ...], undone: list[str]
) -> None:
    monkeypatch.setattr(Kernel, "resettable", kernel)
    done = list[Reset]()
    real = Kernel.reset

    def counted(self: Kernel, how: Reset = Reset.CONTROLLER) -> bool:
        done.append(how)
        return real(self, how)

    monkeypatch.setattr(Kernel, "reset", counted)
    found = tried(Description("honest", Abilities(methods=TWO)), tmp_path, BY_BUS)
    assert found.outcome is Outcome.RELEASED
    assert [
        text.partition(":")[0] for text in between(found).not_done if "reset of the" in text
    ] == [
        *undone,
        "reset of the subsystem",
    ]
    unknown = "reset of the function: the kernel knows none for it"
    assert (unknown in found.report.visits[-1].not_done) is not bool(kernel)
    assert "reset of the bus: none after the last method" in found.report.visits[-1].not_done
    assert done.count(Reset.BUS) == ("bus" in kernel) * 3 + (kernel == ("bus",)) * 4
    assert reset_method(tmp_path) == " ".join(kernel)


def test_what_the_kernel_refuses_is_printed_and_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks once more whether the function is alone when it resets the bus."""
    real = Kernel.reset

    def refused(self: Kernel, how: Reset = Reset.CONTROLLER) -> bool:
        if how is Reset.BUS:
            raise OSError(errno.ENOTTY, "Inappropriate ioctl for device")
        return real(self, how)

    monkeypatch.setattr(Kernel, "reset", refused)
    found = tried(Description("honest", Abilities(methods=TWO)), tmp_path, BY_BUS)
    assert found.outcome is Outcome.RELEASED
    assert any("Inappropriate ioctl" in text for text in said_of("bus", found))
    assert reset_method(tmp_path) == "flr bus"


def test_a_reset_of_the_function_that_the_kernel_refuses_is_printed_after_the_last_method_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller is reset in its place, which is less."""
    real, done = Kernel.reset, list[Reset]()

    def refused(self: Kernel, how: Reset = Reset.CONTROLLER) -> bool:
        if how is Reset.FUNCTION:
            raise OSError(errno.ENOTTY, "Inappropriate ioctl for device")
        done.append(how)
        return real(self, how)

    monkeypatch.setattr(Kernel, "reset", refused)
    found = tried(Description("honest", Abilities(methods=TWO)), tmp_path)
    assert found.outcome is Outcome.RELEASED
    for visit in found.report.visits:
        [said] = [text for text in visit.not_done if text.startswith("reset of the function")]
        assert "Inappropriate ioctl" in said
    assert done[-1] is Reset.CONTROLLER


def test_large_reads_that_the_kernel_refuses_end_no_visit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers them at once, without the drive, as it does where nobody is there any more."""
    real = Namespace.transfer

    def transfer(
        self: Namespace, fd: int, opcode: int, first: int, content: Any, **options: Any
    ) -> int | None:
        if len(content) > AHEAD:
            return None
        return real(self, fd, opcode, first, content, **options)

    monkeypatch.setattr(Namespace, "transfer", transfer)
    found = tried(Description("honest", Abilities(methods=TWO)), tmp_path)
    assert found.outcome is Outcome.RELEASED
    assert not any("stopped answering" in why for why in between(found).not_done)
    assert {"large reads", "Compare"} <= {act.act for act in between(found).acts}


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        # As the kernel ends what it gave up (NVME_SC_HOST_ABORTED_CMD).
        (Faults(admin_status={0x08: 0x371}), "the drive did not end one"),
        (Faults(admin_status={0x08: 0x4001}), "the drive refused all"),
    ],
    ids=["never ended", "refused"],
)
def test_a_drive_that_takes_no_abort_is_released_and_that_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Faults, said: str
) -> None:
    real = Kernel.reset

    def faulty(self: Kernel, how: Reset = Reset.CONTROLLER) -> bool:
        self.host.drive.set_faults(fault)
        return real(self, how)

    monkeypatch.setattr(Kernel, "reset", faulty)
    found = tried(Description("honest", Abilities(methods=TWO)), tmp_path)
    assert found.outcome is Outcome.RELEASED, found.report.reasons
    for visit in found.report.visits:
        assert [text for text in visit.not_done if "Abort" in text] == [
            "Abort of a command that is running, vendor commands, and commands that the drive does "
            "not report",
            f"Abort of a command that has ended: {said}",
        ]


def test_a_drive_that_its_driver_gives_up_after_a_reset_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Kernel.reset

    def dead(self: Kernel, how: Reset = Reset.CONTROLLER) -> bool:
        done = real(self, how)
        if how is Reset.BUS:
            self._say("dead")
        return done

    monkeypatch.setattr(Kernel, "reset", dead)
    found = tried(Description("honest", Abilities(methods=TWO)), tmp_path, BY_BUS)
    assert found.outcome is Outcome.RELEASED
    assert said_of("bus", found) == []


class Crash(BaseException):
    """SIGKILL: nothing of this process runs any more."""


@pytest.mark.parametrize("same", [True, False], ids=["the same work", "other work"])
def test_a_run_that_dies_in_a_reset_of_the_bus_leaves_the_kernel_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same: bool
) -> None:
    """Once the case is taken up again, or another one begins on the slot's drive."""
    real, policy = resets.put_back, Policy(verification=BY_BUS)
    drive = Description("honest", Abilities(methods=TWO))

    def killed(*_arguments: object, **_options: object) -> str:
        raise Crash

    with bench(drive, tmp_path, size=2 << 20) as (_served, host, clock):
        kernel = Kernel(host, tmp_path / "root")
        machine = lab.linux(kernel, clock)
        profile = lab.profile_of(machine)
        monkeypatch.setattr(resets, "put_back", killed)
        with pytest.raises(Crash):
            lab.erase(machine, tmp_path, profile, policy)
        assert kernel.reset_methods() == ["bus"]
        monkeypatch.setattr(resets, "put_back", real)
        report = lab.erase(
            machine, tmp_path, profile, policy if same else replace(policy, name="other")
        )
        assert kernel.reset_methods() == ["flr", "bus"]
    assert report.fit


BY_SUBSYSTEM = replace(VISITED, subsystem_reset=True)
ABLE = Abilities(methods=TWO, subsystem_reset=True)


def test_a_reset_of_the_subsystem_is_done_where_the_policy_asks_for_it(tmp_path: Path) -> None:
    drive = Description("liar", ABLE, (Lie(Kept(), TWO, Trigger("reset", "subsystem", 3)),))
    unasked = tried(drive, tmp_path)
    assert unasked.outcome is Outcome.LET_THROUGH
    assert (
        f"reset of the subsystem: {resets.NOT_IN_POLICY.format('subsystem_reset')}"
        in between(unasked).not_done
    )
    found = tried(drive, tmp_path, BY_SUBSYSTEM)
    assert (found.outcome, found.report.verdict) == (Outcome.HELD, Verdict.NOT_ERASED)
    assert not any("subsystem" in text for text in between(found).not_done)


@pytest.mark.parametrize("loses_link", [False, True])
def test_an_honest_drive_comes_back_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loses_link: bool
) -> None:
    """Also where its slot tells of no link: the kernel looks for the function anew."""
    monkeypatch.setattr(Kernel, "loses_link", loses_link)
    found = tried(Description("honest", ABLE), tmp_path, BY_SUBSYSTEM)
    assert found.outcome is Outcome.RELEASED
    assert not any("subsystem" in text for text in between(found).not_done)
    assert "reset of the subsystem: none after the last method" in found.report.visits[-1].not_done


def test_a_drive_is_taken_anew_where_the_kernel_does_not_say_that_it_was_reset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Kernel.reset_subsystem

    def unsaid(kernel: Kernel) -> bool:
        real(kernel)
        kernel._say("resetting")
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(Kernel, "reset_subsystem", unsaid)
    found = tried(Description("honest", ABLE), tmp_path, BY_SUBSYSTEM)
    assert found.outcome is Outcome.RELEASED
    assert any("resource busy" in text for text in said_of("subsystem", found))


def test_nobody_who_came_while_it_was_away_loses_the_drive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the kernel forgets the function it is proved idle once more."""
    real, proofs = Kernel.bind, itertools.count(1)

    def lost(kernel: Kernel) -> None:
        if kernel._lost:
            monkeypatch.setattr(case_session.CaseSession, "prove_idle", in_use)
        real(kernel)

    def in_use(_session: case_session.CaseSession, **_given: Any) -> None:
        next(proofs)
        raise InUseError("open by 4711")

    def never(_kernel: Kernel) -> None:
        raise AssertionError("expected that it is left where it is")

    monkeypatch.setattr(Kernel, "loses_link", True)
    monkeypatch.setattr(Kernel, "bind", lost)
    monkeypatch.setattr(Kernel, "remove", never)
    report = tried(Description("honest", ABLE), tmp_path, BY_SUBSYSTEM).report
    assert report.fit is False
    assert any("open by 4711" in reason for reason in report.reasons)
    assert next(proofs) == 2


def test_a_drive_without_such_a_reset_is_held_for_nothing(tmp_path: Path) -> None:
    found = tried(Description("honest", Abilities(methods=TWO)), tmp_path, BY_SUBSYSTEM)
    assert found.outcome is Outcome.RELEASED
    [said] = [text for text in between(found).not_done if "subsystem" in text]
    assert "not supported" in said


@pytest.mark.parametrize(("number", "why"), [(2, "another controller"), (0, "may have")])
def test_no_other_controller_of_the_subsystem_is_reset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, why: str
) -> None:
    monkeypatch.setattr("eraser.case.subsystem.count", lambda _session: number)
    monkeypatch.setattr(Kernel, "reset_subsystem", _never)
    found = tried(Description("honest", ABLE), tmp_path, BY_SUBSYSTEM)
    assert found.outcome is Outcome.RELEASED
    assert any(why in text for text in between(found).not_done if "subsystem" in text)


def test_a_drive_that_was_written_to_after_its_erase_is_not_handed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked once, when all was read; what tells of it is tests/unit/case/test_gap.py's."""
    asked = list[CaseSession]()

    def written(session: CaseSession) -> bool:
        asked.append(session)
        return True

    monkeypatch.setattr(case_verify, "written_after", written)
    report = tried(Description("honest", ABLE), tmp_path).report
    assert report.fit is False
    assert "the drive was written to after the erase: find out by whom" in report.reasons
    assert len(asked) == 1


def test_no_link_goes_down_that_another_function_has_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of whatever subsystem it is: a tenant's drive may be behind the same bridge."""
    real = sysfs.Host.children

    def two(host: sysfs.Host, directory: str) -> list[str]:
        found = real(host, directory)
        if directory != "/sys/bus/pci/devices" or not found:
            return found
        return [*found, f"{found[0].rpartition('.')[0]}.7"]

    monkeypatch.setattr(sysfs.Host, "children", two)
    monkeypatch.setattr(Kernel, "reset_subsystem", _never)
    found = tried(Description("honest", ABLE), tmp_path, BY_SUBSYSTEM)
    assert found.outcome is Outcome.RELEASED
    [said] = [text for text in between(found).not_done if "subsystem" in text]
    assert "it would take the link of" in said


def test_nobody_who_came_meanwhile_loses_the_drive_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They let go of it again: that reset is not done, and the case goes on."""
    here = list[str]()
    real = resets.by_subsystem

    def in_use(session: case_session.CaseSession, **_given: Any) -> None:
        if here and not session.hold.claimed:
            raise InUseError(here.pop())

    def by_subsystem(session: case_session.CaseSession) -> str:
        here.append("mounted: /dev/nvme0n1 on /mnt")
        with monkeypatch.context() as used:
            used.setattr(case_session.CaseSession, "prove_idle", in_use)
            return real(session)

    rounds = tuple(
        tuple((word, by_subsystem if done is real else done) for word, done in each)
        for each in case_visit._ROUNDS
    )
    monkeypatch.setattr(case_visit, "_ROUNDS", rounds)
    monkeypatch.setattr(Kernel, "reset_subsystem", _never)
    found = tried(Description("honest", ABLE), tmp_path, BY_SUBSYSTEM)
    assert found.outcome is Outcome.RELEASED
    assert "reset of the subsystem: mounted: /dev/nvme0n1 on /mnt" in between(found).not_done


@pytest.mark.parametrize("loses_link", [False, True])
def test_another_drive_that_comes_back_from_it_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loses_link: bool
) -> None:
    real = Kernel.reset_subsystem
    resets_done = list[str]()

    def swapped(kernel: Kernel) -> bool:
        drive = kernel.host.drive
        drive.profile = replace(drive.profile, serial="ANOTHER")
        resets_done.append("done")
        return real(kernel)

    monkeypatch.setattr(Kernel, "loses_link", loses_link)
    monkeypatch.setattr(Kernel, "reset_subsystem", swapped)
    report = tried(Description("honest", ABLE), tmp_path, BY_SUBSYSTEM).report
    assert report.fit is False
    assert any("found another" in reason for reason in report.reasons)
    assert resets_done == ["done"]
    assert len(report.methods) == 1, "the second method was not sent to it"


def _never(_kernel: Kernel) -> bool:
    raise AssertionError("expected no reset of the subsystem")


def test_the_gate_hears_of_the_place_that_a_drive_came_back_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function that the kernel made anew has another number in sysfs: a book that names the old
    one refuses every guest, for ever."""
    monkeypatch.setattr(Kernel, "loses_link", True)
    numbers = itertools.count(100)
    number = [next(numbers)]
    places, real = list[int](), Kernel._make_function

    def made(kernel: Kernel) -> None:
        number[0] = next(numbers)
        real(kernel)

    monkeypatch.setattr(Kernel, "_make_function", made)
    monkeypatch.setattr(revoke, "revoke", lambda *_, **__: places.append(number[0]))
    with bench(Description("honest", ABLE), tmp_path, size=2 << 20) as (_served, host, clock):
        kernel = Kernel(host, tmp_path / "root")
        machine = lab.linux(kernel, clock)
        profile = lab.profile_of(machine)
        report = lab.erase(machine, tmp_path, profile, Policy(verification=BY_SUBSYSTEM))
    assert report.fit
    assert number[0] > 100
    assert places[-1] == number[0]


@pytest.mark.parametrize("asked", ["bus_reset", "subsystem_reset"])
def test_nothing_more_is_sent_to_a_drive_that_somebody_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """A domain that names it was defined since the claim: the case ends, and no line of what was
    not done stands for it."""
    way = {"bus_reset": resets.by_bus, "subsystem_reset": resets.by_subsystem}[asked]

    def in_use(_session: case_session.CaseSession, **_given: Any) -> None:
        raise InUseError("named by libvirt domain instance-1")

    def used(session: case_session.CaseSession) -> str:
        monkeypatch.setattr(case_session.CaseSession, "prove_idle", in_use)
        return way(session)

    ways = tuple(
        tuple((word, used if done is way else done) for word, done in each)
        for each in case_visit._ROUNDS
    )
    monkeypatch.setattr(case_visit, "_ROUNDS", ways)
    found = tried(Description("honest", ABLE), tmp_path, replace(VISITED, **{asked: True}))
    assert (found.report.fit, found.report.verdict) == (False, Verdict.UNKNOWN)
    assert any("instance-1" in reason for reason in found.report.reasons)
    assert len(found.report.methods) == 1
