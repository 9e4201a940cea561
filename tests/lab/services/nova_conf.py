"""The configuration of the real Nova's daemons on loopback, and its database's first rows."""

from __future__ import annotations

import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from tests.lab.errors import LabError
from tests.lab.services.nova_standin import RESOURCE_CLASS

ALIAS: Final = "i1-nvme"
RECLAIM_INTERVAL: Final = 8
"""Seconds after which nova-compute reclaims what was deleted softly."""

# What an operator's guide for i1 flavors says (report_in_placement, one_time_use,
# pci_in_placement); intervals are short, so that a dead service is soon seen as down.
_CONF: Final = """\
[DEFAULT]
transport_url = {rabbit}
my_ip = 127.0.0.1
state_path = {directory}
compute_driver = lab_nvme.NvmeDriver
report_interval = 2
service_down_time = 12
update_resources_interval = 5
rpc_response_timeout = 15
sync_power_state_interval = -1
periodic_fuzzy_delay = 0
instances_path = {directory}/instances
[oslo_concurrency]
lock_path = {directory}/locks
[wsgi]
api_paste_config = {directory}/api-paste.ini
[api]
auth_strategy = noauth2
[conductor]
workers = 1
[scheduler]
workers = 1
discover_hosts_in_cells_interval = 1
[oslo_messaging_rabbit]
heartbeat_timeout_threshold = 10
kombu_reconnect_delay = 0.5
rabbit_retry_interval = 1
rabbit_retry_backoff = 0
[placement]
auth_type = admin_token
endpoint = {placement}
token = admin
endpoint_override = {placement}
[pci]
report_in_placement = true
device_spec = {{"vendor_id": "144d", "product_id": "a824", "resource_class": "{rc}", \
"one_time_use": "true"}}
alias = {{"name": "{alias}", "resource_class": "{rc}", "device_type": "type-PCI"}}
[filter_scheduler]
pci_in_placement = true
[neutron]
auth_type = none
endpoint_override = {neutron}
[cinder]
auth_type = none
[glance]
endpoint_override = {glance}
enable_rbd_download = false
num_retries = 0
"""

# Not for nova-compute, which has no business in the database.
_DATABASES_CONF: Final = """\
[api_database]
connection = {api}
[database]
connection = {cell}
"""

# The pipeline of Nova's own etc/nova/api-paste.ini with our filter where Keystone's two stand.
_PASTE: Final = """\
[composite:osapi_compute]
use = call:nova.api.openstack.urlmap:urlmap_factory
/: versions
/v2.1: version21
/v2.1/+: v21
[pipeline:versions]
pipeline = faultwrap versionsapp
[pipeline:version21]
pipeline = faultwrap version21app
[pipeline:v21]
pipeline = faultwrap lab v21app
[filter:faultwrap]
paste.filter_factory = nova.api.openstack:FaultWrapper.factory
[filter:lab]
paste.filter_factory = tests.lab.nova.noauth:filter_factory
[app:v21app]
paste.app_factory = nova.api.openstack.compute:APIRouterV21.factory
[app:versionsapp]
paste.app_factory = nova.api.openstack.compute.versions:Versions.factory
[app:version21app]
paste.app_factory = nova.api.openstack.compute.versions:VersionsV2.factory
"""


@dataclass(frozen=True)
class Endpoints:
    """URLs of what Nova talks to."""

    rabbit: str
    api: str
    """Nova's database of the API."""
    cell: str
    """The database of the one cell."""
    placement: str
    glance: str
    neutron: str


def write(directory: Path, ends: Endpoints) -> None:
    """``nova.conf`` for all, ``databases.conf`` and ``api-paste.ini`` for those that need them."""
    text = _CONF.format(
        directory=directory,
        rabbit=ends.rabbit,
        placement=ends.placement,
        glance=ends.glance,
        neutron=ends.neutron,
        alias=ALIAS,
        rc=RESOURCE_CLASS,
    )
    (directory / "nova.conf").write_text(text)
    (directory / "databases.conf").write_text(_DATABASES_CONF.format(api=ends.api, cell=ends.cell))
    (directory / "api-paste.ini").write_text(_PASTE)


def write_host(directory: Path, host: str) -> Path:
    """The few lines that are a compute host's own, and its directory; returns the file."""
    state = directory / host
    state.mkdir(exist_ok=True)
    # Nova pins the node's uuid there; the fake driver's restart wants it to be the driver's own.
    (state / "compute_id").write_text(f"{uuid.uuid5(uuid.NAMESPACE_DNS, host)}\n")
    path = directory / f"{host}.conf"
    # Whether a delete is a soft one is for nova-api to say; without its word this does nothing.
    own = f"host = {host}\nstate_path = {state}\nreclaim_instance_interval = {RECLAIM_INTERVAL}\n"
    path.write_text(f"[DEFAULT]\n{own}")
    return path


def create_databases(directory: Path, python: Path, ends: Endpoints) -> None:
    """Nova's two schemas, one of them twice, and the two rows of the cells."""
    conf = str(directory / "databases.conf")
    manage = [str(python), str(python.parent / "nova-manage"), "--config-file", conf]
    running = [
        subprocess.Popen([*manage, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for words in (("api_db", "sync"), ("db", "sync", "--local_cell"))
    ]
    for process in running:
        _, said = process.communicate()
        if process.returncode:
            raise LabError(f"nova-manage ended with {process.returncode}: {said.decode()[-2000:]}")
    # Cell 0 has the servers that found no host, in the same tables.
    cell0 = "cell0"
    with psycopg.connect(ends.api, autocommit=True) as database:
        name = sql.Identifier(urlsplit(ends.cell).path.lstrip("/"))
        database.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(cell0), name)
        )
    # What ``nova-manage cell_v2 map_cell0`` and ``create_cell`` write (``nova/cmd/manage.py``).
    other = urlsplit(ends.cell)._replace(path=f"/{cell0}").geturl()
    rows = [
        (str(uuid.UUID(int=0)), "cell0", "none:///", other, False),
        (str(uuid.UUID(int=1)), "cell1", ends.rabbit, ends.cell, False),
    ]
    with psycopg.connect(ends.api) as database, database.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO cell_mappings (uuid, name, transport_url, database_connection, disabled) "
            "VALUES (%s, %s, %s, %s, %s)",
            rows,
        )


def claimed_devices(ends: Endpoints) -> set[str]:
    """Addresses that some nova-compute's own tracker gives to a server (``nova/pci/manager.py``).

    It may lag behind Placement: of a server that came by a migration, and is deleted before the
    next run of ``update_available_resource``, that run lets go (``ResourceTracker.update_usage``).
    """
    with psycopg.connect(ends.cell) as database:
        query = "SELECT address FROM pci_devices WHERE deleted = 0 AND status <> 'available'"
        return {address for (address,) in database.execute(query)}


def mapped_hosts(ends: Endpoints) -> set[str]:
    """The compute hosts that the scheduler has found (``nova/objects/host_mapping.py``)."""
    with psycopg.connect(ends.api) as database:
        return {host for (host,) in database.execute("SELECT host FROM host_mappings")}
