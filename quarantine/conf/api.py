"""The HTTP API: who may ask it, and how much at once."""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup(
    "api",
    title="The HTTP API",
    help="""
Read by quarantine.wsgi.api, which a WSGI server (uWSGI, gunicorn, mod_wsgi) imports; the loop and
the commands do not need it. Install nvme-quarantine with the extra 'api'.

With auth_strategy = keystone this file also has [keystone_authtoken], as every service of
OpenStack has it, and [oslo_policy] where the rules are not the built-in ones.
""",
)

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "auth_strategy",
        default="keystone",
        choices=[
            ("keystone", "Tokens of Keystone; roles and project decide, by the policy"),
            ("http_basic", "Names and passwords of a file, where there is no Keystone"),
            ("noauth", "Everybody is an administrator; for a lab"),
        ],
        help="""
How callers show who they are. /, /v1, /v1/openapi.json and /healthcheck are answered to everybody.

When to change: http_basic for a site without Keystone, behind TLS. noauth only in a lab that nobody
else reaches: whoever reaches it may release a held drive.

Related: http_basic_file, http_basic_admins, [keystone_authtoken], [oslo_policy]policy_file.
""",
    ),
    cfg.StrOpt(
        "http_basic_file",
        default="/etc/nvme-quarantine/api.htpasswd",
        help="""
With auth_strategy = http_basic: names and bcrypt digests of passwords, one NAME:DIGEST a line, as
'htpasswd -B -C 10' writes them (costs to 12 are taken). It is read again when it changes. Only its
owner may be able to write it: whoever is in it and in http_basic_admins decides about drives.

When to change: when the file is elsewhere. Only the API's own user may read it.
""",
    ),
    cfg.ListOpt(
        "http_basic_admins",
        default=[],
        help="""
With auth_strategy = http_basic: names that may act (role admin). All others of the file may read
everything and change nothing (role nvme_reader).

When to change: add those who decide about drives; leave monitoring out.
""",
    ),
    cfg.ListOpt(
        "allowed_hosts",
        default=[],
        help="""
Names by which the API and its page may be asked (the header Host, without a port), besides every
address and localhost. Others are refused: a site of somebody else whose name leads to this machine
(DNS rebinding) would act as the operator whose browser opened it. With auth_strategy = keystone and
no name here every name is taken: no such site has a token.

When to change: with http_basic or noauth, to the names in the addresses that people and programs
use, and to those that a proxy passes on as Host. With keystone: to be stricter.

Related: auth_strategy.
""",
    ),
    cfg.BoolOpt(
        "login_form",
        default=True,
        help="""
With auth_strategy = keystone: the web page asks who is unknown for name, password, domain and
project, and gets a token for them from [keystone_authtoken]auth_url.

When to switch off: where a proxy before the page logs people in and sends X-Auth-Token, and where
nobody has a password in Keystone.
""",
    ),
    cfg.IntOpt(
        "max_limit",
        default=1000,
        min=1,
        max=10000,
        help="""
Most entries in one page of a list, of the API and on the web page; without 'limit' a page has 100,
or this where it is less.

When to lower it: when many clients read at once and memory is short. When to raise it: hardly ever;
for everything at once there are the exports, which stream.
""",
    ),
]


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [(GROUP, OPTIONS)]
