"""The machine that measured, and what measuring cost it."""

from __future__ import annotations

import os
import platform
import re
import resource
from pathlib import Path

from qualify.host.system import System
from qualify.results.result import Machine


def machine(system: System | None = None) -> Machine:
    """This one."""
    lines = (system or System()).text("/proc/cpuinfo").splitlines()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    # Arm's cpuinfo names no model.
    return Machine(platform.release(), os.cpu_count() or 1, next(models, platform.machine())[:100])


def own_cpu() -> float:
    """CPU seconds of this process so far, its children's left out."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def own_memory() -> int:
    """Bytes of this program at its peak; 0 where the kernel does not tell.

    Not getrusage(2): that goes on from the peak of whatever program started this one.
    """
    peak = re.search(r"^VmHWM:\s*([0-9]+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(peak[1]) * 1024 if peak else 0
