"""Submission and completion queues in guest memory (Base 3.3)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from tests.lab.nvme.dma import DmaSpace
from tests.lab.nvme.spec import CQE, Command, Reply

SQE_BYTES = 64
CQE_BYTES = 16


@dataclass
class SubmissionQueue:
    """A ring that the host fills; ``completion`` is the id of the queue that answers go to."""

    qid: int
    address: int
    size: int
    completion: int
    head: int = 0
    tail: int = 0

    def take(self, space: DmaSpace) -> Command:
        """The entry at the head, which moves on. Raises DmaFault."""
        entry = space.view(self.address + self.head * SQE_BYTES, SQE_BYTES)
        self.head = (self.head + 1) % self.size
        return Command.parse(entry)


@dataclass
class CompletionQueue:
    """A ring that the drive fills. Answers wait in ``backlog`` while the host has no room."""

    qid: int
    address: int
    size: int
    vector: int
    interrupts: bool
    head: int = 0
    tail: int = 0
    phase: int = 1
    backlog: deque[bytes] = field(default_factory=deque)
    raised: bool = False

    @property
    def full(self) -> bool:
        """Whether no further entry fits."""
        return (self.tail + 1) % self.size == self.head

    def post(self, space: DmaSpace, sq: SubmissionQueue, cid: int, reply: Reply) -> None:
        """Answer a command. Raises DmaFault."""
        self.backlog.append(CQE.pack(reply.dw0, 0, sq.head, sq.qid, cid, reply.status << 1))
        self.flush(space)

    def flush(self, space: DmaSpace) -> None:
        """Move waiting answers into the ring as far as they fit. Raises DmaFault."""
        while self.backlog and not self.full:
            entry = bytearray(self.backlog.popleft())
            entry[14] |= self.phase
            slot = space.view(self.address + self.tail * CQE_BYTES, CQE_BYTES)
            # The phase bit tells the host that the rest is there: it goes last.
            slot[:14] = entry[:14]
            slot[14:] = entry[14:]
            self.tail += 1
            if self.tail == self.size:
                self.tail, self.phase = 0, self.phase ^ 1
            self.raised = True
