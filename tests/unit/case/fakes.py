"""One drive, what is asked of it, and the moment at which a process dies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.policy import Limits, Policy, Verification, VerificationMode
from eraser.protocol.profile import NamespaceLayout, Profile
from eraser.protocol.report import ControllerFacts, HealthRecord, VerificationRecord
from eraser.state.case_files import CaseRequest
from tests.lab.nvme.profile import DriveProfile

SLOT = Slot("host", "0000:01:00.0")
DRIVE = DriveProfile(size=1 << 20, serial="SN1", model="Model", firmware="FW1")
IDENTITY = ControllerIdentity(0x144D, 0xA824, 0x144D, 0xA801, "SN1", "Model", DRIVE.subsystem_nqn)
LAYOUT = NamespaceLayout(1, 1 << 20, 512, 0)
FACTS = ControllerFacts("FW1", 0x10400, 2, 0, 4, 0b11, 0, 0, (LAYOUT,), (1,))
PROFILE = Profile("p", 0x144D, 0xA824, "Model", ("FW1",), (LAYOUT,))
HEALTH = HealthRecord(0, 100, 10, 1, 0, 0, 0, 0, 1, 1, 300)
POLICY = Policy(
    limits=Limits(poll=0.001, stuck=5, sanitize=20, command=1, ready=1),
    verification=Verification(visit=0),
)
"""Nobody visits a drive that has no blocks."""
REQUEST = CaseRequest(SLOT, None, PROFILE, POLICY)


class Crash(BaseException):
    """SIGKILL: nothing of this process runs any more."""


@dataclass
class Plug:
    """Where and how the process dies: at the ``at``-th of its acts, before or after it."""

    at: int = -1
    after: bool = False
    acts: int = 0
    dead: bool = False

    def act(self, what: Any) -> Any:
        """Does ``what``, unless the process dies first."""
        if self.dead:
            raise Crash
        here = self.acts == self.at
        self.acts += 1
        if here and not self.after:
            self.dead = True
            raise Crash
        result = what()
        if here:
            self.dead = True
            raise Crash
        return result


RECORD = VerificationRecord(
    asked=VerificationMode.STATISTICAL,
    done=VerificationMode.FULL,
    seed="00",
    confidence=0.999,
    residual=0.001,
    sampled=1,
    canaries_planted=1000,
    canaries_checked=1000,
    fingerprints_taken=10,
    fingerprints_checked=10,
    expected="zeros",
    namespaces=(),
    missing_probes=(),
    sentence="",
    seconds=0.0,
    bytes_read=0,
)


def ordered(request: CaseRequest = REQUEST) -> CaseRequest:
    """The same work, asked for by an order."""
    return replace(
        request,
        identity=IDENTITY,
        order_id="order-0000-0000-0001",
        generation=7,
        nonce="nonce-0000-0000-0001",
        incarnation="incarnation-00000001",
        seconds_allowed=3600,
    )
