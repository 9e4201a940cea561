"""Read a drive back after an erase, count what is there, resume where a killed run stopped.

The verifier counts; :mod:`eraser.proof.verdict` decides what the counts mean.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from eraser.clock import Clock
from eraser.errors import BadInputError, DriveError
from eraser.media.reader import BlockDevice, Tick
from eraser.proof.aftererase import AfterErase
from eraser.proof.counter import Counter, merged
from eraser.proof.plan import NamespacePlan, VerifyPlan, choose_mode, namespace_seed
from eraser.proof.summary import summarise
from eraser.proof.tally import Tally, VerificationResult
from eraser.protocol import codec
from eraser.protocol.policy import VerificationMode

__all__ = ["NamespacePlan", "Verifier", "VerifyPlan", "choose_mode", "namespace_seed"]

TICK = 0.25
"""Seconds between two calls of ``progress``."""


class Verifier:
    """Carries out one plan. :meth:`state` between two calls of ``progress`` is always whole."""

    def __init__(
        self,
        plan: VerifyPlan,
        open_device: Callable[[str], BlockDevice],
        clock: Clock,
    ) -> None:
        self.plan = plan
        self._digest = plan.digest
        self._open = open_device
        self._clock = clock
        self._tallies = [Tally() for _ in plan.namespaces]
        self._at = 0
        self._seconds = 0.0
        self._stopped = ""
        self._readings = 2 if plan.reread else 1
        self._reset = False
        """The controller was reset for the second reading."""

    @property
    def left(self) -> dict[NamespacePlan, AfterErase]:
        """What the first reading found, once it is at its end. Each block that is read twice was
        among it, so that it can be asked for in other ways and held against this."""
        return {namespace: AfterErase.of(tally) for tally, namespace in self._pairs()}

    def state(self) -> dict[str, Any]:
        """A checkpoint for :meth:`restore`, plain JSON values."""
        checkpoint = _Checkpoint(
            self._digest,
            self._at,
            self._seconds,
            self._stopped,
            tuple(self._tallies),
            self._reset,
        )
        plain = codec.plain(checkpoint)
        assert isinstance(plain, dict)
        return plain

    def restore(self, state: object) -> None:
        """Go on from a checkpoint. Raises :class:`eraser.errors.BadInputError` where it is
        malformed or of another plan: then verify from the start."""
        found = codec.decode(_Checkpoint, state, "verification checkpoint")
        count = len(self._tallies)
        # Numbers out of range would have the resumed reading skip blocks as if they had been read.
        possible = 0 <= found.at <= self._readings * count and all(
            0 <= t.cursor <= n.blocks and 0 <= t.sweep <= 2
            for t, n in zip(found.tallies, self.plan.namespaces, strict=False)
        )
        # A checkpoint of another seed would let a drive off places that it was never asked for.
        if found.plan != self._digest or len(found.tallies) != count or not possible:
            raise BadInputError(
                "verification checkpoint: expected one of this plan, found another's;"
                " verify from the start"
            )
        self._at, self._seconds, self._stopped = found.at, found.seconds, found.stopped
        self._tallies = list(found.tallies)
        self._reset = found.reset

    def run(
        self,
        progress: Tick = lambda fraction, detail: None,
        should_stop: Callable[[], bool] = lambda: False,
        between: Callable[[], None] = lambda: None,
    ) -> VerificationResult | None:
        """Read what is left to read; None when ``should_stop`` said so before the end.

        ``progress`` gets the fraction done and a few words; it may take a checkpoint. ``between``
        is called before the second reading begins: it resets the controller. Raises
        :class:`DriveError` where a device cannot be opened or has another size than planned.
        """
        before, started = self._seconds, self._clock.monotonic()
        due, count = started + TICK, len(self.plan.namespaces)
        while self._at < self._readings * count and not self._stopped:
            # The first reading is at its end: the reset comes once, between the two.
            if self._at == count and not self._reset:
                if any(t.canaries or t.unchanged for t in self._tallies):
                    break  # nothing that is read twice makes this drive erased
                between()
                self._reset = True
            namespace, tally = (
                self.plan.namespaces[self._at % count],
                self._tallies[self._at % count],
            )
            # All namespaces are read once, then all a second time, so one reset serves them all.
            read = self._again if self._at >= count else self._pieces
            for _ in read(namespace, tally):
                now = self._clock.monotonic()
                self._seconds = before + now - started
                if self._too_many_unreadable():
                    break
                if now >= due:
                    progress(self._fraction(), self._detail(namespace))
                    due = now + TICK
                if should_stop():
                    return None
            self._at += 1
        self._seconds = before + self._clock.monotonic() - started
        progress(1.0, "read")
        return summarise(
            self.plan,
            self._tallies,
            reread=self._reset and not self._stopped,
            stopped=self._stopped,
            seconds=self._seconds,
        )

    def _too_many_unreadable(self) -> bool:
        # The larger of the two readings: a block that fails in both counts once.
        unreadable = sum(max(t.unreadable, t.again.unreadable) for t in self._tallies)
        if unreadable >= self.plan.unreadable_limit:
            self._stopped = f"reading was given up after {unreadable} unreadable blocks"
        return bool(self._stopped)

    def _fraction(self) -> float:
        total = max(1, self.plan.blocks)
        done = sum(_done(t, n) for t, n in self._pairs()) / total
        if self._at < len(self.plan.namespaces) or self._readings == 1:
            return done * (0.98 if self._readings > 1 else 1.0)
        again = sum(t.again.read + t.again.unreadable for t in self._tallies)
        wanted = sum(len(self.plan.again(n)) for n in self.plan.namespaces)
        return 0.98 + 0.02 * again / max(1, wanted)

    def _detail(self, namespace: NamespacePlan) -> str:
        count = sum(t.looks.total for t in self._tallies)
        again = " once, some again" if self._reset else ""
        return f"namespace {namespace.nsid}, {count} blocks read{again}"

    def _pairs(self) -> Iterator[tuple[Tally, NamespacePlan]]:
        return zip(self._tallies, self.plan.namespaces, strict=True)

    @contextlib.contextmanager
    def _opened(self, namespace: NamespacePlan) -> Iterator[BlockDevice]:
        with self._open(namespace.path) as device:
            # The kernel may show another disk under this name since: probes are judged by their
            # places, and on a smaller one the last of them would be missed without a word.
            if device.size != namespace.size:
                raise DriveError(
                    f"{namespace.path}: expected {namespace.size} bytes, found {device.size};"
                    " the layout changed after the plan was made"
                )
            device.rescue = namespace.rescue
            yield device

    def _counter(self, namespace: NamespacePlan, tally: Tally, device: BlockDevice) -> Counter:
        return Counter(
            namespace.canaries,
            namespace.fingerprints,
            namespace.probes,
            self.plan.again(namespace),
            tally,
            device.failures,
        )

    def _pieces(self, namespace: NamespacePlan, tally: Tally) -> Iterator[None]:
        """Read and count, and pause after each piece, with the tally whole."""
        with self._opened(namespace) as device:
            counter = self._counter(namespace, tally, device)
            # The checkpoint says that this namespace was read to its end.
            if tally.sweep == 2:
                return
            if self.plan.done_mode is VerificationMode.FULL:
                for start, window in device.read_sequential(tally.cursor, namespace.blocks):
                    counter.window(start, window)
                    _took(device, tally)
                    yield
            else:
                sample = self.plan.places(namespace)
                for batch in device.read_batches(merged(tally.cursor, sample, counter.wanted)):
                    counter.batch(batch)
                    _took(device, tally)
                    yield
            # Only here: a process that dies in the middle begins the namespace where its checkpoint
            # stands.
            tally.sweep, tally.cursor = 2, namespace.blocks

    def _again(self, namespace: NamespacePlan, tally: Tally) -> Iterator[None]:
        """The second reading, in an order that no first one has."""
        with self._opened(namespace) as device:
            counter = self._counter(namespace, tally, device)
            # The order follows from the seed alone, so a resumed reading goes on after as many as
            # were counted.
            done = tally.again.read + tally.again.unreadable
            for batch in device.read_batches(self.plan.again_in_order(namespace)[done:]):
                counter.reread(batch)
                yield


@dataclass(frozen=True)
class _Checkpoint:
    plan: str
    at: int
    seconds: float
    stopped: str
    tallies: tuple[Tally, ...]
    reset: bool = False


def _took(device: BlockDevice, tally: Tally) -> None:
    tally.by_passthrough += device.rescued
    # The tally is saved with a checkpoint and the device is not: what was taken over must not count
    # twice.
    device.rescued = 0


def _done(tally: Tally, namespace: NamespacePlan) -> int:
    """Blocks' worth of the first reading."""
    return namespace.blocks if tally.sweep == 2 else min(tally.cursor, namespace.blocks)
