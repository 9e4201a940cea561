"""When Nova let go of a drive, by its own word: what the delay of its detection is counted from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from quarantine.cloud.compute import Compute
from quarantine.record.words.states import State
from quarantine.service.watch.delays import SETTLED_SECONDS, DelayMeter, Delays
from tests.lab.services.placement import CLOUD
from tests.nova.harness import Server
from tests.nova.leakcase import LeakCase

LATE = 100.0
"""Seconds until we look."""

ACTS = 30.0
"""At most what Nova takes on a busy machine for one act, beside that."""


class TestDelays(LeakCase):
    def _used(self) -> tuple[Server, DelayMeter]:
        """A server whose drive we know to be in use, and a meter that counts from now on."""
        server = self.tenant()
        self.plane.turn()
        return server, self._meter()

    def _migrated(self) -> tuple[Server, DelayMeter]:
        """The same, with a server that was moved and waits for its tenant's decision."""
        self.patch_nova()
        source, target = (self.add_host(host)[0] for host in ("compute1", "compute2"))
        self.take_care(source, target)
        server = self.tenant(host="compute1")
        self.plane.turn()
        self.act(server, "migrate", None, "VERIFY_RESIZE")
        self.plane.turn()
        return server, self._meter()

    def _meter(self) -> DelayMeter:
        meter = DelayMeter(self.plane.store, Compute.connect(CLOUD), self.plane.clock)
        meter.turn()
        return meter

    def _seen_late(self, meter: DelayMeter) -> Delays:
        self.plane.clock.now = datetime.now(UTC) + timedelta(seconds=LATE)
        self.plane.turn()
        meter.turn()
        assert meter.delays == Delays(), "Nova may not be done with it yet"
        self.plane.clock.forward(SETTLED_SECONDS + 1)
        meter.turn()
        meter.turn()
        return meter.delays

    def _is_late(self, delays: Delays) -> None:
        assert (delays.count, delays.unknown) == (1, 0)
        assert LATE - 1 <= delays.seconds <= LATE + ACTS

    def test_a_delete(self) -> None:
        self.cared_for()
        server, meter = self._used()
        self.delete(server)
        self._is_late(self._seen_late(meter))

    def test_a_shelve(self) -> None:
        self.flags(shelved_offload_time=0)
        self.cared_for()
        server, meter = self._used()
        self.act(server, "shelve", None, "SHELVED_OFFLOADED")
        self._is_late(self._seen_late(meter))

    def test_a_delete_that_is_undone_no_more_counts_from_its_end(self) -> None:
        """Deleted softly, the server keeps its drive; long after Nova deletes it for good."""
        self.flags(reclaim_instance_interval=3600)
        (slot,) = self.cared_for()
        server, meter = self._used()
        self.admin_api.delete_server(server.id)
        self.wait_status(server.id, "SOFT_DELETED")
        self.plane.turn()
        assert self.plane.state(slot) is State.IN_USE
        assert Compute.connect(CLOUD).deleted_at(server.id) is None
        self.admin_api.post_server_action(server.id, {"forceDelete": None})
        self.wait_gone(server.id)
        self._is_late(self._seen_late(meter))

    def test_a_revert(self) -> None:
        server, meter = self._migrated()
        self._revert_resize({"id": server.id})
        self._is_late(self._seen_late(meter))

    def test_the_old_place_of_a_migrated_server_is_not_known(self) -> None:
        """Its consumer is the migration, of which Nova tells nothing by that name."""
        server, meter = self._migrated()
        self.confirm(server, "compute1")
        assert self._seen_late(meter) == Delays(unknown=1)
