"""The control plane that these tests speak to."""

from tests.unit.quarantine.service.inbound.plane import plane as plane
