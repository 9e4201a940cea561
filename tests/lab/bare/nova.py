"""A compute host's Nova, as a site has it before it reads our guide: real, in a venv of its own.

nova-compute waits for a message bus that this site does not have. It is loaded by then, and so is
the patch where that is installed.
"""

from __future__ import annotations

from typing import Final

from tests.lab.bare.guest import BareGuest
from tests.lab.bare.offered import NOVA

PYTHON: Final = "/opt/nova/bin/python3"
"""The Python that runs nova-compute."""

_CONF: Final = """\
[DEFAULT]
transport_url = rabbit://nova:nobody@127.0.0.1:5672/
compute_driver = fake.FakeDriver
state_path = /var/lib/nova
"""
_UNIT: Final = """\
[Unit]
Description=OpenStack Nova Compute

[Service]
User=nova
ExecStart=/opt/nova/bin/nova-compute --config-file /etc/nova/nova.conf
Restart=on-failure

[Install]
WantedBy=multi-user.target
"""


def install(guest: BareGuest) -> None:
    """Install Nova and start nova-compute. The host has python3-venv by now.

    Raises ``CommandFailed``.
    """
    guest.step("python3 -m venv /opt/nova")
    guest.step(f"/opt/nova/bin/pip install nova=={NOVA}")
    guest.step("useradd --system --home-dir /var/lib/nova --create-home nova")
    guest.put("/etc/nova/nova.conf", _CONF)
    guest.put("/etc/systemd/system/nova-compute.service", _UNIT)
    guest.step("systemctl daemon-reload && systemctl enable --now nova-compute")
