"""What the ``openstack`` program loads at each start: so it loads nothing itself."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from quarantine.osc.source import ApiSource

API_NAME: Final = "nvme"
API_VERSION_OPTION: Final = "os_nvme_api_version"
DEFAULT_API_VERSION: Final = "1"
API_VERSIONS: Final = (DEFAULT_API_VERSION,)


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """What may stand before a command of ours."""
    parser.add_argument(
        "--os-nvme-api-version",
        metavar="<nvme-api-version>",
        default=os.environ.get("OS_NVME_API_VERSION", DEFAULT_API_VERSION),
        help=f"Version of the NVMe quarantine API, default={DEFAULT_API_VERSION} "
        "(Env: OS_NVME_API_VERSION)",
    )
    parser.add_argument(
        "--os-nvme-endpoint",
        metavar="<nvme-endpoint>",
        default=os.environ.get("OS_NVME_ENDPOINT"),
        help="URL of the NVMe quarantine API, default=as the catalogue has it "
        "(Env: OS_NVME_ENDPOINT)",
    )
    return parser


def make_client(instance: Any) -> ApiSource:
    """The API of the cloud that the program talks to, for its commands."""
    from quarantine.osc.client import Api
    from quarantine.osc.source import ApiSource

    options = instance.get_configuration()
    endpoint = options.get("nvme_endpoint") or options.get("nvme_quarantine_endpoint_override")
    return ApiSource(
        Api(
            instance.session,
            endpoint=endpoint,
            region=instance.region_name or None,
            interface=instance.interface or None,
        )
    )
