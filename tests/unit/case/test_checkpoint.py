"""What a killed reading had done by then is gone on from."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from eraser.case import verify
from eraser.clock import Clock
from eraser.media.reader import BlockDevice
from eraser.proof.counter import GROUPS
from eraser.proof.tally import Tally
from eraser.proof.verify import NamespacePlan, Verifier, VerifyPlan
from eraser.protocol import codec
from eraser.protocol.policy import VerificationMode

SIZE = 1 << 20


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
