"""What a drive says of itself, as a case asks for it."""

from __future__ import annotations

from eraser.case import resources
from eraser.case.entries import Sent
from eraser.case.session import CaseSession
from eraser.controller.nvme import Controller
from eraser.drive import hostidentifier
from eraser.drive.inspect import facts
from eraser.protocol.report import CommandRecord, ControllerFacts


def read(session: CaseSession, *, named: bool = True) -> ControllerFacts:
    """Without ``named`` the drive is told nothing of us. Raises ``DriveError``."""
    name = namer(session) if named else None
    return resources.told(session, facts(session.controller, name=name))


def namer(session: CaseSession) -> hostidentifier.Namer:
    """Tells a drive who we are, and the report that it was told."""
    noted = list[CommandRecord]()

    def name(controller: Controller) -> None:
        record = hostidentifier.name(controller)
        # Once: a drive that takes none is told for each namespace, and there may be a thousand.
        if not noted:
            noted.append(record)
            session.note(Sent(record))

    return name
