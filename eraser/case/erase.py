"""The destructive part of a case: one planned command after the other, each to its end.

An intent is in the journal before a command goes out, its result after it.
"""

from __future__ import annotations

from eraser.case import restore, visit
from eraser.case.entries import Again
from eraser.case.format import Format
from eraser.case.namespaces import rearranging
from eraser.case.sanitize import Sanitize, adopt
from eraser.case.session import CaseSession
from eraser.case.state import CaseState
from eraser.erase.plan import OPCODE_SANITIZE
from eraser.protocol.report import Step


def erase(session: CaseSession) -> None:
    """Carries out what is left of the plan. Raises :class:`DriveError` and its kin."""
    # Before all else: beside a running sanitize the drive takes hardly any command.
    adopt(session)
    state = session.state
    while not state.halted:
        place = state.next
        if place is not None and visit.is_due(session, place):
            # A run that died in the last one may have left a namespace detached.
            rearranging.attach_detached(session)
            # Before the layout is restored: what was planted stands in the one that there is.
            visit.between(session, place)
        if place is not None and state.intent is None:
            # What the drive would not attach in there: before a method reaches it, none after the
            # last.
            rearranging.attach_detached(session)
        # A command that was found under way comes first: the drive takes no other meanwhile.
        if state.restored is None and state.intent is None and _is_due(state, place):
            # It may add commands to the plan, so the next place is looked for anew.
            restore.restore(session)
            continue
        # Nothing is left to send, unless the only method is to be run again after a visit.
        if place is None and state.parted:
            session.note(Again("a run ended between two Formats of one round", read=False))
            continue
        if place is None:
            if not visit.wants_another(session):
                return
            session.note(Again("the drive is used as by its next tenant in between", read=False))
            continue
        command = state.steps[place]
        with session.step(Step.ERASE, command.method.value):
            if command.opcode == OPCODE_SANITIZE:
                Sanitize(session, place, command).run()
            else:
                Format(session, place, command).run()


def _is_due(state: CaseState, place: int | None) -> bool:
    return place is None or place >= state.restore_place
