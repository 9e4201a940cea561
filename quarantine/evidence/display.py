"""Numbers and times for eyes."""

from __future__ import annotations

import math
import re
import unicodedata
from decimal import ROUND_DOWN, Context, Decimal


def size(count: int) -> str:
    """Bytes in a decimal unit, and exactly."""
    amount = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.4g} {unit} ({count:,} bytes)"
        amount /= 1000
    return f"{amount:.4g} TB ({count:,} bytes)"


def duration(seconds: float) -> str:
    """Seconds as hours, minutes and seconds."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def percent(fraction: float) -> str:
    """Rounded up: a bound that is printed smaller than it is would be a lie."""
    return f"{math.ceil(fraction * 1e8) / 1e6:.6f} %"


def probability(share: float) -> str:
    """Six digits, rounded down: one that is printed larger than it is would be a lie, and nothing
    below 1 is certain."""
    # By repr: the binary value of 0.999 lies below it, and would print as 0.998999.
    return f"{Decimal(repr(share)).normalize(Context(prec=6, rounding=ROUND_DOWN)):f}"


def moment(iso: str) -> str:
    """A time in UTC (ISO 8601) for eyes: no ``T``, whole seconds; anything else stays as it is,
    since a host may have written it."""
    return f"{iso[:10]} {iso[11:19]} UTC" if _UTC.fullmatch(iso) else iso


_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", re.ASCII)


_UNSEEN = frozenset({"Cc", "Cf", "Co", "Cn", "Zl", "Zp"})


def printable(text: str) -> str:
    """Control characters, and those that turn or hide text, spelt out: a drive's serial number is
    whatever its firmware says."""
    return "".join(
        f"\\u{ord(one):04x}" if unicodedata.category(one) in _UNSEEN else one for one in text
    )
