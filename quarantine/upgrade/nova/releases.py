"""Releases of Nova that this product knows."""

from __future__ import annotations

from typing import Final

NOVA_RELEASES: Final[dict[int, tuple[int, int] | None]] = {
    29: None,
    32: None,
    33: (2, 103),
    34: (2, 104),
}
"""Each release that nova_patch knows, and the newest microversion of its nova-api; None where
another release has the same (``rest_api_version_history.rst`` of Nova 34: 2.96 is 29 and 30, 2.100
is 31 and 32)."""


def release_of(microversion: tuple[int, int]) -> int | None:
    """The release whose newest microversion this is; None where that does not decide."""
    return next((each for each, newest in NOVA_RELEASES.items() if newest == microversion), None)
