"""What each command and each service begins with: the configuration, the record, the keys.

Each part is made when it is first asked for. So slots are listed without a cloud, certificates are
verified without a configuration, and neither loads what talks to a cloud or a broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from oslo_config.cfg import ConfigOpts

from eraser.protocol import codec
from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.policy import Policy
from eraser.protocol.transport import believed
from eraser.protocol.transport.believed import Believed
from eraser.protocol.transport.signing import PrivateKey, PublicKey
from quarantine.conf import load
from quarantine.doors import MACHINE, Doors
from quarantine.errors import BadInputError, OwnSetupError
from quarantine.evidence.keys import rotation
from quarantine.evidence.keys.rotation import Rotation
from quarantine.inputfile import read_file, read_found
from quarantine.record.store import Store
from quarantine.record.words.facts import StoredRotation
from quarantine.record.words.reasons import AlarmCode
from quarantine.rules.alarmbook import alarm


def read_public_key(path: Path) -> PublicKey:
    """A public key from its JWK file. Raises :class:`BadInputError`."""
    try:
        return PublicKey.from_jwk(codec.parse(read_file(path, "public key"), str(path)), str(path))
    except BadWireError as error:
        raise BadInputError(str(error)) from error


def _own_public_key(option: str, file: str) -> PublicKey:
    """A public key that an option of ours names. Raises :class:`OwnSetupError`."""
    try:
        return read_public_key(Path(file))
    except BadInputError as error:
        raise OwnSetupError(f"{option}: {error}") from error


def _former(files: Sequence[str], *, strict: bool) -> Iterator[PublicKey]:
    for file in files:
        try:
            yield from believed.read(read_found(Path(file), "former key"), file)
        except (BadWireError, BadInputError) as error:
            if strict:
                raise BadInputError(str(error)) from error
            alarm("keys", AlarmCode.KEY_UNREADABLE, str(error))


def _private_key(file: str, what: str) -> PrivateKey:
    try:
        return PrivateKey.from_pem(read_file(Path(file), what), file)
    except BadWireError as error:
        raise OwnSetupError(f"{what}: {error}; nvme-quarantine key create makes one") from error
    except BadInputError as error:
        raise OwnSetupError(str(error)) from error


def _read_rotation(row: StoredRotation) -> Rotation | BadInputError:
    try:
        return rotation.read(row.document.encode(), f"rotation {row.number} of the record")
    except BadInputError as error:
        return error


class Parts:
    """What needs no cloud and no broker. For one thread."""

    def __init__(self, files: Sequence[Path] = (), doors: Doors = MACHINE) -> None:
        self.files = tuple(files)
        self.doors = doors

    def close(self) -> None:
        """Gives back the connections that were made; each is made anew where it is asked for."""
        if "store" in self.__dict__:
            self.store.close()

    @cached_property
    def conf(self) -> ConfigOpts:
        """The configuration. Raises :class:`BadInputError`."""
        return load(self.files)

    @cached_property
    def store(self) -> Store:
        """The record, with this release's schema. Raises :class:`UnavailableError`."""
        store = self._open_store()
        store.require_schema()
        return store

    def _open_store(self) -> Store:
        """Connections of their own to the record, for one thread."""
        return Store.open(self.conf.database.url, clock=self.doors.now)

    @cached_property
    def key(self) -> PrivateKey:
        """The controller's signing key. Raises :class:`BadInputError`."""
        return _private_key(self.conf.evidence.signing_key, "signing key")

    @cached_property
    def order_key(self) -> PrivateKey:
        """What signs orders. Raises :class:`BadInputError`."""
        file = self.conf.erase.order_key
        return self.key if file is None else _private_key(file, "order key")

    @cached_property
    def ticket_key(self) -> PrivateKey:
        """What signs tickets. Raises :class:`BadInputError`."""
        file = self.conf.erase.ticket_key
        if file is None:
            return self.order_key
        key = _private_key(file, "ticket key")
        if key.public == self.order_key.public:
            raise OwnSetupError(
                f"[erase]ticket_key: expected a key of its own in {file}, found the one that signs "
                "orders: who has the one would have the other; nvme-quarantine key create "
                "--output FILE makes one, and without the option nobody takes it for two"
            )
        return key

    @cached_property
    def believed(self) -> Believed:
        """Whose orders and tickets are our own, today's keys first.

        A file of a former key that is gone or damaged makes nobody believed, and keeps nothing from
        its work: people are alarmed. Raises :class:`BadInputError` for today's keys.
        """
        return self.believable(strict=False)

    def believable(self, *, strict: bool) -> Believed:
        """The same, for hosts, which are to believe all of them: ``strict`` raises for each."""
        words = self.conf.erase
        orders = (self.order_key.public, *_former(words.former_order_keys, strict=strict))
        tickets = orders if words.ticket_key is None else (self.ticket_key.public,)
        tickets = (*tickets, *_former(words.former_ticket_keys, strict=strict))
        return Believed(tuple(dict.fromkeys(orders)), tuple(dict.fromkeys(tickets)))

    @cached_property
    def certificate_keys(self) -> tuple[PublicKey, ...]:
        """What certificates of the record are verified with: today's key, and the former ones
        that no rotation leads to. Raises :class:`OwnSetupError`."""
        former = self.conf.evidence.former_keys
        others = (_own_public_key("[evidence]former_keys", file) for file in former)
        return (self.key.public, *others)

    @property
    def former_keys(self) -> tuple[str, ...]:
        """Thumbprints of those that were followed without a rotation."""
        return tuple(key.thumbprint for key in self.certificate_keys[1:])

    @property
    def rotations(self) -> tuple[Rotation | BadInputError, ...]:
        """Those of the record; in place of a damaged one what is wrong with it."""
        return tuple(_read_rotation(one) for one in self.store.rotations())

    @cached_property
    def policy(self) -> Policy:
        """The configured policy. Raises :class:`BadInputError`."""
        name, file = self.conf.erase.policy, self.conf.erase.policy_file
        if file is None:
            return Policy()
        try:
            policy = codec.load(Policy, read_file(Path(file), "policy_file"), str(file))
        except (BadWireError, BadInputError) as error:
            raise OwnSetupError(str(error)) from error
        if policy.name != name:
            raise OwnSetupError(
                f"[erase]policy_file: expected the policy {name!r} ([erase]policy) in {file}, "
                f"found {policy.name!r}"
            )
        return policy

    @property
    def certificates_dir(self) -> Path:
        """Where certificates are written as files."""
        return Path(self.conf.evidence.certificates_dir)
