"""Where a portrait's figures stand in Identify data (Base 2.0, figure 275), under the names of
nvme-cli, and which of them the lab drive shows."""

from __future__ import annotations

from typing import Final, NamedTuple


class Field(NamedTuple):
    """Bytes of Identify Controller."""

    offset: int
    size: int


CONTROLLER: Final = {
    "rab": Field(72, 1),
    "rtd3r": Field(84, 4),
    "rtd3e": Field(88, 4),
    "oacs": Field(256, 2),
    "frmw": Field(260, 1),
    "wctemp": Field(266, 2),
    "cctemp": Field(268, 2),
    "fwug": Field(319, 1),
    "oncs": Field(520, 2),
}
"""Figures that no other field of a drive's profile decides, and that promise a host nothing on
which it would act against the lab drive. Of OACS and ONCS the profile decides most bits; self-test,
NVMe-MI and Write Uncorrectable are shown and refused."""

DECIDED: Final = (
    *("vid", "ssvid", "device", "mn", "fr", "ieee", "cmic", "mdts", "cntlid", "ver", "sanicap"),
    *("nn", "fna", "vwc", "nwpc", "lbaf", "flbas", "dlfeat", "fpi", "nmic"),
)
"""Figures that fields of the profile decide, so that the drive acts on them as well."""

REQUIRED: Final = ("sanicap", "oacs", "fna")
"""Without a source for each of these a model is no preset: they decide its erase."""

WANTED: Final = (
    *("vid", "ssvid", "device", "mn", "fr", "ver", "sanicap", "oacs", "fna", "oncs", "vwc", "nwpc"),
    *("cmic", "mdts", "nn", "rtd3r", "rtd3e", "oaes", "fwug", "tnvmcap", "unvmcap", "lbaf"),
    *("dlfeat", "eto", "etbe", "etce"),
)
"""What is asked of every model; what has no figure is listed as not known."""

TEXT: Final = ("mn", "fr", "subnqn", "lbaf")
"""Figures that are no numbers. ``lbaf`` is shift:metadata:RP for each LBA format."""
