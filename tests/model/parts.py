"""The product's decisions that the model drives: as they are, or with every guard on a switch."""

from __future__ import annotations

from eraser.gate import intake, rules
from eraser.ownership import atrest, counters, revocation
from quarantine.rules import decide
from quarantine.rules.action import ServiceLimits
from quarantine.rules.reports import receipts
from tests.model.control import Control
from tests.model.host import Host
from tests.model.mutate import Switch, Wired, copied
from tests.model.papers import LIMITS

MODULES = (decide, receipts, rules, intake, revocation, counters, atrest)
"""Where it is decided who gets a drive, and which drive is erased."""


class Parts:
    """The code as it is."""

    def __init__(self, limits: ServiceLimits = LIMITS) -> None:
        self.switch = Switch()
        self.rules, self.intake, self.revocation = rules, intake, revocation
        self.receipts = copied(receipts)
        self.control = Control(decide.decide, self.receipts, self.switch, limits)
        self.host = Host(switch=self.switch)


class WiredParts(Parts):
    """The same, every guard of which can be turned around."""

    def __init__(self, limits: ServiceLimits = LIMITS) -> None:
        wired = Wired(MODULES)
        copies = wired.copies
        self.guards = wired.guards
        self.switch = wired.switch
        self.rules, self.intake = copies[rules.__name__], copies[intake.__name__]
        self.revocation = copies[revocation.__name__]
        self.receipts = copies[receipts.__name__]
        judge = copies[decide.__name__].decide
        self.control = Control(judge, self.receipts, self.switch, limits)
        self.host = Host(
            self.rules,
            self.intake,
            self.revocation,
            copies[atrest.__name__],
            self.switch,
        )
