"""Errors of the emulated rack: one base class, one line each."""


class LabError(Exception):
    """Something in the emulated rack is not as expected; the message says what to do about it."""


class BuildError(LabError):
    """An image, a tree or a package could not be built."""


class GuestError(LabError):
    """A guest died, did not answer in time, or its agent refused a request."""


class QmpError(LabError):
    """QEMU refused a monitor command."""


class CommandFailed(LabError):
    """A command in a guest ended with a non-zero exit code although success was demanded."""
