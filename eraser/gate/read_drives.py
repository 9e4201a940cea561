"""The drives of a guest as they are now, read all at once and by a deadline.

A command to a drive that does not answer cannot be taken back: whoever sent it waits in the kernel,
and so would libvirt. So each drive is read by a child of its own, which is left behind when time is
up. It holds nothing of ours: no lock, no pipe of libvirt's.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable

from eraser.controller import unique
from eraser.controller.adminioctl import AdminReader
from eraser.controller.held import hold
from eraser.controller.spec import SanitizeLog, SmartLog
from eraser.errors import BadInputError, DriveError, EraserError, IdentityError
from eraser.host.sysfs import Host, PciFunction
from eraser.ownership.facts import DriveSeen
from eraser.ownership.model import PciIds
from eraser.protocol import codec
from eraser.protocol.ticket import Counters

COMMAND_SECONDS = 4.0
"""For one reading command to a drive that is ready: it answers in milliseconds. Longer than the 3 s
after which some kernels send a drive's slow admin command anew."""


def look(
    host: Host,
    addresses: Iterable[str],
    seconds: float,
    meanwhile: Callable[[], None] = lambda: None,
) -> dict[str, DriveSeen]:
    """What each drive says of itself; one that does not within ``seconds`` is in trouble.

    ``meanwhile`` is called while the drives are at it.
    """
    asked, others = tuple(addresses), list[_Others]()

    def beside() -> None:
        others.append(_others(host))
        meanwhile()

    # The children wait for their drives; whatever else has to be read is read meanwhile.
    works = [functools.partial(_read, host, address, seconds) for address in asked]
    said = host.processes.alone(works, seconds, beside)
    seen = {
        address: _seen(address, each, seconds) for address, each in zip(asked, said, strict=True)
    }
    return _with_namesakes(seen, others[0])


_Others = tuple[unique.SeenController, ...] | IdentityError
"""Every controller of the host, or why they cannot be told."""


def _others(host: Host) -> _Others:
    """Every controller of the host, read from sysfs once for all drives; or why that failed."""
    try:
        return unique.controllers(host)
    except IdentityError as error:
        return error


def _with_namesakes(seen: dict[str, DriveSeen], others: _Others) -> dict[str, DriveSeen]:
    """Each drive with why it cannot be told from another."""
    # A drive that cannot be compared with the others cannot be told from them.
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


def pci_ids(host: Host, address: str) -> PciIds | None:
    """What sysfs tells of a function on any driver; None where none is there."""
    function = PciFunction(host, address)
    names = ("vendor", "device", "subsystem_vendor", "subsystem_device")
    try:
        return PciIds(*(function.pci_id(name) for name in names))
    except DriveError:
        return None


def _read(host: Host, address: str, seconds: float) -> bytes:
    """In a child of its own."""
    return codec.canonical(read_drive(host, address, seconds))


def _seen(address: str, said: bytes | None, seconds: float) -> DriveSeen:
    if said is None:
        return DriveSeen("nvme", trouble=f"no answer within {seconds:g} s")
    try:
        return codec.load(DriveSeen, said, f"reading {address}")
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
        # One descriptor for all questions: a drive that is swapped in between answers none of them.
        with hold(host, address, timeout=seconds) as controller:
            reader = AdminReader(host, controller.descriptor, address, COMMAND_SECONDS)
            identify = reader.identify()
            identity = controller.identity_of(identify)
            # A drive without Sanitize has no log 81h, and so no seal.
            log = SanitizeLog.parse(reader.sanitize_log()) if identify.can_sanitize else None
            counters = _counters(reader, log)
            state = None if log is None else log.state
            # The controller is held open: nothing else can be there by now.
            return DriveSeen(driver, identity, counters, state, place=function.place)
    except (EraserError, OSError) as error:
        # Trouble is an answer too: the rules refuse by it, and say it to whoever asks.
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
