"""Numbers and times for eyes."""

from __future__ import annotations

import math
import unicodedata


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


def moment(iso: str) -> str:
    """ISO 8601 for eyes: no ``T``, whole seconds; anything else stays as it is."""
    if len(iso) >= 19 and iso[10] == "T":
        zone = " UTC" if iso.endswith(("Z", "+00:00")) else iso[19:]
        return f"{iso[:10]} {iso[11:19]}{zone}"
    return iso


def printable(text: str) -> str:
    """Control characters, and those that turn or hide text, spelt out: a drive's serial number is
    whatever its firmware says."""
    return "".join(
        f"\\u{ord(one):04x}" if unicodedata.category(one) in ("Cc", "Cf", "Co", "Cn") else one
        for one in text
    )
