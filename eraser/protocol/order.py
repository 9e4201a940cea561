"""What the controller tells a host to do."""

from __future__ import annotations

from dataclasses import dataclass, field

from eraser.protocol.codec import LATE
from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.policy import MAX_LIMIT, Policy
from eraser.protocol.profile import Profile

ORDER_TYPE = "nvme-quarantine.erase-order+json"
"""The JWS ``typ``: an order can never be taken for a report."""


@dataclass(frozen=True)
class EraseOrder:
    """Erase this drive in this slot, and answer with these ids.

    ``generation`` is the slot's custody count: a host never goes back to a smaller one.
    ``nonce`` is good for one report. ``incarnation`` is the host's, as registered: a host that
    lost its state is another one, and every older order is void there.
    ``seconds_allowed`` is counted on the host's own clock from acceptance. ``stuck`` is how many
    seconds a sanitize of this model may stand still, by what its certificates say; 0 where the
    policy's own limit is as good. ``look`` grows with each time that the controller wants the same
    case begun once more, after "in use"; what a host hears again with the same one is a repetition.
    0 from a controller that does not count, whose repetition means "look again".
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
    stuck: float = field(default=0.0, metadata=LATE)
    look: int = field(default=0, metadata=LATE)

    def __post_init__(self) -> None:
        if self.generation < 1:
            raise ValueError(f"expected a generation of at least 1, found {self.generation}")
        if self.seconds_allowed < 1:
            raise ValueError(f"expected at least one second, found {self.seconds_allowed}")
        if not 0 <= self.stuck <= MAX_LIMIT:
            raise ValueError(f"expected 0 <= stuck <= {MAX_LIMIT:g} s, found {self.stuck}")
        if self.look < 0:
            raise ValueError(f"expected a look of at least 0, found {self.look}")
        for name in ("order_id", "nonce", "incarnation"):
            value = getattr(self, name)
            if not 16 <= len(value) <= 64 or not value.replace("-", "").isalnum():
                raise ValueError(f"expected 16 to 64 letters and digits in {name}, found {value!r}")
