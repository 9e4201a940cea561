"""A compute driver without a hypervisor whose host has NVMe drives: a copy is put into nova/virt.

Nova's own fake driver (``nova/virt/fake.py``), plus the type-PCI devices that the file named by
``NOVA_LAB_DRIVES`` lists, an address a line. Guests are entries of a dictionary; a server whose
name begins with ``fail`` does not start. Our patch rings at ``NOVA_LAB_BELL``: the lab's hosts
share one ``/run``.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from pathlib import Path
from typing import Any

from nova import exception
from nova.virt import fake

VENDOR, PRODUCT = "144d", "a824"


class NvmeDriver(fake.MediumFakeDriver):  # type: ignore[misc]
    """``compute_driver = lab_nvme.NvmeDriver``."""

    def __init__(self, virtapi: Any, read_only: bool = False) -> None:
        super().__init__(virtapi, read_only)
        # Once a minute in Nova; what is tested is what follows, not the minute.
        virtapi._compute._periodic_spacing["_reclaim_queued_deletes"] = 1.0
        _move_bell(os.environ["NOVA_LAB_BELL"])

    def get_available_resource(self, nodename: str) -> dict[str, Any]:
        """As libvirt's driver reports it: ``nova/virt/libvirt/host.py _get_pcidev_info``."""
        found: dict[str, Any] = super().get_available_resource(nodename)
        # nova-compute only starts again where its node keeps its uuid.
        found["uuid"] = _node(nodename)
        addresses = Path(os.environ["NOVA_LAB_DRIVES"]).read_text().split()
        found["pci_passthrough_devices"] = json.dumps([_device(each) for each in addresses])
        return found

    def get_nodenames_by_uuid(self, refresh: bool = False) -> dict[str, str]:
        """As in the resources: a host that is back lets go of what was evacuated from its node."""
        return {_node(name): name for name in self.get_available_nodes(refresh)}

    def spawn(self, context: Any, instance: Any, *args: Any, **kwargs: Any) -> None:
        """Start a guest, or fail as a hypervisor does."""
        if instance.display_name.startswith("fail"):
            raise exception.BuildAbortException(
                instance_uuid=instance.uuid, reason="the lab's driver was told to fail"
            )
        super().spawn(context, instance, *args, **kwargs)


def _move_bell(path: str) -> None:
    (rings,) = (
        module
        for name, module in sys.modules.items()
        if name.startswith("nvme_quarantine_nova_patch_") and name.endswith(".rings")
    )
    rings.BELL = path  # type: ignore[attr-defined]


def _node(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def _device(address: str) -> dict[str, Any]:
    return {
        "address": address,
        "vendor_id": VENDOR,
        "product_id": PRODUCT,
        "dev_type": "type-PCI",
        "status": "available",
        "parent_addr": None,
        "numa_node": 0,
        "dev_id": "pci_" + address.replace(":", "_").replace(".", "_"),
        "label": f"label_{VENDOR}_{PRODUCT}",
    }
