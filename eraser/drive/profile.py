"""What a drive should look like: proposed from one, held against others. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from eraser.errors import BadInputError
from eraser.wire.identity import ControllerIdentity
from eraser.wire.profile import Comparator, FeatureRule, Profile
from eraser.wire.report import ControllerFacts


def propose(
    identity: ControllerIdentity,
    facts: ControllerFacts,
    features: tuple[FeatureRule, ...],
    name: str = "",
) -> Profile:
    """A profile that this drive fits; a person approves it. Raises :class:`BadInputError`."""
    if not facts.namespaces:
        raise BadInputError(
            "profile: expected a drive with an active namespace, found none; "
            "create the namespaces that drives of this model should have, then inspect again"
        )
    return Profile(
        name=name or f"{identity.model} {facts.firmware}".strip()[:128] or "unnamed",
        vendor_id=identity.vendor_id,
        device_id=identity.device_id,
        model=identity.model,
        firmware=(facts.firmware,),
        namespaces=facts.namespaces,
        features=features,
        total_bytes=facts.total_bytes,
    )


def compare(
    profile: Profile,
    identity: ControllerIdentity,
    facts: ControllerFacts,
    features: tuple[FeatureRule, ...],
) -> tuple[str, ...]:
    """Every difference as ``profile: expected X, found Y``; empty where the drive fits."""
    return tuple(_differences(profile, identity, facts, features))


def _differences(
    profile: Profile,
    identity: ControllerIdentity,
    facts: ControllerFacts,
    features: tuple[FeatureRule, ...],
) -> Iterator[str]:
    for what, expected, found in (
        ("vendor", f"{profile.vendor_id:#06x}", f"{identity.vendor_id:#06x}"),
        ("device", f"{profile.device_id:#06x}", f"{identity.device_id:#06x}"),
        ("model", profile.model, identity.model),
    ):
        if expected != found:
            yield f"profile: expected {what} {expected!r}, found {found!r}"
    if facts.firmware not in profile.firmware:
        yield (
            f"profile: expected firmware {' or '.join(map(repr, profile.firmware))}, "
            f"found {facts.firmware!r}"
        )
    if profile.total_bytes and facts.total_bytes != profile.total_bytes:
        yield (f"profile: expected {profile.total_bytes} bytes in total, found {facts.total_bytes}")
    yield from _layout(profile, facts)
    values = {rule.fid: rule.value for rule in features}
    for rule in profile.features:
        value = values.get(rule.fid)
        if rule.comparator is Comparator.EQUAL and value != rule.value:
            shown = "none" if value is None else f"{value:#x}"
            yield (
                f"profile: expected feature {rule.fid:#04x} ({rule.name}) {rule.value:#x}, "
                f"found {shown}"
            )


def _layout(profile: Profile, facts: ControllerFacts) -> Iterator[str]:
    expected = {namespace.nsid: namespace for namespace in profile.namespaces}
    found = {namespace.nsid: namespace for namespace in facts.namespaces}
    for nsid in sorted(expected.keys() | found.keys()):
        if nsid not in found:
            yield f"profile: expected namespace {nsid}, found none"
        elif nsid not in expected:
            yield f"profile: expected no namespace {nsid}, found one of {found[nsid].size} bytes"
        elif expected[nsid] != found[nsid]:
            yield from (
                f"profile: expected namespace {nsid} with {name} {mine}, found {theirs}"
                for name in expected[nsid].__dataclass_fields__
                if (mine := getattr(expected[nsid], name)) != (theirs := getattr(found[nsid], name))
            )
