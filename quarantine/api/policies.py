"""Who may do what: rules of oslo.policy, in code. ``docs/api.md`` has them as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from oslo_config import cfg
from oslo_context.context import RequestContext
from oslo_policy import policy

ADMIN: Final = "rule:nvme_admin"
READER: Final = "rule:nvme_reader"
SERVER_READER: Final = "rule:nvme_server_reader"
AS_HOLD_AND_RELEASE: Final = (
    "rule:nvme_quarantine:slots:hold and rule:nvme_quarantine:slots:release"
)
"""Whoever may not end a hold may not end it by another word: erased again, or a campaign."""
AS_SLOTS_HISTORY: Final = "rule:nvme_quarantine:slots:history"
"""The same lines, of all slots."""

PREFIX: Final = "nvme_quarantine"

_SCOPES: Final = ["system", "project"]
"""Both: operators' tokens are of a project where a cloud does not use the scope of the system."""

PERSONAS: Final = (
    policy.RuleDefault(
        "nvme_admin",
        "role:admin",
        description="Decides about drives: holds, releases and retires them, approves profiles.",
        scope_types=_SCOPES,
    ),
    policy.RuleDefault(
        "nvme_reader",
        "rule:nvme_admin or role:nvme_reader or (role:reader and system_scope:all)",
        description="Sees everything and changes nothing, for monitoring and audits.",
        scope_types=_SCOPES,
    ),
    policy.RuleDefault(
        "nvme_server_reader",
        "rule:nvme_reader or (role:reader and project_id:%(project_id)s)",
        description="Sees its own project's servers: the state of each one's drives and digests "
        "of their certificates. Nothing of another project.",
        scope_types=_SCOPES,
    ),
)


def rule(name: str) -> str:
    """The full name of an operation's rule."""
    return f"{PREFIX}:{name}"


class Authority:
    """The rules as they stand; ``[oslo_policy]policy_file`` is read again when it changes."""

    def __init__(self, conf: cfg.ConfigOpts, rules: Mapping[str, str]) -> None:
        """``rules``: by the name of each operation's rule, its default."""
        self._enforcer = policy.Enforcer(conf)
        # The defaults are of this release. A warning about each would be logged by every process.
        self._enforcer.suppress_default_change_warnings = True
        self._enforcer.register_defaults(defaults(rules))
        # At the start: what is wrong with a policy file shows before the first request.
        self._enforcer.load_rules()

    def allows(self, context: RequestContext, name: str, target: Mapping[str, Any]) -> bool:
        """Whether a caller may do it to that."""
        found = self._enforcer.authorize(rule(name), dict(target), context, do_raise=False)
        return bool(found)


def defaults(rules: Mapping[str, str]) -> list[policy.RuleDefault]:
    """Personas, and the rule of each operation."""
    own = [
        policy.RuleDefault(rule(name), check, scope_types=_SCOPES)
        for name, check in sorted(rules.items())
    ]
    return [*PERSONAS, *own]
