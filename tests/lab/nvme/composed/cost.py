"""What the next tenant's first acts cost on an honest drive: commands, and this process's seconds.

The drive's model is in the same process, so the seconds are of both; the commands are a real host's
but for those that its driver sends by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from eraser.case import visit
from eraser.protocol.policy import Policy
from tests.lab.nvme.composed.audit import bench
from tests.lab.nvme.composed.description import Abilities, Description
from tests.lab.nvme.composed.host import Host
from tests.lab.nvme.linux.case import erase, linux, profile_of
from tests.lab.nvme.linux.kernel import Kernel
from tests.lab.nvme.nature import Method

_METHODS = (Method.SANITIZE_CRYPTO, Method.SANITIZE_BLOCK)


@dataclass
class Cost:
    """Of one part of a case; ``seconds`` of the processor."""

    commands: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Costs:
    """Of a whole case, and of its visits in it."""

    case: Cost
    between: Cost
    after: Cost

    @property
    def line(self) -> str:
        """As a row of a table in Markdown."""
        cells = (f"{c.commands:,} | {c.seconds:.1f}" for c in (self.between, self.after, self.case))
        return " | ".join(cells)


def costs(directory: Path, size: int, policy: Policy) -> Costs:
    """Erases one of ``size`` bytes that nobody wrote to; its files stay in ``directory``.

    Raises ``ValueError`` where it was not released, for then not all was done.
    """
    found = Costs(Cost(), Cost(), Cost())
    with bench(Description("honest", Abilities(methods=_METHODS)), directory, size=size) as (
        _drive,
        host,
        clock,
    ):
        sent = _count(host)
        kernel = Kernel(host, directory / "root")
        machine = linux(kernel, clock)
        profile = profile_of(machine)
        with (
            _timed(visit, "between", sent, found.between),
            _timed(visit, "after", sent, found.after),
        ):
            whole = Timer(sent, found.case)
            report = erase(machine, directory, profile, policy)
            whole.stop()
    if not report.fit:
        raise ValueError(f"expected a drive that is released, found {report.reasons}")
    return found


class Timer:
    """Adds what is sent, and the processor's seconds, from its making to :meth:`stop`."""

    def __init__(self, sent: list[int], cost: Cost) -> None:
        self._sent, self._cost = sent, cost
        self._commands, self._began = sent[0], time.process_time()

    def stop(self) -> None:
        """Adds them."""
        self._cost.commands += self._sent[0] - self._commands
        self._cost.seconds += time.process_time() - self._began


def _count(host: Host) -> list[int]:
    """One number: commands so far."""
    sent, real = [0], host.command

    def command(*arguments: Any, **options: Any) -> Any:
        sent[0] += 1
        return real(*arguments, **options)

    host.command = command  # type: ignore[method-assign]
    return sent


@contextmanager
def _timed(module: Any, name: str, sent: list[int], cost: Cost) -> Iterator[None]:
    real: Callable[..., None] = getattr(module, name)

    def timed(*arguments: Any) -> None:
        timer = Timer(sent, cost)
        real(*arguments)
        timer.stop()

    with mock.patch.object(module, name, timed):
        yield
