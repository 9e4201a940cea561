"""How drives are ordered to be erased."""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup(
    "erase",
    title="Erase orders",
    help="""
Durations are counted on the clock of the one who waits; no two machines' clocks are compared.
""",
)

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "order_key",
        default=None,
        help="""
File with an Ed25519 key (PKCS #8 PEM, readable by the service alone) that signs erase orders, made
by nvme-quarantine key create --output FILE. Hosts need its public half (nvme-quarantine key show
--orders, as controller.jwk), auditors do not: each certificate names it. Without it
[evidence]signing_key signs orders too.

When to set it: before the first host is set up. Whoever has this key can have drives erased, and
writes no certificate; and a change of [evidence]signing_key then needs nothing on any host. When to
change: when it may be known to others; hosts refuse orders of the new one until they have its
public half. See "Keys of their own" in the operator guide for the order of steps.

Related: ticket_key, former_order_keys.
""",
    ),
    cfg.StrOpt(
        "ticket_key",
        default=None,
        help="""
File with an Ed25519 key, as order_key, that signs tickets: what lets a guest start on a drive after
its certificate, and lets its slot go back on offer. Hosts need its public half (nvme-quarantine
key show --tickets, as tickets.jwk beside controller.jwk), auditors do not. Without it the orders'
key signs tickets too.

When to set it: before the first host is set up, together with order_key. Whoever stole the orders'
key then has drives erased and lets no guest start on one, and whoever stole this one has none
erased; so the orders' key itself is refused here, under any name. Later: when
every host runs a release that reads tickets.jwk and has it; one without it refuses this key's
tickets, and its slots wait certified. When not to: while hosts are of a former release. When to
change: as order_key.

Related: order_key, former_ticket_keys.
""",
    ),
    cfg.ListOpt(
        "former_order_keys",
        default=[],
        item_type=cfg.types.String(),
        help="""
Files with the public halves of keys that signed orders before, separated by commas, as
nvme-quarantine key show --orders printed them (a JWK, or a set of them). Orders of theirs that
are out stay good, and key show --orders names them for hosts beside today's key; nothing is
signed with them.

When to set it: for the time of a change of the orders' key, so that no case starts anew. When not
to: where the former key may be known to others; its orders are void at once then, and given anew.
Remove it when no case is open that began before the change.

Related: order_key.
""",
    ),
    cfg.ListOpt(
        "former_ticket_keys",
        default=[],
        item_type=cfg.types.String(),
        help="""
As former_order_keys, for tickets (nvme-quarantine key show --tickets).

When to set it: for the time of a change of the tickets' key, so that drives which are certified and
not yet back on offer need no second erase; also when ticket_key is set for the first time (the
former key is the orders'). When not to: where the former key may be known to others; drives that
are certified and not yet returned are erased again then. Remove it when no slot is certified that
was so before the change.

Related: ticket_key.
""",
    ),
    cfg.StrOpt(
        "policy",
        default="purge",
        help="""
Name of the policy for slots that are enrolled without one. A policy says which methods are run,
how much is read back, and whether Clear may stand in for Purge.

When to change: when your organisation's policy has another name.

Related: policy_file.
""",
    ),
    cfg.StrOpt(
        "policy_file",
        default=None,
        help="""
JSON file with the policy named above. Without a file the built-in policy is used: Purge by Sanitize
(crypto, then block), statistical verification, no downgrade to Clear. Each order and each
certificate holds the policy as it was at that time. A policy of that name that was approved
('nvme-quarantine policy approve') comes before the file, which is without effect from then on:
approve the changed file too.

When to set it: to allow Clear for drives without Sanitize, to have more read back, to serve models
that need longer limits or are known to misbehave (quirks), or to change what a drive's health leads
to. 'nvme-quarantine policy show NAME --model MODEL' shows what it means for a model.
""",
    ),
    cfg.IntOpt(
        "order_seconds",
        default=172800,
        min=60,
        max=2592000,
        help="""
Seconds that an order allows a host from acceptance to report. A host that has not finished by then
reports what it has; the case ends in a hold or comes again. Where it reports nothing either, as
its case dies each time, an operator is alarmed (overdue_after later). The default, two days, is far
above what drives need: it must cover the policy's own limit for one Sanitize (a day by default) for
every method, and the verification.

When to lower it: to hear sooner of a host that never finishes. When to raise it: for full
verification of very large and slow drives.
""",
    ),
    cfg.IntOpt(
        "resend_after",
        default=120,
        min=1,
        max=86400,
        help="""
Seconds without a word from a host about its order, after which the same signed order is sent again.
An order that arrives twice changes nothing on the host. The longer the host says nothing at all,
the longer the pauses get: a tenth of its silence so far, where that is more. Of a host that speaks,
and says nothing of the order, each pause is twice the one before, up to half an hour.

When to raise it: when hosts are often away for long and the log of repeats is a nuisance.
""",
    ),
    cfg.IntOpt(
        "overdue_after",
        default=21600,
        min=60,
        max=2592000,
        help="""
Seconds after which an operator is alarmed, once: about a host that has said nothing for so long, of
its order or at all, and about a slot that has waited so long for something else (a profile, the
remains of a server, a defence of its host). An order that its host names and does not finish is
alarmed about so long after order_seconds. What waited for the service itself is not late: where no
sweep went through for more than half of that time, slots have all of it (order_seconds not) anew
before anybody is alarmed. Nothing else follows; a slot shows its alarm until it is over.

When to lower it: where drives must return soon. When to raise it: where hosts are often switched
off for a night.
""",
    ),
    cfg.IntOpt(
        "max_attempts",
        default=5,
        min=1,
        max=1000,
        help="""
How often one case is ordered anew after a host answered that the drive is in use, or after an order
was overdue. After that the slot is held and a person decides. Sending the same order again is not
counted.

When to raise it: when servers stay shut off on their hosts for long after they lost their drives,
as after an evacuation from a host that is down for days.

Related: retry_in_use_after.
""",
    ),
    cfg.IntOpt(
        "retry_in_use_after",
        default=300,
        min=1,
        max=86400,
        help="""
Seconds before a drive that its host found in use is ordered again. Nothing was sent to the drive.
The usual cause goes away by itself: the remains of a deleted server, which Nova removes when
nova-compute is back.

When to raise it: together with max_attempts, see there.
""",
    ),
]


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [(GROUP, OPTIONS)]
