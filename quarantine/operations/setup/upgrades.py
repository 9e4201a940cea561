"""What would leak or break with the cloud as it stands: asked, and judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from oslo_config.cfg import ConfigOpts

from eraser.protocol.identity import host_name
from eraser.protocol.ticket import Defence
from quarantine.errors import BadInputError
from quarantine.operations.plane import Plane
from quarantine.service.parts import Parts
from quarantine.upgrade import catalogue
from quarantine.upgrade.facts import ConfigSource, Role
from quarantine.upgrade.finding import Check as Check
from quarantine.upgrade.finding import CheckResult as CheckResult
from quarantine.upgrade.finding import Finding as Finding
from quarantine.upgrade.finding import FindingLevel as FindingLevel
from quarantine.upgrade.read import CheckScope as CheckScope
from quarantine.upgrade.read import gather

_DEFENCES = (Defence.HOOK, Defence.LOADED, Defence.PATCH)


def check(plane: Plane, question: CheckScope) -> tuple[CheckResult, ...]:
    """The result of every check. Raises ``BadInputError`` for files that are none."""
    with plane.assembly() as assembly:
        nova = assembly.conf.compute
        facts = gather(
            question,
            # Each is made when a check asks for it: one that cannot be had leaves the other checks
            # running.
            lambda: assembly.store,
            lambda: assembly.placement,
            lambda: assembly.compute,
            policies=[assembly.policy.name],
            switched_off=_switched_off(assembly.conf),
            drive_aliases=nova.drive_aliases if nova.ghost_checks else None,
            shared_keys=_shared_keys(assembly),
            clock=plane.doors.now,
        )
        return tuple(catalogue.judge(facts))


def checks() -> tuple[Check, ...]:
    """All checks. Asks nobody."""
    return tuple(catalogue.CHECKS)


def sources(texts: Sequence[str]) -> tuple[ConfigSource, ...]:
    """Configurations of services, ``ROLE=FILE`` or ``ROLE@HOST=FILE``.

    A role that is named more than once reads its files together, in that order. Raises
    ``BadInputError``.
    """
    together: dict[tuple[Role, str | None], ConfigSource] = {}
    for text in texts:
        one = _source(text)
        old = together.get((one.role, one.host))
        paths = (*old.paths, *one.paths) if old else one.paths
        together[one.role, one.host] = ConfigSource(one.role, one.host, paths)
    return tuple(together.values())


def _source(text: str) -> ConfigSource:
    where, equals, path = text.partition("=")
    name, at, host = where.partition("@")
    if not equals or not path or name not in list(Role) or (at and name != Role.COMPUTE):
        roles = ", ".join(Role)
        raise BadInputError(
            f"--nova-conf: expected ROLE=FILE with one of {roles}, or compute@HOST=FILE, "
            f"found {text[:200]!r}"
        )
    try:
        return ConfigSource(Role(name), host_name(host) if at else None, (Path(path),))
    except ValueError as error:
        raise BadInputError(f"--nova-conf: {error}") from error


def _switched_off(conf: ConfigOpts) -> Iterator[str]:
    """Our own options that leave a defence out."""
    if not conf.gate.required:
        yield "[gate]required is false"
    missing = [name for name in _DEFENCES if name not in conf.gate.required_defences]
    if missing:
        yield f"[gate]required_defences is without {', '.join(missing)}"
    if not conf.compute.ghost_checks:
        yield "[compute]ghost_checks is false"
    if not conf.detection.bells:
        yield "[detection]bells is false"


def _shared_keys(parts: Parts) -> Iterator[str]:
    """What has no key of its own."""
    conf = parts.conf.erase
    if conf.order_key is None:
        yield "[erase]order_key is not set: the key of certificates signs orders too"
    if conf.ticket_key is None:
        yield "[erase]ticket_key is not set: the key of orders signs tickets too"
    try:
        if conf.order_key is not None and parts.order_key.public == parts.key.public:
            yield "[erase]order_key has the key of certificates in it"
        if conf.ticket_key is not None and parts.ticket_key.public == parts.key.public:
            yield "[erase]ticket_key has the key of certificates in it"
    except BadInputError as error:
        yield str(error)
