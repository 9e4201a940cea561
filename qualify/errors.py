"""The bench's errors. Each message is one line: what was expected, what was found, what to do."""

from __future__ import annotations


class BenchError(Exception):
    """Base of all. ``exit_code`` is that of ``nvme-bench``."""

    exit_code = 1


class BadInputError(BenchError):
    """An option, a file or a target that cannot be used as asked. Nothing was touched."""

    exit_code = 2


class TargetInUseError(BenchError):
    """The target is, or may be, in use, or holds something. Nothing was written."""

    exit_code = 3


class FioError(BenchError):
    """fio is missing, failed, or did not answer as it should."""

    exit_code = 6
