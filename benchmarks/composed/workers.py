"""Processes that try a drive each. They end with whoever began them, and their guests with them."""

from __future__ import annotations

import ctypes
import multiprocessing
import signal
from concurrent.futures import ProcessPoolExecutor
from typing import Final

_PR_SET_PDEATHSIG: Final = 1  # include/uapi/linux/prctl.h


def workers(jobs: int) -> ProcessPoolExecutor:
    """So many, each started anew: a fork would have the threads' locks of its parent.

    They import what they run. Nothing of that may stand in a ``__main__``, which is no module for
    them.
    """
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=_end_with_parent)


def _end_with_parent() -> None:
    """As `prctl(2)` has it, when the thread ends that began this process."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
