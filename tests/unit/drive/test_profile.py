"""The profile: what a tenant changed on a drive is seen."""

from __future__ import annotations

import dataclasses

import pytest

from eraser.drive import profile
from eraser.errors import BadInputError
from eraser.protocol.identity import ControllerIdentity
from eraser.protocol.profile import Comparator, FeatureRule, NamespaceLayout
from eraser.protocol.report import ControllerFacts

IDENTITY = ControllerIdentity(1, 2, 3, 4, "SERIAL1", "MODEL", "nqn")
FACTS = ControllerFacts(
    firmware="FW1",
    nvme_version=0x10400,
    oacs=0,
    oncs=0,
    fna=0,
    sanicap=3,
    total_bytes=1 << 30,
    unallocated_bytes=0,
    namespaces=(NamespaceLayout(1, 1 << 18, 4096, 1),),
    dlfeat=(1,),
)
FEATURES = (
    FeatureRule(0x06, "volatile write cache", 1),
    FeatureRule(0x08, "interrupt coalescing", 5, Comparator.REPORTED),
)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"firmware": "EVIL"}, "firmware 'FW1', found 'EVIL'"),
        ({"total_bytes": 5}, "1073741824 bytes in total, found 5"),
        ({"namespaces": ()}, "expected namespace 1, found none"),
        ({"namespaces": (NamespaceLayout(1, 1 << 21, 512, 0),)}, "block_bytes 4096, found 512"),
        (
            {"namespaces": (NamespaceLayout(1, 1 << 18, 4096, 1, command_set=2),)},
            "expected namespace 1 of the NVM command set (CSI 0), found it of the Zoned Namespace "
            "command set (CSI 2)",
        ),
        (
            {"namespaces": (*FACTS.namespaces, NamespaceLayout(2, 8, 512, 0))},
            "expected no namespace 2",
        ),
    ],
)
def test_profile_sees_what_a_tenant_changed(change: dict[str, object], words: str) -> None:
    proposed = profile.propose(IDENTITY, FACTS, FEATURES)
    assert profile.compare(proposed, IDENTITY, FACTS, FEATURES) == ()
    changed = dataclasses.replace(FACTS, **change)  # type: ignore[arg-type]
    assert words in "; ".join(profile.compare(proposed, IDENTITY, changed, FEATURES))


def test_profile_features_and_identity() -> None:
    proposed = profile.propose(IDENTITY, FACTS, FEATURES, "mine")
    assert proposed.name == "mine"
    set_off = tuple(dataclasses.replace(rule, value=0) for rule in FEATURES)
    assert profile.compare(proposed, IDENTITY, FACTS, set_off) == (
        "profile: expected feature 0x06 (volatile write cache) 0x1, found 0x0",
    )
    other = dataclasses.replace(IDENTITY, vendor_id=9, device_id=9, model="M2", serial="S2")
    found = profile.compare(proposed, other, FACTS, FEATURES)
    assert [line.split()[2] for line in found] == ["vendor", "device", "model"]
    with pytest.raises(BadInputError, match="active namespace"):
        profile.propose(IDENTITY, dataclasses.replace(FACTS, namespaces=()), ())
