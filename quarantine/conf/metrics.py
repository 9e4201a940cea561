"""Where Prometheus reads."""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup(
    "metrics",
    title="Metrics for Prometheus",
    help="""
Needs the extra 'metrics' (prometheus-client). Alert rules and a dashboard are in docs/monitoring;
docs/runbook.md says what to do at each alert.
""",
)

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "listen",
        default="",
        help="""
ADDRESS:PORT on which nvme-quarantine run serves /metrics, as in 127.0.0.1:9736 or [::1]:9736. Where
it is empty none are served. For each scrape the database counts; for two seconds the answer stays
the same, whoever asks.

When to set it: wherever a Prometheus watches. It is plain HTTP and asks nobody who he is: models of
drives, counts and durations are in it, and no slot, serial number, server or host. Listen on
loopback or on a network for management.

When not: where people would reach it whom these numbers do not concern.
""",
    ),
]


def address(text: str) -> tuple[str, int] | None:
    """``[metrics]listen``; None for none. Raises ``ValueError``."""
    if not text:
        return None
    host, colon, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    number = int(port) if port.isdecimal() and len(port) < 6 else 0
    # Brackets belong around an IPv6 address, and around nothing else.
    written = f"[{bare}]" if ":" in bare else bare
    if not (colon and bare and 0 < number < 65536) or host != written:
        raise ValueError(
            f"expected [metrics]listen as ADDRESS:PORT, as in 127.0.0.1:9736, found {text[:200]!r}"
        )
    return bare, number


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [(GROUP, OPTIONS)]
