"""What hosts say, or do not say, of themselves and of their defences."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Final

from eraser.protocol.ticket import Defence, DefenceStanding
from quarantine.record.words.clock import CLOCKS_APART
from quarantine.record.words.facts import HostRecord
from quarantine.upgrade.checks.slots import enrolled
from quarantine.upgrade.facts import Facts
from quarantine.upgrade.finding import Check, Finding, FindingLevel, unknown

_LOCKS: Final = (Defence.HOOK, Defence.LOADED, Defence.PATCH)
_HYGIENE: Final = (Defence.RULES, Defence.WATCHER)
PATCH_VERSION: Final = 7
"""Of ``nova_patch``, the one that this release's promises are made with (docs/nova-patch.md)."""

_SIGN: Final = re.compile(r"nvme-quarantine-patch:(?P<version>\d+):(?P<nova>[^\s,]+)")
"""What a patched nova-compute shows and its host repeats (docs/nova-patch.md, Is it there?)."""

_GOOD: Final = frozenset({DefenceStanding.PRESENT, DefenceStanding.NOT_APPLICABLE})


def _own(facts: Facts) -> Iterator[Finding]:
    for option in facts.switched_off:
        yield Finding("nvme-quarantine.conf", option)


def _shared_keys(facts: Facts) -> Iterator[Finding]:
    for what in facts.shared_keys:
        yield Finding("nvme-quarantine.conf", what)


def _unregistered(facts: Facts) -> Iterator[Finding]:
    known = {host.name for host in facts.hosts} | facts.registered
    for host in sorted({drive.slot.host for drive in enrolled(facts)} - known):
        yield Finding(host, "has enrolled slots and is not registered")
    # A name that is misspelt has nothing wrong with it.
    for host in sorted(facts.asked - known - set(facts.host_names)):
        yield unknown(host, "asked for by --host; no host, slot or configuration has that name")


def _silent(facts: Facts) -> Iterator[Finding]:
    for host, seconds in sorted((facts.silent or {}).items()):
        if math.isinf(seconds):
            yield Finding(host, "registered, and was never heard")
        elif seconds > facts.silent_after:
            yield Finding(host, f"not heard for {seconds:.0f} s")
        elif -seconds > CLOCKS_APART.total_seconds():
            # Noted before our clock was set back; one that speaks is noted anew within a minute.
            found = f"last heard {-seconds:.0f} s after now: our clock was set back since"
            yield Finding(host, f"{found}, and nothing was heard")


def _defences(facts: Facts, wanted: tuple[Defence, ...]) -> Iterator[Finding]:
    for host in facts.hosts:
        gate = host.hello.gate if host.hello else None
        if gate is None:
            yield unknown(host.name, f"the host says nothing of its {_names(wanted)}")
            continue
        seen = {one.defence: one for one in gate.defences}
        for defence in wanted:
            found = seen.get(defence)
            if found is None or found.standing is DefenceStanding.UNKNOWN:
                detail = f": {found.detail}" if found else ""
                yield unknown(host.name, f"{defence}: the host could not tell{detail}")
            elif found.standing not in _GOOD:
                yield Finding(host.name, f"{defence} is {found.standing}: {found.detail}")


def _old_patches(facts: Facts) -> Iterator[Finding]:
    for host in facts.hosts:
        for seen in host.hello.gate.defences if host.hello and host.hello.gate else ():
            if seen.defence is not Defence.PATCH or seen.standing is not DefenceStanding.PRESENT:
                continue
            signs = list(_SIGN.finditer(seen.detail))
            if not signs:
                yield unknown(host.name, f"the host does not say which patch: {seen.detail}")
            for sign in signs:
                if int(sign["version"]) < PATCH_VERSION:
                    found = f"version {sign['version']} in nova-compute of Nova {sign['nova']}"
                    yield Finding(host.name, f"{found}, expected {PATCH_VERSION}")


def _unrecorded(facts: Facts) -> Iterator[Finding]:
    for host in facts.hosts:
        for words in _guests(host):
            yield Finding(host.name, words)


def _guests(host: HostRecord) -> Iterator[str]:
    gate = host.hello.gate if host.hello else None
    for domain in gate.domains if gate else ():
        if not domain.recorded:
            state = "running" if domain.running else "defined"
            places = ", ".join(domain.addresses)
            yield f"domain {domain.name} ({domain.uuid}) is {state} with {places}"


def _names(defences: tuple[Defence, ...]) -> str:
    return ", ".join(str(defence) for defence in defences)


HOST_CHECKS: Final = (
    Check(
        "own-settings",
        "the control plane asks for every defence that it has",
        FindingLevel.WARNING,
        (7, 14, 23),
        "Drives are offered on hosts without the gate, or orders are given while a guest that Nova "
        "has forgotten may still run.",
        "Leave these options at their defaults once every host has the gate.",
        _own,
    ),
    Check(
        "keys-apart",
        "orders, tickets and certificates are signed by keys of their own",
        FindingLevel.WARNING,
        (),
        "Who stole the one key can have drives erased, lets a guest start on a drive that was not "
        "erased, and writes certificates; and a change of it has to reach every host.",
        "nvme-quarantine key create --output FILE for each, then operators.md, 'Keys of their own "
        "for orders and tickets': first the options, then the "
        "hosts, then restart the service.",
        _shared_keys,
    ),
    Check(
        "host-registered",
        "every host with enrolled slots is registered",
        FindingLevel.FAILURE,
        (),
        "Nothing that the host says is believed, so nothing on it is ever erased.",
        "nvme-eraser keygen on the host, then nvme-quarantine host register FILE.",
        _unregistered,
        of_hosts=True,
    ),
    Check(
        "host-silent",
        "registered hosts speak",
        FindingLevel.WARNING,
        (7, 8),
        "Orders wait, and what changed on the host since then is not known.",
        "See the nvme-eraser worker on the host, and its way to the broker.",
        _silent,
        of_hosts=True,
    ),
    Check(
        "host-defences",
        "hosts have the gate, and nova-compute the patch",
        FindingLevel.FAILURE,
        (1, 2, 3, 4, 14, 23),
        "Without the hook a guest starts on whatever drive is in the slot; without the patch a "
        "provider that is made anew is on offer at once.",
        "nvme-eraser host-setup, reload libvirtd; python3 -m nova_patch install, restart "
        "nova-compute (docs/operators.md).",
        lambda facts: _defences(facts, _LOCKS),
        of_hosts=True,
    ),
    Check(
        "host-patch-version",
        "nova-compute has the patch of this release",
        FindingLevel.WARNING,
        (27, 28),
        "Before version 7 a drive that a failed migration left behind is erased without end, and "
        "never sold. Before version 6 a reverted migration is seen late. Before version 5 "
        "Placement offers what nobody can claim where device_spec names functions of a drive in "
        "custody. Before version 4 Nova un-reserves a drive when it rewrites its record. "
        "Before version 3 a server that moves got whatever drive nova-compute called free: "
        "resized on its own host a dirty one, which only the gate stops; elsewhere the move "
        "fails. Before version 2 a held drive that is absent stops its host.",
        "python3 -m nova_patch install, restart nova-compute (docs/nova-patch.md).",
        _old_patches,
        of_hosts=True,
    ),
    Check(
        "host-rules",
        "hosts keep their hands off tenants' drives and watch the slots",
        FindingLevel.WARNING,
        (9, 14, 23),
        "Without the rules the host looks into what a tenant left, and may assemble it; without "
        "the watcher a swapped drive is noticed late.",
        "nvme-eraser host-setup; start nvme-eraser watcher.",
        lambda facts: _defences(facts, _HYGIENE),
        of_hosts=True,
    ),
    Check(
        "guests-recorded",
        "the gate knows every guest that has a drive",
        FindingLevel.WARNING,
        (),
        "With the hook in place such a guest is refused at its next start, and the drive may be "
        "used past the gate.",
        "nvme-eraser gate adopt on the host, before the hook is installed.",
        _unrecorded,
        of_hosts=True,
    ),
)
