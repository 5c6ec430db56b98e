# SPDX-License-Identifier: Apache-2.0
"""What the reader of Neutron's API (neutron.py) is to ask, where and how often."""

import json
from typing import NamedTuple, Optional

from sdngcc.controller.settings import Settings

MODULE = "sdngcc.controller.databases.neutron"
ROUND_S = 60


class Orders(NamedTuple):
    """A cloud of a file with clouds, or an endpoint without authentication."""

    name: str  # of the database, for people
    cloud: str
    clouds_file: str
    endpoint: str
    period_s: int
    nova: bool = False  # ask Nova for the names of servers, too
    round_s: int = ROUND_S  # for all that is asked for together

    def dump(self) -> bytes:
        """Return it as a line."""
        return json.dumps(self).encode() + b"\n"

    @classmethod
    def load(cls, line: bytes) -> "Orders":
        """Return what dump() made."""
        return cls(*json.loads(line))


def orders_of(settings: Settings) -> Optional[Orders]:
    """Return the orders that settings mean, None when Neutron is not to be asked."""
    if not settings.neutron_cloud and not settings.neutron_endpoint:
        return None
    name = f"cloud {settings.neutron_cloud}" if settings.neutron_cloud else settings.neutron_endpoint
    return Orders(
        name, settings.neutron_cloud, str(settings.neutron_clouds_file), settings.neutron_endpoint,
        settings.neutron_period_s, settings.nova_names,
    )  # fmt: skip
