"""What the real Nova asks of Placement for each thing that it does with a drive.

The sample is what our stand-in for Nova is held against where Nova is not installed. To write it
anew: ``NVME_QUARANTINE_WRITE_SAMPLE=1 tools/test -e nova -- tests/nova/test_record_placement.py``
"""

from __future__ import annotations

import json
import os
from unittest import mock

from nova import exception

from tests.lab.services.recorder import SAMPLE, Recorder, decisive
from tests.nova.harness import NovaCase, Server

WRITE = bool(os.environ.get("NVME_QUARANTINE_WRITE_SAMPLE"))


class TestRecord(NovaCase):
    def before_nova(self) -> None:
        self.recorder = Recorder(self.placement_server.port)
        self.recorder.__enter__()
        self.addCleanup(self.recorder.__exit__)

    @property
    def nova_placement_url(self) -> str:
        return self.recorder.url

    def new_flavor(self, drives: int = 1) -> str:
        """As much of a host as the stand-in asks for."""
        specs = {"pci_passthrough:alias": f"i1-nvme:{drives}"}
        return str(
            self._create_flavor(vcpu=4, memory_mb=4096, disk=0, ephemeral=0, extra_spec=specs)
        )

    def current(self, what: str, server: Server | None = None) -> None:
        """What Nova asked since the last time is what the sample says."""
        asked = decisive(self.recorder.shapes(*([server.id] if server else [])))
        self.recorder.start()
        sample = json.loads(SAMPLE.read_text()) if SAMPLE.exists() else {}
        if WRITE:
            SAMPLE.parent.mkdir(exist_ok=True)
            SAMPLE.write_text(json.dumps(sample | {what: asked}, indent=1, sort_keys=True) + "\n")
        else:
            assert asked == sample[what], what

    def test_one_host(self) -> None:
        (slot,) = self.add_host()
        self.current("start")
        server = self.boot()
        self.current("boot", server)
        self.delete(server)
        self.current("delete", server)
        self.restart(drives=0)
        self.current("vanish")
        self.restart(drives=1)
        boom = exception.NovaException("no such luck")
        self.recorder.start()
        with mock.patch("nova.virt.libvirt.driver.LibvirtDriver.spawn", side_effect=boom):
            server = self.boot()
        self.current("fail_spawn", server)
        self.set_reserved(slot, 0)
        server = self.boot()
        self.service_down()
        self.recorder.start()
        self.delete(server)
        self.current("local_delete", server)

    def test_two_hosts(self) -> None:
        self.flags(shelved_offload_time=0)
        (source,) = self.add_host("compute1")
        self.add_host("compute2")
        server = self.boot(host="compute1")
        self.recorder.start()
        self.act(server, "migrate", None, "VERIFY_RESIZE")
        self.current("migrate", server)
        self.confirm(server, "compute1")
        self.current("confirm", server)
        self.set_reserved(source, 0)
        self.flags(host="compute1")
        self.act(server, "migrate", None, "VERIFY_RESIZE")
        self.recorder.start()
        self._revert_resize({"id": server.id})
        self.current("revert", server)
        self.act(server, "shelve", None, "SHELVED_OFFLOADED")
        self.current("shelve_offload", server)

    def test_two_drives_and_a_reclaim(self) -> None:
        self.flags(reclaim_instance_interval=3600)
        self.add_host(drives=2)
        self.recorder.start()
        server = self.boot(flavor=self.new_flavor(2))
        self.current("boot_two_drives", server)
        self.admin_api.delete_server(server.id)
        self.wait_status(server.id, "SOFT_DELETED")
        self.act(server, "forceDelete")
        self.wait_gone(server.id)
        self.current("reclaim", server)
