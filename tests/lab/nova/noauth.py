"""Paste filter of nova-api in place of Keystone: whoever has a token is the admin it names.

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
            name = request.headers.get("X-Auth-Token")
            if not name:
                return webob.Response(status=401)
            request.environ["nova.context"] = context.RequestContext(
                name, name, is_admin=True, roles=ROLES, auth_token=name, service_catalog=[]
            )
            return application

        return middleware

    return wrap
