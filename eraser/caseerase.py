"""The destructive part of a case: one planned command after the other, each to its end.

An intent is in the journal before a command goes out, its result after it.
"""

from __future__ import annotations

from eraser.casedesk import Desk
from eraser.caseformat import Format
from eraser.casesanitize import Sanitize, adopt
from eraser.erase.plan import OPCODE_SANITIZE
from eraser.wire.report import Step


def erase(desk: Desk) -> None:
    """Carries out what is left of the plan. Raises :class:`DriveError` and its kin."""
    adopt(desk)
    for place, command in enumerate(desk.state.steps):
        if desk.state.halted:
            return
        if place in desk.state.done or place < desk.state.first:
            continue
        with desk.step(Step.ERASE, command.method.value):
            if command.opcode == OPCODE_SANITIZE:
                Sanitize(desk, place, command).run()
            else:
                Format(desk, place, command).run()
