"""An honest order, report and record, for tests to spoil in one place each."""

from __future__ import annotations

import base64
import struct
from datetime import UTC, datetime

from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.order import EraseOrder
from eraser.protocol.policy import Label, Method, Policy, VerificationMode
from eraser.protocol.profile import NamespaceLayout, Profile
from eraser.protocol.report import (
    CommandRecord,
    ControllerFacts,
    EraseReport,
    HealthRecord,
    MethodRecord,
    NamespaceId,
    NamespaceVerification,
    Outcome,
    Verdict,
    VerificationRecord,
)
from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.states import Custody, State

SLOT = Slot("cmp1", "0000:01:00.0")
IDENTITY = ControllerIdentity(
    0x8086, 0x0A54, 0x8086, 0x4702, "PHLJ0000001", "INTEL SSDPE2KX010T8", "nqn.2014.08.org:PHLJ1"
)
NAMESPACE = NamespaceLayout(nsid=1, blocks=2_000_000, block_bytes=512, lba_format=0)
PROFILE = Profile("p4510-1t", 0x8086, 0x0A54, IDENTITY.model, ("VDV10131",), (NAMESPACE,))
POLICY = Policy()
ORDER = EraseOrder(
    order_id="order-0000000001",
    slot=SLOT,
    identity=IDENTITY,
    profile=PROFILE,
    policy=POLICY,
    generation=3,
    nonce="nonce-00000000001",
    incarnation="incarnation-00001",
    seconds_allowed=86400,
)
BLOCKS = 250_000
SAMPLED = 69_075
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def log81(
    status: int = 1, cdw10: int = 4, *, erased: bool = True, purged: bool = False, size: int = 512
) -> str:
    """Log page 81h as a drive lays it out, in Base64."""
    sstat = status | 0x100 * erased | 0x800 * purged
    head = struct.pack("<HHI", 0xFFFF, sstat, cdw10)
    return base64.b64encode((head + b"\xff" * 24).ljust(size, b"\0")[:size]).decode()


def command(
    opcode: int, cdw10: int, status: int | None = 0, nsid: int | None = None
) -> CommandRecord:
    """One command as the host records it. A Format names a namespace, a Sanitize none."""
    of = (1 if opcode == 0x80 else 0) if nsid is None else nsid
    argv = ("nvme", "admin-passthru", "/dev/nvme0", f"--opcode={opcode:#x}", f"--cdw10={cdw10:#x}")
    return CommandRecord(argv, opcode, of, cdw10, status, 0, "", "2026-11-20T11:00:00Z", 0.01)


def method(kind: Method, cdw10: int, log_after: str, second: int = 5) -> MethodRecord:
    """One method that went well."""
    return MethodRecord(
        method=kind,
        cdw10=cdw10,
        nsid=0 if kind.is_sanitize else 1,
        attempts=1,
        adopted=False,
        log_before=log81(0, 0, erased=False) if kind.is_sanitize else "",
        log_after=log_after,
        changed=kind.is_sanitize,
        verdict=Verdict.ERASED,
        reason="",
        seconds=4.2,
        ended_at=f"2026-11-20T11:00:{second:02}Z",
    )


CRYPTO = method(Method.SANITIZE_CRYPTO, 4, log81(1, 4))
BLOCK = method(Method.SANITIZE_BLOCK, 2, log81(1, 2), 10)
FORMAT = method(Method.FORMAT_USER_DATA, 0x200, "")

FACTS = ControllerFacts(
    firmware="VDV10131",
    nvme_version=0x00010300,
    oacs=0x1E,
    oncs=0x5F,
    fna=0x4,
    sanicap=0x3,
    total_bytes=NAMESPACE.size,
    unallocated_bytes=0,
    namespaces=(NAMESPACE,),
    dlfeat=(1,),
    ids=(NamespaceId(1, "0123456789abcdef0123456789abcdef", "fedcba9876543210"),),
)
COUNTS = NamespaceVerification(
    nsid=1,
    blocks=BLOCKS,
    read=SAMPLED,
    zeros=SAMPLED,
    ones=0,
    pattern=0,
    random=0,
    structured=0,
    canaries=0,
    unchanged=0,
    unreadable=0,
    expected="zeros",
    reread=5000,
    uniform="00" * 16,
)
VERIFICATION = VerificationRecord(
    asked=VerificationMode.STATISTICAL,
    done=VerificationMode.STATISTICAL,
    seed="5eed" * 8,
    confidence=0.999,
    residual=0.0001,
    sampled=SAMPLED,
    canaries_planted=1024,
    canaries_checked=1024,
    fingerprints_taken=77,
    fingerprints_checked=77,
    expected="zeros",
    namespaces=(COUNTS,),
    missing_probes=(),
    sentence="",
    seconds=12.5,
    bytes_read=SAMPLED * 4096,
    finished_at="2026-11-20T11:00:30Z",
)
HEALTH = HealthRecord(0, 100, 10, 3, 0, 0, 123456, 7890, 12, 345, 310)

REPORT = EraseReport(
    order_id=ORDER.order_id,
    slot=SLOT,
    identity=IDENTITY,
    generation=ORDER.generation,
    nonce=ORDER.nonce,
    incarnation=ORDER.incarnation,
    outcome=Outcome.COMPLETED,
    verdict=Verdict.ERASED,
    fit=True,
    reasons=(),
    policy=POLICY.name,
    profile=PROFILE.name,
    asked=Label.PURGE,
    achieved=Label.PURGE,
    downgraded=False,
    facts_before=FACTS,
    facts_after=FACTS,
    profile_differences=(),
    commands=(command(0x84, 4), command(0x84, 2)),
    methods=(CRYPTO, BLOCK),
    verification=VERIFICATION,
    health=HEALTH,
    resumed=0,
    started_at="2026-11-20T11:00:00Z",
    finished_at="2026-11-20T11:01:00Z",
    seconds={"erase": 8.4, "verify": 12.5},
    tools={"nvme-cli": "2.4", "kernel": "6.1.0", "eraser": "0.1.0"},
)
RECORD = SlotRecord(
    id=1,
    slot=SLOT,
    provider="11111111-1111-4111-8111-111111111111",
    resource_class="CUSTOM_NVME",
    state=State.VERIFYING,
    generation=ORDER.generation,
    revision=9,
    reason="",
    profile=PROFILE.name,
    policy=POLICY.name,
    identity=IDENTITY,
    consumer="22222222-2222-4222-8222-222222222222",
    custody="33333333-3333-4333-8333-333333333333",
    custody_stage=Custody.HELD,
    order_id=ORDER.order_id,
    nonce=ORDER.nonce,
    order_token=None,
    ordered_at=NOW,
    heard_at=NOW,
    attempts=1,
    step=None,
    fraction=0.0,
    detail="",
    certificate=None,
    ticket_token=None,
    ticket_incarnation=None,
    ticket_at=None,
    ticket_ready=False,
    alarm="",
    provider_generation=5,
    offered_as=None,
    read_at=NOW,
    entered_at=NOW,
    created_at=NOW,
)
