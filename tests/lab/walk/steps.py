"""Which functions of a package are called, in which order, and what that is as figures.

Whoever reads the code along an order reads each function once, when it is called for the first
time. So a function counts at its first call: what a loop does a thousand times is one step.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType


@dataclass
class Steps:
    """What was called of one package, and of those below the names."""

    packages: tuple[str, ...]
    modules: list[str] = field(default_factory=list)
    """That of each function, in the order of their first calls."""
    calls: int = 0
    """Of these functions, all of them."""
    _seen: set[CodeType] = field(default_factory=set)

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """For ``sys.setprofile``."""
        if event != "call":
            return
        code, module = frame.f_code, frame.f_globals.get("__name__", "")
        if module.partition(".")[0] not in self.packages or not written(code):
            return
        self.calls += 1
        if code not in self._seen:
            self._seen.add(code)
            self.modules.append(module)

    @contextmanager
    def during(self) -> Iterator[None]:
        """Notes what this thread calls."""
        before = sys.getprofile()
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(before)


def written(code: CodeType) -> bool:
    """A function that somebody wrote: no body of a module or of a class, which an import runs, and
    nothing that dataclasses made."""
    return bool(code.co_flags & inspect.CO_OPTIMIZED) and not code.co_filename.startswith("<")


@dataclass(frozen=True)
class Walk:
    """Through which modules one goes."""

    stays: tuple[str, ...]
    """Modules; the same one never twice in a row."""

    @property
    def files(self) -> int:
        """Different modules."""
        return len(set(self.stays))

    @property
    def returns(self) -> int:
        """Stays in a module where one was before."""
        return len(self.stays) - self.files

    def lines(self) -> Iterator[str]:
        """The stays in their order, with a sign at those where one was before."""
        seen: set[str] = set()
        for stay in self.stays:
            yield f"{'<' if stay in seen else ' '} {stay}"
            seen.add(stay)


def walk(modules: list[str]) -> Walk:
    """Of the modules of functions, in the order of their calls."""
    return Walk(
        tuple(name for at, name in enumerate(modules) if at == 0 or modules[at - 1] != name)
    )
