"""Takes what hosts say off their lists, in turn, and hands it to ``messages``; loses none of it.

Each host has lists of its own, and each turn takes one entry of a list: what one host pushes, the
others do not wait for. Reports and receipts have a lane of their own, a thread with its own
connections, so that nothing else delays them; so have bells, so that they delay nothing else.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from eraser.protocol.identity import Slot
from eraser.protocol.inbound import BOUNDS, MessageKind, key
from quarantine.errors import ConflictError, QuarantineError, UnavailableError
from quarantine.record.store import Store
from quarantine.record.words.facts import BROKER
from quarantine.record.words.reasons import AlarmCode
from quarantine.rules.alarmbook import StandingAlarms, alarm
from quarantine.service.inbound import oldqueue

LOG = logging.getLogger(__name__)

URGENT: Final = (MessageKind.REPORT, MessageKind.RECEIPT)
"""Nobody says these again by himself, and drives wait for them."""

BELLS: Final = (MessageKind.BELL,)
"""Each has slots looked at, in Placement, which may be slow; nobody else waits for that."""

REST: Final = (MessageKind.HELLO, MessageKind.PROGRESS)
"""In the order in which they are taken."""

LANES: Final = {"reports": URGENT, "bells": BELLS, "hellos": REST}
"""What the worker's threads take, by their names."""

SLICE_SECONDS: Final = 0.25
"""Of one kind's turn; then it is the next kind's, and the hosts that are left come in the next."""

LONGEST: Final = {
    MessageKind.REPORT: 2 << 20,
    MessageKind.RECEIPT: 64 << 10,
    MessageKind.BELL: 64,
    MessageKind.HELLO: 384 << 10,
    MessageKind.PROGRESS: 64 << 10,
}
"""Bytes of an entry that is read. A hello of 24 drives has some 12 KiB, one of 256 with as many
guests 200; one of 4 MiB, read anew at each look at its host's slots, costs seconds that the other
hosts wait. A report of a drive with 24 namespaces that was formatted has 80 KiB. The case of one
that is dropped stays as it is, and its drive reserved: the same order is sent again, people hear of
the host and of the case, and an erase that they order anew finds the namespaces put back."""

IDLE_SECONDS: Final = 0.1
"""Between two looks at lists that were empty."""

RETRY_SECONDS: Final = 2.0
"""Before a message is tried again that met a busy or absent database; a broker that is away too."""

_TEXT: Final = ("utf-8", "replace")

REACHED_SECONDS: Final = 60.0
"""Between two words on record that the broker was reached."""

HOSTS_SECONDS: Final = 5.0
"""Between two readings of who is registered: nobody else's lists are looked at."""


class TakesMessages(Protocol):
    """What the intake asks of :class:`quarantine.service.inbound.messages.Inbox`."""

    def report(self, token: str, sender: str) -> object: ...
    def receipt(self, token: str, sender: str) -> object: ...
    def hello(self, token: str, sender: str) -> object: ...
    def progress(self, token: str, sender: str) -> object: ...
    def bell(self, host: str, address: str | None = None) -> float: ...
    def look(self, slot: Slot) -> None: ...
    @property
    def is_away(self) -> bool: ...
    @property
    def unreached(self) -> list[Slot]: ...


class ReadsLists(Protocol):
    """What the intake asks of :class:`quarantine.service.inbound.lists.Lists`."""

    def full(self, keys: Sequence[str]) -> list[str]: ...
    def length(self, key: str) -> int: ...
    def head(self, key: str) -> bytes | None: ...
    def tail(self, key: str) -> bytes | None: ...
    def remove(self, key: str, entry: bytes) -> None: ...
    def cut(self, key: str, keep: int, *, oldest: bool) -> None: ...
    def drop(self, key: str) -> None: ...


class TooLong:
    """Hosts with a list whose last entry was too long to be read. Threads may share one: people are
    called for a host, and it is over when it is so of each of its lists, whoever takes them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kinds: dict[str, set[MessageKind]] = {}
        self._told = StandingAlarms()

    def tell(self, kind: MessageKind, host: str, text: str) -> None:
        """The last entry of that list was too long."""
        with self._lock:
            self._kinds.setdefault(host, set()).add(kind)
            self._told.tell(f"host {host}", AlarmCode.MESSAGE_TOO_LONG, text)

    def end(self, kind: MessageKind, host: str) -> None:
        """It was not."""
        with self._lock:
            kinds = self._kinds.get(host, set())
            kinds.discard(kind)
            if not kinds and self._kinds.pop(host, None) is not None:
                text = "the host sends shorter ones again"
                self._told.end(f"host {host}", AlarmCode.MESSAGE_TOO_LONG, text)


class Wanted:
    """Slots that hellos want looked at, each once; whoever takes bells looks. Threads share one.

    Forgotten with its process: a hello wants again what it wants while that is so.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first: dict[Slot, None] = {}
        self._slots: dict[Slot, None] = {}

    def add(self, slot: Slot, *, first: bool) -> None:
        """Behind those that wait, or only behind those that are ``first``; one that waits keeps its
        place."""
        with self._lock:
            if first:
                self._slots.pop(slot, None)
                self._first[slot] = None
            elif slot not in self._first:
                self._slots[slot] = None

    def take(self) -> Slot | None:
        """The first one, which waits no more."""
        with self._lock:
            for those in (self._first, self._slots):
                if those:
                    slot = next(iter(those))
                    del those[slot]
                    return slot
            return None


@dataclass
class Lane:
    """Takes some kinds of messages; not thread safe. :meth:`turn` does a round and returns."""

    kinds: Sequence[MessageKind]
    inbox: TakesMessages
    lists: ReadsLists
    registered: Callable[[], Sequence[str]]
    """The hosts' names. Raises :class:`UnavailableError`."""
    clock: Callable[[], float] = time.monotonic
    too_long: TooLong = field(default_factory=TooLong)
    """All lanes of a process have one."""
    wanted: Wanted = field(default_factory=Wanted)
    """Theirs too: what one lane hears of, the one that takes bells looks at."""
    _hosts: Sequence[str] = ()
    _read_at: float | None = None
    _last: dict[MessageKind, str] = field(default_factory=dict)
    """The host that was served last, by kind: its turn ends with it."""
    _put_off: dict[str, float] = field(default_factory=dict)
    """When a list's first entry is tried again."""
    _ringing: dict[tuple[str, str], float] = field(default_factory=dict)
    """Bells that want to be rung once more, and when: see ``bells``."""

    def turn(self) -> bool:
        """Whether anything was there. Raises :class:`UnavailableError` when Redis is away."""
        self._read_hosts()
        if MessageKind.BELL not in self.kinds:
            return self._serve_all()
        rung = self._ring_again()
        old = self._old_message()
        looked = self._look_for_hellos()
        return self._serve_all() or rung or old or looked

    @property
    def asks(self) -> bool:
        """There are hosts whose lists are looked at: a turn needs the broker."""
        return bool(self._hosts)

    def _read_hosts(self) -> None:
        now = self.clock()
        if self._read_at is not None and now - self._read_at < HOSTS_SECONDS:
            return
        try:
            self._hosts = sorted(self.registered())
        except QuarantineError as error:
            LOG.warning("still taking from %d hosts: %s", len(self._hosts), error)
        # After a failure too: a record that is away is not asked in each turn.
        self._read_at = now

    def _serve_all(self) -> bool:
        # A list: each kind has its turn, whatever the first one finds.
        return any([self._serve(kind) for kind in self.kinds])

    def _serve(self, kind: MessageKind) -> bool:
        """One entry of each host's list, as far as the slice of time goes."""
        now = self.clock()
        hosts = {key(kind, host): host for host in self._hosts}
        full = [
            each for each in self.lists.full(list(hosts)) if self._put_off.get(each, now) <= now
        ]
        last = key(kind, self._last.get(kind, ""))
        # Who came after the one that was served last comes first.
        for name in [n for n in full if n > last] + [n for n in full if n <= last]:
            self._last[kind] = hosts[name]
            self._put_off.pop(name, None)
            self._take(kind, hosts[name], name)
            if self.clock() - now > SLICE_SECONDS:
                break
        return bool(full)

    def _take(self, kind: MessageKind, host: str, name: str) -> None:
        bound = BOUNDS[kind]
        length = self.lists.length(name)
        if length < 0:
            text = f"expected a list at {name}, found none: removed"
            alarm(f"host {host}", AlarmCode.QUEUE_ODD, text)
            self.lists.drop(name)
            return
        # A host may push for ever: nobody else's memory in Redis is its own to fill. Of reports the
        # first are kept, which drives wait for longest; of the rest the newest, which say it all.
        if length > bound.keep:
            dropped = length - bound.keep
            level = logging.ERROR if kind in URGENT else logging.WARNING
            LOG.log(level, "host %s: too many entries of %s, %d dropped", host, name, dropped)
            self.lists.cut(name, bound.keep, oldest=kind in URGENT)
        # Each hello says all that the one before said.
        if kind is MessageKind.HELLO and length > 1:
            self.lists.cut(name, 1, oldest=False)
        entry = self.lists.head(name)
        if entry is None:
            return
        # Removed when it was worked on: a process that dies here takes it once more.
        if self._is_too_long(kind, host, entry) or self._handle(kind, host, entry.decode(*_TEXT)):
            self.lists.remove(name, entry)
        else:
            self._put_off[name] = self.clock() + RETRY_SECONDS

    def _is_too_long(self, kind: MessageKind, host: str, entry: bytes) -> bool:
        """No honest host's; people hear of it once, until the host says something shorter."""
        most = LONGEST.get(kind)
        if most is None or len(entry) <= most:
            self.too_long.end(kind, host)
            return False
        self.too_long.tell(
            kind,
            host,
            f"expected at most {most} bytes in a {kind}, found {len(entry)}: dropped, as are all "
            "that follow; look at the host",
        )
        return True

    def _handle(self, kind: MessageKind, host: str, text: str) -> bool:
        """Runs one message; whether it is done with. A refused one is: it is on record."""
        who = host or "of an earlier release"
        try:
            if kind is MessageKind.BELL:
                self._ring(host, text)
            else:
                work: Callable[[str, str], object] = getattr(self.inbox, kind.value)
                work(text, host)
        except (ConflictError, UnavailableError) as error:
            if kind in URGENT:
                LOG.warning("a %s of host %s is tried again: %s", kind, who, error)
                return False
            LOG.info("a %s of host %s dropped, the next one will do: %s", kind, who, error)
        except QuarantineError as error:
            LOG.error("a %s of host %s: %s", kind, who, error)
        except Exception:
            # Ours to mend; the host's next message must not wait behind it.
            LOG.exception("a %s of host %s", kind, who)
        return True

    def _ring(self, host: str, address: str) -> None:
        wait = self.inbox.bell(host, address or None)
        if wait:
            self._ringing[host, address] = self.clock() + wait
        # A host with many slots is not looked at in one go: between two of them others ring.
        for slot in self.inbox.unreached:
            self._ringing.setdefault((slot.host, slot.address), self.clock())
        self.inbox.unreached.clear()

    def _ring_again(self) -> bool:
        now = self.clock()
        due = [bell for bell, at in self._ringing.items() if at <= now]
        for host, address in due:
            del self._ringing[host, address]
            self._hint({"host": host, "address": address})
            if self.clock() - now >= SLICE_SECONDS:
                break  # what is left is due in the next turn, behind the others' bells
        return bool(due)

    def _look_for_hellos(self) -> bool:
        now, looked = self.clock(), False
        while not self.inbox.is_away and (slot := self.wanted.take()) is not None:
            looked = True
            self.inbox.look(slot)
            if self.clock() - now >= SLICE_SECONDS:
                break
        return looked

    def _hint(self, hint: dict[str, Any]) -> None:
        """Somebody's word for what may have changed. Whatever it meets, the regular look comes.

        One that names a server is dropped: a listener of an earlier release rang that way, beside
        another bell for the server's host.
        """
        words = (hint.get(name) for name in ("host", "address"))
        host, address = (word if isinstance(word, str) else "" for word in words)
        if not host:
            LOG.info("a bell without a host is ignored")
            return
        try:
            self._ring(host, address)
        except QuarantineError as error:
            LOG.info("a bell for %s dropped: %s", host, error)

    def _old_message(self) -> bool:
        """One message of a host that was not upgraded yet: see ``oldqueue``."""
        name = oldqueue.NAME
        if self._put_off.get(name, 0.0) > self.clock() or self.lists.length(name) <= 0:
            return False
        entry = self.lists.tail(name)
        if entry is None:
            return False
        message = oldqueue.read(entry)
        done = True
        if message is None:
            text = "an entry is no message of ours, dropped"
            alarm(f"queue {name}", AlarmCode.QUEUE_ODD, text)
        elif message.kind is MessageKind.BELL:
            self._hint(message.payload)
        else:
            # All hosts share that queue: whose a message is, it says alone.
            done = self._handle(message.kind, "", message.payload)
        if done:
            self.lists.remove(name, entry)
        else:
            self._put_off[name] = self.clock() + RETRY_SECONDS
        return done


class Reached:
    """Says on record that the broker was reached, now and then: who asks for health sees it."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], float] = time.monotonic,
        *,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """``then`` is called as often, and raises nothing."""
        self._store = store
        self._clock = clock
        self._then = then
        self._due = clock()

    def __call__(self) -> None:
        """Raises nothing: a record that is away is told by whoever needs it."""
        if self._clock() < self._due:
            return
        self._due = self._clock() + REACHED_SECONDS
        try:
            self._store.note_pass(BROKER, 3 * REACHED_SECONDS)
        except QuarantineError as error:
            LOG.info("not on record that the broker was reached: %s", error)
        except Exception:
            # A mistake of ours must not end a lane.
            LOG.exception("not on record that the broker was reached")
        self._then()


def run(
    lane: Lane, stop: threading.Event, name: str, reached: Callable[[], None] = lambda: None
) -> None:
    """Turns a lane until ``stop`` is set; nothing that it meets ends it.

    ``reached`` is called after a turn in which the broker answered.
    """
    away = ""
    while not stop.is_set():
        try:
            busy = lane.turn()
        except UnavailableError as error:
            if not away:
                LOG.warning("%s: %s; trying until it is back", name, error)
            away = str(error)
            stop.wait(RETRY_SECONDS)
            continue
        except Exception:
            LOG.exception("%s", name)
            stop.wait(RETRY_SECONDS)
            continue
        if away:
            LOG.info("%s: the broker is back", name)
            away = ""
        if lane.asks:
            reached()
        if not busy:
            stop.wait(IDLE_SECONDS)
