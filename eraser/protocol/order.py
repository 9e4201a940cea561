"""What the controller tells a host to do."""

from __future__ import annotations

from dataclasses import dataclass

from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.policy import Policy
from eraser.protocol.profile import Profile

ORDER_TYPE = "nvme-quarantine.erase-order+json"
"""The JWS ``typ``: an order can never be taken for a report."""


@dataclass(frozen=True)
class EraseOrder:
    """Erase this drive in this slot, and answer with these ids.

    ``generation`` is the slot's custody count: a host never goes back to a smaller one.
    ``nonce`` is good for one report. ``incarnation`` is the host's, as registered: a host that
    lost its state is another one, and every older order is void there.
    ``seconds_allowed`` is counted on the host's own clock from acceptance.
    """

    order_id: str
    slot: Slot
    identity: ControllerIdentity
    profile: Profile
    policy: Policy
    generation: int
    nonce: str
    incarnation: str
    seconds_allowed: int

    def __post_init__(self) -> None:
        if self.generation < 1:
            raise ValueError(f"expected a generation of at least 1, found {self.generation}")
        if self.seconds_allowed < 1:
            raise ValueError(f"expected at least one second, found {self.seconds_allowed}")
        for name in ("order_id", "nonce", "incarnation"):
            value = getattr(self, name)
            if not 16 <= len(value) <= 64 or not value.replace("-", "").isalnum():
                raise ValueError(f"expected 16 to 64 letters and digits in {name}, found {value!r}")
