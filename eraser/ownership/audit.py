"""What people told the gate: drives that are not its business; and an account of every word."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from eraser.clock import Clock
from eraser.errors import BadInputError
from eraser.ownership import store
from eraser.ownership.store import BookError
from eraser.protocol import codec
from eraser.protocol.identity import pci_address
from eraser.protocol.ticket import Exemption
from eraser.state.journal import replace_durably, sync_directory


@dataclass(frozen=True)
class Exemptions:
    """All of a host's."""

    exemptions: tuple[Exemption, ...] = ()

    @property
    def addresses(self) -> frozenset[str]:
        """The functions that need no admission."""
        return frozenset(each.address for each in self.exemptions)

    def without(self, address: str) -> Exemptions:
        """All but one."""
        return Exemptions(tuple(each for each in self.exemptions if each.address != address))


@dataclass(frozen=True)
class _Stored:
    """One of them as it stands in the file, where a person may have typed its address."""

    address: str
    reason: str
    by: str
    at: str


@dataclass(frozen=True)
class _AllStored:
    exemptions: tuple[_Stored, ...] = ()


@dataclass(frozen=True)
class AuditEntry:
    """One line of the audit file: who told the gate what, and why."""

    at: str
    by: str
    what: str
    address: str
    domain: str
    reason: str


def exempt_file(state_dir: Path) -> Path:
    """Where the exemptions stand."""
    return store.directory(state_dir) / "exempt.json"


def audit_file(state_dir: Path) -> Path:
    """Where every word is kept, one JSON object a line."""
    return store.directory(state_dir) / "audit.jsonl"


def exemptions(state_dir: Path) -> Exemptions:
    """The host's exemptions. Raises :class:`BookError` where their file is damaged."""
    path = exempt_file(state_dir)
    try:
        stored = codec.load(_AllStored, path.read_bytes(), str(path)).exemptions
        return Exemptions(
            tuple(Exemption(pci_address(one.address), one.reason, one.by, one.at) for one in stored)
        )
    except FileNotFoundError:
        return Exemptions()
    except ValueError as error:
        raise BookError(f"{path}: {error}; mend it there") from error
    except BadInputError as error:
        raise BookError(f"{error}; remove the file and give the exemptions again") from error


def exempt(state_dir: Path, address: str, reason: str, by: str, clock: Clock) -> None:
    """Takes a function out of the gate's care. Raises ``EraserError``, ``OSError``."""
    # Each start of a guest with a drive loads this module, and needs none of that.
    from eraser.ownership import turned_away

    at = clock.utc()
    with store.locked(state_dir):
        known = exemptions(state_dir).without(address).exemptions
        # The account comes first: what is written without one nobody could explain.
        account(state_dir, AuditEntry(at, by, "exempt", address, "", reason))
        _write(state_dir, Exemptions((*known, Exemption(address, reason, by, at))))
        turned_away.forget(state_dir, address)


def include(state_dir: Path, address: str, reason: str, by: str, clock: Clock) -> None:
    """Takes it into the gate's care again. Raises ``EraserError``, ``OSError``."""
    with store.locked(state_dir):
        account(state_dir, AuditEntry(clock.utc(), by, "include", address, "", reason))
        _write(state_dir, exemptions(state_dir).without(address))


def _write(state_dir: Path, found: Exemptions) -> None:
    replace_durably(exempt_file(state_dir), codec.canonical(found) + b"\n")


def account(state_dir: Path, word: AuditEntry) -> None:
    """Appends to the audit file; it is on the disk when this returns. Needs the gate's lock.

    Raises ``OSError``: without an account nothing is allowed.
    """
    path = audit_file(state_dir)
    fresh = not path.exists()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        line = codec.canonical(word) + b"\n"
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line  # a full disk or a crash cut the last one short
        if os.write(descriptor, line) != len(line):
            raise OSError(f"{path}: expected to write {len(line)} bytes, wrote fewer")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    # A new file's name has to be durable too.
    if fresh:
        sync_directory(path.parent)


def who() -> str:
    """Who runs this: the person behind sudo where there is one."""
    name = pwd.getpwuid(os.getuid()).pw_name if os.getuid() else "root"
    behind = os.environ.get("SUDO_USER", "")
    # SUDO_USER counts for root alone: anybody can set it.
    return f"{behind} (sudo)" if behind and name == "root" else name
