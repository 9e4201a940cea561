"""Figures as people read them."""

from __future__ import annotations

import re


def count(value: float) -> str:
    """``2,374k``, ``57.6k``, ``912``: operations a second, to four digits."""
    # The two upper bounds are the values from which rounding would give a digit more.
    if value >= 9_999_500:
        return f"{value / 1e6:,.1f}M"
    if value >= 99_950:
        return f"{value / 1e3:,.0f}k"
    if value >= 1000:
        return f"{value / 1e3:.1f}k"
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def throughput(value: float) -> str:
    """Bytes a second in decimal units, as drives are sold."""
    for unit, name in ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")):
        if value >= unit:
            scaled = value / unit
            digits = 0 if scaled >= 100 else 1 if scaled >= 10 else 2
            return f"{scaled:.{digits}f} {name}"
    return f"{value:.0f} B/s"


def latency(nanoseconds: float) -> str:
    """``412 us``, ``3.49 ms``."""
    for unit, name in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if nanoseconds >= unit:
            scaled = nanoseconds / unit
            digits = 0 if scaled >= 100 else 1 if scaled >= 10 else 2
            return f"{scaled:.{digits}f} {name}"
    return f"{nanoseconds:.0f} ns"


def size(count: int) -> str:
    """Bytes in decimal units."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.4g} {unit}"
        amount /= 1000
    return f"{amount:,.4g} TB"


def change(ratio: float) -> str:
    """``+3.1 %``."""
    text = f"{(ratio - 1) * 100:+.1f} %"
    # A change that rounds to nothing has a sign by chance.
    return "0.0 %" if text[1:] == "0.0 %" else text


def brief(text: str) -> str:
    """A round number beside an axis: ``75k`` for ``75.0k``, ``1.5 GB/s`` for ``1.50 GB/s``."""
    found = re.fullmatch(r"([0-9,]+)\.([0-9]*?)0*([^0-9].*)?", text)
    if found is None:
        return text
    return found[1] + (f".{found[2]}" if found[2] else "") + (found[3] or "")


def printable(text: str) -> str:
    """A drive's own words without what a terminal would obey."""
    return "".join(c if c.isprintable() else "?" for c in text)
