"""What a guest's driver and its monitoring ask a drive for, and tell it, that is not about blocks.

Logs are read as often as a monitoring reads them; features are set to what they are, and saved as
they are saved already; a command is aborted that nobody sent. No answer matters: what counts is
what the drive shows afterwards.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

from eraser.case.probes import FEATURE_ERROR_RECOVERY, make_readable
from eraser.case.session import CaseSession
from eraser.controller.nvme import Controller
from eraser.controller.passthru import FEATURE_CAPABILITIES, FEATURE_SAVED, CommandError
from eraser.drive import hostidentifier, manage

_ASKED = (0x01, 0x02, 0x04, 0x06, 0x0B)
"""Features that are set to what they are: arbitration, power, temperature, volatile write cache,
events. Not the number of queues, which is the driver's."""
OFTEN = 8
"""Looks at each log: a guest's monitoring asks for as long as it runs."""
_ERROR_LOG, _SELF_TEST_LOG = 0x01, 0x06
_IO_QUEUE, _NO_COMMAND = 1, 0xFFFF
"""A driver aborts what timed out, on a queue for I/O, and may come too late: then there is no such
command any more. No host should give one this identifier (Base 2.0, figure 86), Linux does not."""
_SAVEABLE = 1
"""Bit 0 of what SEL 011b gives of a feature (Base 2.0, 5.15)."""
SAVED = "features saved"
ABORTED = "Abort of a command that has ended"


def send(session: CaseSession) -> list[str]:
    """Asks all of it; returns what was not done, each with why. Raises :class:`DriveError` for a
    drive that does not come back from one of them."""
    controller, asked = session.controller, _Asked(session)
    error_log, self_test_log = "the Error Information log (01h)", "the Device Self-test log (06h)"
    looks: list[tuple[str, Callable[[], object]]] = [
        ("the SMART log (02h)", controller.smart_log),
        ("the Firmware Slot log (03h)", controller.firmware_log),
        (error_log, lambda: controller.log(_ERROR_LOG, 64, error_log)),
        (self_test_log, lambda: controller.log(_SELF_TEST_LOG, 564, self_test_log)),
    ]
    if controller.identify().can_sanitize:
        looks.append(("the Sanitize Status log (81h)", controller.sanitize_log))
    # All logs in turn and then all of them again, as a monitoring asks.
    for name, look in looks * OFTEN:
        asked(name, look)
    for fid in _ASKED:
        asked(_set(fid), functools.partial(_set_again, controller, fid))
    # Error recovery has a value for each namespace.
    for nsid in controller.active_namespaces():
        again = functools.partial(_set_again, controller, FEATURE_ERROR_RECOVERY, nsid)
        asked(_set(FEATURE_ERROR_RECOVERY), again)
    asked(_set(hostidentifier.FID), functools.partial(_name_host_again, controller))
    # One name for all: after one that the drive never ended none of the others is saved.
    saved = [asked(SAVED, functools.partial(_save_again, controller, fid)) for fid in _ASKED]
    if not any(saved) and SAVED not in asked.unended:
        asked.undone.append(f"{SAVED}: the drive saves none of those that are set to what they are")
    asked(ABORTED, functools.partial(_abort_nothing, controller, asked.undone))
    return asked.undone


T = TypeVar("T")


def _set(fid: int) -> str:
    return f"feature {fid:02X}h set to what it is"


class _Asked:
    """Asks, and remembers what a drive never ended.

    A drive is asked for that no second time, and is no worse for it where it comes back: a host
    that does not ask for it never meets that, and the kernel resets the drive for one that does.
    """

    def __init__(self, session: CaseSession) -> None:
        self._session = session
        self.undone: list[str] = []
        self.unended: set[str] = set()

    def __call__(self, name: str, look: Callable[[], T]) -> T | None:
        """What it gives; None where the drive refused it, or never ended it. Raises
        :class:`DriveError` where it does not come back."""
        if name in self.unended:
            return None
        try:
            return look()
        except CommandError as error:
            # A refusal is an answer like any other. Without a status the kernel resets the drive.
            if error.status is None:
                self._session.controller.wait_live(self._session.limits.ready, namespaces=False)
                # A reset brings back what is saved.
                make_readable(self._session)
                self.unended.add(name)
                self.undone.append(f"{name}: the drive did not end one")
            return None


def _set_again(controller: Controller, fid: int, nsid: int = 0) -> None:
    controller.set_feature(fid, controller.get_feature(fid, nsid), nsid)


def _save_again(controller: Controller, fid: int) -> bool:
    """Whether it was saved as it is; never where that would save anything else."""
    if not controller.identify().saves_features:
        return False
    # Set Features saves what is current: with another value saved, that one would be replaced.
    able, _data = controller.feature(fid, select=FEATURE_CAPABILITIES)
    saved, _data = controller.feature(fid, select=FEATURE_SAVED)
    if not able & _SAVEABLE or saved != controller.get_feature(fid):
        return False
    controller.set_feature(fid, saved, save=True)
    return True


def _name_host_again(controller: Controller) -> None:
    """The host identifier, of 16 bytes where the drive has room for them (CTRATT bit 0)."""
    large = controller.identify().ctratt & hostidentifier.EXTENDED
    _value, found = controller.feature(hostidentifier.FID, cdw11=large, length=16 if large else 8)
    record = manage.set_feature(
        controller, hostidentifier.FID, large, 0, save=False, send=found, note="the host identifier"
    )
    # Told as a refusal, so that the caller sees from its status whether it ended.
    if record.status != 0:
        raise controller.failed(record, "the host identifier set to what it is")


def _abort_nothing(controller: Controller, undone: list[str]) -> None:
    """Sends :data:`OFTEN` of them; into ``undone`` goes why none was done. Raises
    :class:`CommandError` for one that has no end."""
    done = 0
    for _ in range(OFTEN):
        record = manage.abort(controller, _IO_QUEUE, _NO_COMMAND)
        problem = controller.failed(record, "an end of the abort")
        if problem.status is None:
            raise problem
        # A bad status is an end too: no such command was there to abort.
        done += record.status == 0
    if not done:
        undone.append(f"{ABORTED}: the drive refused all")
