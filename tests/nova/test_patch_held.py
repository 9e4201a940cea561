"""A drive that somebody holds in Placement goes missing: its host works on, on every release.

What the control plane does while a drive is erased is done here by hand: an allocation of its own
consumer, and ``reserved`` on top.
"""

from __future__ import annotations

import uuid

from tests.nova.patchcase import CLASS, MICROVERSION, PatchCase


class Held(PatchCase):
    """nova-compute cannot delete the provider, and does everything else."""

    def _hold(self) -> None:
        body = {
            "allocations": {self.provider(): {"resources": {CLASS: 1}}},
            "project_id": "ours",
            "user_id": "ours",
            "consumer_generation": None,
            "consumer_type": "NVME_QUARANTINE",
        }
        answer = self.placement.put(f"/allocations/{uuid.uuid4()}", body, version=MICROVERSION)
        assert answer.status == 204, answer.body

    def _gone(self, *, one_time_use: str) -> None:
        self.set_spec(self.spec(one_time_use=one_time_use))
        self.start()
        self.set_reserved(0)
        self._hold()
        self.set_reserved(1)
        self.restart(drives=0)
        self._run_periodics()
        assert self.drive() == (1, 1, 1)

    def test_servers_come_and_go_beside_a_held_drive_that_is_absent(self) -> None:
        self._gone(one_time_use="true")
        plain = self._create_flavor()
        self._delete_server(self._create_server(flavor_id=plain, networks=[]))
        self.restart(drives=1)
        self._run_periodics()
        assert self.drive() == (1, 1, 1)
        self.boot_refused()

    def test_of_other_devices_nova_s_own_refusal_stands(self) -> None:
        self._gone(one_time_use="false")
        plain = self._create_flavor()
        self._create_server(flavor_id=plain, networks=[], expected_state="ERROR")
