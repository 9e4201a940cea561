"""The drives of a guest as they are now, read all at once and by a deadline.

A command to a drive that does not answer cannot be taken back: whoever sent it waits in the kernel,
and so would libvirt. So each drive is read by a child of its own, which is left behind when time is
up. It holds nothing of ours: no lock, no pipe of libvirt's.
"""

from __future__ import annotations

import dataclasses
import os
import select
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from eraser.controller import unique
from eraser.controller.adminioctl import AdminReader
from eraser.controller.held import hold
from eraser.controller.spec import SanitizeLog, SmartLog
from eraser.errors import BadInputError, DriveError, EraserError, IdentityError
from eraser.host.forked_child import alone
from eraser.host.sysfs import Host, PciFunction
from eraser.ownership.facts import DriveSeen
from eraser.protocol import codec
from eraser.protocol.ticket import Counters

COMMAND_SECONDS = 4.0
"""For one reading command to a drive that is ready: it answers in milliseconds. Longer than the 3 s
after which some kernels send a drive's slow admin command anew."""

_CHUNK = 1 << 16


@dataclass
class _Child:
    """Reads one drive."""

    address: str
    pid: int
    pipe: int
    said: bytes = b""
    ended: bool = False


def look(
    host: Host,
    addresses: Iterable[str],
    seconds: float,
    meanwhile: Callable[[], None] = lambda: None,
) -> dict[str, DriveSeen]:
    """What each drive says of itself; one that does not within ``seconds`` is in trouble.

    ``meanwhile`` is called while the drives are at it.
    """
    deadline = time.monotonic() + seconds
    children = [_start(host, address, seconds) for address in addresses]
    try:
        others = _others(host)
        meanwhile()
        _listen(children, deadline)
    finally:
        for child in children:
            _leave(child)
    seen = {child.address: _seen(child, seconds) for child in children}
    return _with_namesakes(seen, others)


def _others(host: Host) -> tuple[unique.SeenController, ...] | IdentityError:
    """Every controller of the host, read from sysfs once for all drives; or why that failed."""
    try:
        return unique.controllers(host)
    except IdentityError as error:
        return error


def _with_namesakes(
    seen: dict[str, DriveSeen], others: tuple[unique.SeenController, ...] | IdentityError
) -> dict[str, DriveSeen]:
    """Each drive with why it cannot be told from another."""
    if isinstance(others, IdentityError):
        return {a: dataclasses.replace(each, namesake=str(others)) for a, each in seen.items()}
    found = dict(seen)
    for address, drive in seen.items():
        if drive.identity is not None:
            try:
                unique.check(drive.identity, address, others)
            except IdentityError as error:
                found[address] = dataclasses.replace(drive, namesake=str(error))
    return found


def _start(host: Host, address: str, seconds: float) -> _Child:
    pipe, theirs = os.pipe()
    pid = os.fork()
    if pid:
        os.close(theirs)
        return _Child(address, pid, pipe)
    code = 1
    try:
        alone(theirs)
        said = codec.canonical(read_drive(host, address, seconds))
        while said:
            said = said[os.write(theirs, said) :]
        code = 0
    finally:
        os._exit(code)


def _listen(children: list[_Child], deadline: float) -> None:
    poll = select.poll()
    waiting = {child.pipe: child for child in children}
    for pipe in waiting:
        poll.register(pipe, select.POLLIN)
    while waiting and (left := deadline - time.monotonic()) > 0:
        for pipe, _event in poll.poll(left * 1000):
            part = os.read(pipe, _CHUNK)
            waiting[pipe].said += part
            if not part:
                waiting.pop(pipe).ended = True
                poll.unregister(pipe)


def _leave(child: _Child) -> None:
    """Reaps a child, or leaves one behind that waits in the kernel: it dies when it gets out."""
    os.close(child.pipe)
    if not child.ended:
        os.kill(child.pid, signal.SIGKILL)
    os.waitpid(child.pid, 0 if child.ended else os.WNOHANG)


def _seen(child: _Child, seconds: float) -> DriveSeen:
    if not child.ended:
        return DriveSeen("nvme", trouble=f"no answer within {seconds:g} s")
    try:
        return codec.load(DriveSeen, child.said, f"reading {child.address}")
    except BadInputError as error:
        return DriveSeen("nvme", trouble=f"its reader failed ({error})")


def read_drive(host: Host, address: str, seconds: float) -> DriveSeen:
    """Reads one drive, for as long as the kernel takes.

    One that is not ready yet, as after a reset, gets ``seconds`` to become so.
    """
    function = PciFunction(host, address)
    if not function.present:
        return DriveSeen(None)
    driver = function.driver or ""
    if driver != "nvme":
        return DriveSeen(driver)
    try:
        with hold(host, address, timeout=seconds) as controller:
            reader = AdminReader(controller.descriptor, address, COMMAND_SECONDS)
            identify = reader.identify()
            identity = controller.identity_of(identify)
            log = SanitizeLog.parse(reader.sanitize_log()) if identify.can_sanitize else None
            counters = _counters(reader, log)
            state = None if log is None else log.state
            # The controller is held open: nothing else can be there by now.
            return DriveSeen(driver, identity, counters, state, place=function.place)
    except (EraserError, OSError) as error:
        return DriveSeen(driver, trouble=str(error).removeprefix(f"{address}: "))


def _counters(reader: AdminReader, log: SanitizeLog | None) -> Counters | None:
    """None where the drive keeps them to itself: an owner may start all the same."""
    try:
        smart = SmartLog.parse(reader.smart_log())
    except DriveError:
        return None
    return Counters(
        host_write_commands=smart.host_write_commands,
        data_units_written=smart.data_units_written,
        power_cycles=smart.power_cycles,
        global_data_erased=None if log is None else log.global_data_erased,
    )
