"""What people run without this project: stand-ins for the cleaners that leaks are shown with.

They have no record, no custody, no certificate and no host's testimony.
"""

from __future__ import annotations

from eraser.protocol.identity import Slot
from quarantine.cloud.facts import slot_of
from tests.lab.services.placement_http import PlacementHttp
from tests.nova.shelf import Shelf


class PollingCleaner:
    """The loop of Nova's sample for one-time-use devices (``contrib/clean-on-delete.py``): what is
    reserved and has no allocation is cleaned and given back, by address and on the command's word.
    """

    def __init__(self, url: str, shelf: Shelf) -> None:
        self._http = PlacementHttp(url)
        self._shelf = shelf

    def turn(self) -> list[Slot]:
        """One poll; the slots that were given back."""
        query = "/resource_providers?required=HW_PCI_ONE_TIME_USE"
        done = []
        for row in self._http("GET", query, "1.39").body["resource_providers"]:
            slot, provider = slot_of(row["name"]), row["uuid"]
            if slot is not None and self._waits(provider):
                self._shelf.erase(slot)
                self.give_back(provider)
                done.append(slot)
        return done

    def _waits(self, provider: str) -> bool:
        path = f"/resource_providers/{provider}"
        stock = self._http("GET", f"{path}/inventories", "1.39").body["inventories"].values()
        held = self._http("GET", f"{path}/allocations", "1.39").body["allocations"]
        return not held and all(record["reserved"] == record["total"] for record in stock)

    def give_back(self, provider: str) -> None:
        """``inventory set --amend reserved=0``, with whatever generation there is now."""
        path = f"/resource_providers/{provider}/inventories"
        body = self._http("GET", path, "1.39").body
        for record in body["inventories"].values():
            record["reserved"] = 0
        self._http("PUT", path, "1.39", body)


class BellCleaner:
    """Cleans what a notification about a server names, and nothing else: deletes alone ring."""

    BELLS = ("instance.delete.end", "instance.soft_delete.end")

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._slots: dict[str, tuple[Slot, ...]] = {}

    def note(self, server: str, slots: tuple[Slot, ...]) -> None:
        """Notifications carry no PCI address: the cleaner noted at boot who got what."""
        self._slots[server] = slots

    def hear(
        self, notifications: list[dict[str, object]], *, power_fails: bool = False
    ) -> list[Slot]:
        """Cleans for each bell that was not heard before; the slots that were cleaned.

        A bell is acknowledged when it is heard: what a power failure cuts off is forgotten.
        """
        done: list[Slot] = []
        for notification in notifications:
            if notification["event_type"] in self.BELLS:
                payload = notification["payload"]
                assert isinstance(payload, dict)
                slots = self._slots.pop(payload["nova_object.data"]["uuid"], ())
                for slot in () if power_fails else slots:
                    self._shelf.erase(slot)
                    done.append(slot)
        return done
