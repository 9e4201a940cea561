"""One honest drive's order: on a host until its report is sent, then in the control plane.

The host's own agent and case run in this process, on a drive of the lab and on its clock; the
control plane has a record on SQLite, and neither Placement nor a broker.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

from eraser import VERSION
from eraser.agent.admission import StartQueue
from eraser.agent.hoststate import CONTROLLER_FILE, HostState, keygen
from eraser.agent.orders import OrderRounds
from eraser.agent.runners import ERASER, DiskCases
from eraser.cli import case as case_verb
from eraser.controller.nvme import open_controller
from eraser.host.command import Started
from eraser.protocol import codec
from eraser.protocol.inbound import MessageKind
from eraser.protocol.policy import Policy
from eraser.protocol.profile import Profile
from eraser.protocol.transport.believed import Believed
from eraser.protocol.transport.signing import PrivateKey
from quarantine.evidence.sections import Issuer
from quarantine.record.store import Store
from quarantine.record.words.facts import Initiator, SlotChanges
from quarantine.record.words.states import Event
from quarantine.service.inbound.messages import Inbox
from quarantine.service.issue.dispatch import Dispatcher
from quarantine.service.issue.registrar import Registrar
from tests.lab.nvme.composed.audit import bench
from tests.lab.nvme.composed.description import Abilities, Description
from tests.lab.nvme.composed.firsttenant import FirstTenant
from tests.lab.nvme.composed.host import Clock
from tests.lab.nvme.linux.case import SLOT, Linux, linux, profile_of
from tests.lab.nvme.linux.kernel import Kernel
from tests.lab.nvme.nature import Method
from tests.lab.record import migrated_file
from tests.lab.walk.steps import Steps
from tests.unit.quarantine.service.inbound.plane import Looks, Posted

METHODS = (Method.SANITIZE_CRYPTO, Method.SANITIZE_BLOCK)


class _Ended(Started):
    """The runner was this process, and is done."""

    pid = 0
    running = False
    exit_code = 0

    def __init__(self) -> None:
        pass


class _Runner:
    """Runs what the agent would start as a program of its own."""

    def __init__(self, machine: Linux) -> None:
        self._machine = machine

    def __call__(self, argv: Sequence[str], _log: Path | None = None) -> Started:
        parser = argparse.ArgumentParser()
        case_verb.add_arguments(parser, "case")
        arguments = parser.parse_args(argv[len(ERASER) + 1 :])
        machine = self._machine
        with mock.patch.multiple(case_verb, Host=lambda: machine.host, BlockDevice=machine.disk):
            case_verb.run(arguments)
        return _Ended()


class _Plane:
    """The control plane: a record, the keys, and what gives orders and takes reports."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        def now() -> datetime:
            return datetime.fromtimestamp(1.8e9 + clock.now, UTC)

        directory.mkdir()
        self.key = PrivateKey.generate()
        self.store = Store.open(migrated_file(directory / "record.db"))
        self.sent = Posted()
        self._dispatcher = Dispatcher(self.store, self.key, self.sent, clock=now)
        registrar = Registrar(
            self.store, self.key, Issuer("Example Cloud"), directory / "certificates", clock=now
        )
        believed = Believed.both(self.key.public)
        self.inbox = Inbox(self.store, believed, registrar, Looks(), clock=now)

    def order(self, host: HostState, profile: Profile, machine: Linux) -> str:
        """Enrols the slot and gives the order; its token."""
        with open_controller(machine.host, SLOT.address, timeout=60.0, by_ioctl=True) as controller:
            identity = controller.identity()
        self.store.register_host(SLOT.host, host.key.public, host.card.incarnation)
        self.store.put_profile(profile, Initiator("a person"))
        record = self.store.enrol(
            SLOT,
            provider="0" * 32,
            resource_class="CUSTOM_NVME",
            in_use=False,
            profile=profile.name,
            policy=Policy().name,
        )
        record = self.store.amend(record, SlotChanges(identity=identity))
        self._dispatcher.order(self.store.transition(record, Event.CUSTODY_TAKEN))
        ((_, token),) = self.sent.tokens
        return token


def trace(directory: Path, *, size: int = 4 << 20) -> tuple[Steps, Steps]:
    """The steps on the host, from the order that comes to the report that is sent; and those of the
    control plane, from the report that comes to the certificate in the record.

    Raises ``ValueError`` where there is none, for then the way was another one.
    """
    on_host, in_plane = Steps(("eraser",)), Steps(("quarantine", "eraser"))
    drive = Description("honest", Abilities(methods=METHODS))
    with bench(drive, directory, size=size) as (_drive, host, clock):
        kernel = Kernel(host, directory / "root")
        machine = linux(kernel, clock)
        profile = profile_of(machine)
        FirstTenant(host, 1).stay()
        kernel.reset()
        plane = _Plane(directory / "plane", clock)
        state_dir = directory / "host"
        keygen(state_dir, SLOT.host)
        (state_dir / CONTROLLER_FILE).write_bytes(codec.canonical(plane.key.public.jwk()))
        state = HostState(state_dir)
        sent: list[tuple[MessageKind, str]] = []
        rounds = OrderRounds(
            state=state,
            cases=DiskCases(state_dir, directory / "run", machine.host),
            send=lambda kind, token: sent.append((kind, token)),
            version=VERSION,
            line=StartQueue(1),
            hello_interval=1e9,
            progress_interval=1.0,
        )
        rounds.turn()  # the hello, which goes out without any order
        token = plane.order(state, profile, machine)
        with (
            mock.patch.object(type(machine.host.processes), "start", _Runner(machine)),
            on_host.during(),
        ):
            rounds.again(state.accept(token))
            rounds.turn()
            rounds.turn()
        (report,) = (token for kind, token in sent if kind is MessageKind.REPORT)
        with in_plane.during():
            plane.inbox.report(report)
        certificates = len(plane.store.certificates())
        why = plane.store.slot(SLOT)
        plane.store.close()
    if certificates != 1:
        raise ValueError(f"expected one certificate, found {certificates}: {why}")
    return on_host, in_plane
