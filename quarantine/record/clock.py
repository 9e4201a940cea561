"""How far apart the clocks of the control plane's own machines may be."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

CLOCKS_APART: Final = timedelta(seconds=60)
"""The control plane's processes may run on two machines: so far their clocks may be apart. What is
noted of later than that was noted before our clock was set back."""
