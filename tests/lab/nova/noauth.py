"""Paste filter of nova-api in place of Keystone: whoever has a token is the admin it names.

A token is ``USER`` or ``USER:PROJECT``; without a project, the user's name is the project's too.

Nova 34 has no such filter of its own any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import webob
import webob.dec
from nova import context

ROLES = ["admin", "member", "reader", "manager", "service"]


def filter_factory(_global_conf: dict[str, str], **_local: str) -> Callable[[Any], Any]:
    """For Paste Deploy."""

    def wrap(application: Any) -> Any:
        @webob.dec.wsgify  # type: ignore[untyped-decorator]
        def middleware(request: Any) -> Any:
            token = request.headers.get("X-Auth-Token")
            if not token:
                return webob.Response(status=401)
            user, _, project = token.partition(":")
            request.environ["nova.context"] = context.RequestContext(
                user,
                project or user,
                is_admin=True,
                roles=ROLES,
                auth_token=token,
                service_catalog=[],
            )
            return application

        return middleware

    return wrap
