"""Commands that rearrange a drive, sent as carefully as one that erases.

Each is in the journal before it goes out, and goes out from a child that holds the slot's lock.
What became of one that a crash cut off, the next run reads from the child's file, or says that it
does not know; what to do about it :mod:`eraser.case.restore` decides from the drive.
"""

from __future__ import annotations

from eraser.case.entries import Changing, Sent
from eraser.case.session import CaseSession
from eraser.controller.passthru import message, passthru_argv, status_of
from eraser.erase import format as detached
from eraser.errors import BadInputError, DriveError
from eraser.protocol.report import CommandRecord


def change(
    session: CaseSession,
    opcode: int,
    *,
    nsid: int = 0,
    cdw10: int,
    cdw11: int = 0,
    send: bytes = b"",
    timeout: float,
    note: str,
) -> CommandRecord:
    """Sends one command with the data ``send`` and waits for its end; a bad status is a result.

    Raises :class:`DriveError` where it has no end within ``timeout`` seconds.
    """
    argv = passthru_argv(
        session.host.nvme,
        session.controller.path,
        opcode,
        nsid=nsid,
        cdw10=cdw10,
        cdw11=cdw11,
        send_len=len(send),
        timeout=timeout,
        more=session.controller.once,
    )
    # Written before the command: if its end is lost, this is what the report says of it.
    unknown = CommandRecord(
        argv=argv,
        opcode=opcode,
        nsid=nsid,
        cdw10=cdw10,
        status=None,
        exit_code=None,
        message=f"{note}: interrupted; its end is unknown",
        started_at=session.clock.utc(),
        seconds=0.0,
        sent=send.rstrip(b"\0").hex(),
        cdw11=cdw11,
    )
    open_ = Changing(session.state.changes + 1, note, unknown)
    result_file = session.files.change_result(open_.number)
    # A disk that is full ends the run here, with nothing sent.
    detached.reserve(result_file)
    # In the journal before it goes out, so a crash leaves no command that nobody knows of.
    session.note(open_)
    result = detached.send(
        session.host,
        argv,
        result_file,
        # If we die the child keeps the slot locked until the command has its end.
        lock=session.lock.share(),
        timeout=timeout,
        ready=session.limits.ready,
        tick=lambda seconds: session.tell(min(seconds / timeout, 0.99), f"{note}, {seconds:.0f} s"),
        stdin=send,
    )
    if result is None:
        raise DriveError(
            f"{note}: expected an end within {timeout:g} s, found none; it may still be running in "
            "the drive"
        )
    record = _record(open_, result)
    session.note(Sent(record))
    return record


def record_interrupted_change(session: CaseSession) -> None:
    """Writes into the journal how a command ended whose end an earlier run did not see.

    The caller holds the slot's lock, so the child that sent the command has ended.
    """
    open_ = session.state.changing
    if open_ is None:
        return
    try:
        result = detached.read_result(session.files.change_result(open_.number))
    except BadInputError:
        result = None  # torn: the power went while it was written
    # Without a result the report says that the end is unknown; the drive tells what is left to do.
    session.note(Sent(open_.command if result is None else _record(open_, result)))


def _record(open_: Changing, result: detached.FormatResult) -> CommandRecord:
    sent = open_.command
    return CommandRecord(
        argv=result.argv,
        opcode=sent.opcode,
        nsid=sent.nsid,
        cdw10=sent.cdw10,
        status=status_of(result.exit_code, result.stderr),
        exit_code=result.exit_code,
        message=message(open_.note, result.stderr),
        started_at=result.started_at,
        seconds=round(result.seconds, 3),
        sent=sent.sent,
        cdw11=sent.cdw11,
    )
