"""The same of an eraser's case, in process: what a drive meets from its first method on."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

from eraser.protocol.policy import Policy, Verification
from tests.lab.firstacts.kinds import Kinds
from tests.lab.nvme.commandlog import log_path, read_commands, read_events
from tests.lab.nvme.composed.audit import bench
from tests.lab.nvme.composed.description import Abilities, Description, Layout
from tests.lab.nvme.composed.firsttenant import FirstTenant
from tests.lab.nvme.linux.case import erase, linux, profile_of
from tests.lab.nvme.linux.kernel import Kernel
from tests.lab.nvme.nature import Method

_SIZE: Final = 64 << 20
_FEW: Final = Verification(residual=0.05, canaries=200, visit=8, settle=1)
_SECTOR: Final = 512
_METHODS: Final = (Method.SANITIZE_CRYPTO, Method.SANITIZE_BLOCK)
_ABLE: Final = Abilities(methods=_METHODS, layout=Layout.ROOMY, management=True)
"""It manages namespaces, and has room for one more."""


def kinds() -> frozenset[str]:
    """Of all that an honest drive met in a case, from the end of the first method on: all acts, a
    few times each. Raises ``ValueError`` where it was not released."""
    policy = Policy(verification=_FEW)
    with (
        tempfile.TemporaryDirectory() as name,
        bench(Description("honest", _ABLE), Path(name), size=_SIZE) as (drive, host, clock),
    ):
        kernel = Kernel(host, Path(name) / "root")
        machine = linux(kernel, clock)
        profile = profile_of(machine)
        FirstTenant(host, 1).stay()
        kernel.reset()
        drive.set_faults(replace(drive.faults, log_io=True))
        report = erase(machine, Path(name), profile, policy)
        file = log_path(drive.backing)
        commands, events = read_commands(file), read_events(file)
    if not report.fit:
        raise ValueError(f"expected a drive that is released, found {report.reasons}")
    began = next(event.at for event in events if event.event == "sanitize_done")
    return frozenset(
        Kinds(_SECTOR, profile.namespaces[0].size).of(
            [command for command in commands if command.begun >= began],
            [event for event in events if event.at >= began],
        )
    )
