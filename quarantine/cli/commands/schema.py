"""``db``: the record's schema."""

from __future__ import annotations

import argparse

from quarantine.cli.base import ShowOne
from quarantine.cli.sources.columns import members_of
from quarantine.cli.sources.source import Members
from quarantine.operations.setup import schema


class DbUpgrade(ShowOne):
    """Bring the record's schema to this release's."""

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        return members_of(schema.upgrade(self.plane))
