"""Errors of the drive model."""

from tests.lab.errors import LabError


class DriveError(LabError):
    """A drive was set up, or asked for something, that it cannot be or do."""


class WireError(DriveError):
    """The peer on a vfio-user socket said something the protocol does not allow."""
