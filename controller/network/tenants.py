# SPDX-License-Identifier: Apache-2.0
"""Which machine belongs to which tenant, and what is set for tenants.

A tenant is a name that OVSDB has for the ports of its machines, a project's id under OpenStack.  Its policy (weight,
minimum and maximum for all of its machines together) is kept elsewhere (databases/tenants.py) and handed in here.
"""

import collections
import logging
import math
import re
from typing import Iterable, Mapping, Optional

from sdngcc.controller.network.inventory import VmRecord
from sdngcc.controller.network.topology import Hop
from sdngcc.controller.rates.hierarchy import Tenant

NAME_PATTERN = "^[!-$&-~]{1,64}$"  # without %, which stands for something else in a path
NAME_IN_WORDS = "1 to 64 visible ASCII characters without spaces and %"

LOG = logging.getLogger(__name__)

Port = tuple[int, str]  # datapath id and port name
Policy = Mapping[str, int]  # weight, min and max, rates in bit/s; what is not set is left out


def is_name(text: str) -> bool:
    """Tell whether a text may name a tenant."""
    return re.fullmatch(NAME_PATTERN[1:-1], text) is not None


class Tenants:
    """Tenants of machines, and their policies.

    ``weight`` is that of tenants that have none of their own; None: their machines stand for themselves.
    """

    def __init__(self, weight: Optional[int] = None, counters: Optional["collections.Counter[str]"] = None) -> None:
        self.shares: dict[str, Tenant] = {}  # of tenants with a policy, in bytes/s
        self.policies: Mapping[str, Policy] = {}
        self._weight = weight
        self._counters = collections.Counter() if counters is None else counters
        self._names: dict[Port, str] = {}
        self._refused: dict[Port, str] = {}

    def set_names(self, names: Mapping[Port, str]) -> None:
        """Take the tenants of ports, as OVSDB has them; what is no name is refused, counted and told once."""
        refused = {port: text for port, text in names.items() if not is_name(text)}
        for port, text in refused.items():
            if self._refused.get(port) != text:
                self._counters["tenant_names_refused"] += 1
                LOG.warning("port %s of switch %016x: shim-tenant of %r names no tenant; allowed: %s; it has none",
                            port[1], port[0], text[:80], NAME_IN_WORDS)  # fmt: skip
        self._refused = refused
        found = {port: text for port, text in names.items() if port not in refused}
        if found != self._names:
            self._names = found
            self._compute()

    def set_policies(self, policies: Mapping[str, Policy]) -> None:
        """Take what is set for tenants, by name."""
        if policies != self.policies:
            self.policies = policies
            self._compute()

    def _compute(self) -> None:
        self.shares = {}
        for name in {*self.policies, *(self._names.values() if self._weight else ())}:
            policy = self.policies.get(name, {})
            tenant = Tenant(
                policy.get("weight", self._weight), policy.get("min", 0) / 8, policy.get("max", 0) / 8 or math.inf
            )
            if tenant != Tenant():
                self.shares[name] = tenant

    def name_of(self, vm: VmRecord) -> Optional[str]:
        """Return a machine's tenant; None: it has none."""
        return self._names.get((vm.place[0], vm.name))

    def members(self, vms: Iterable[VmRecord]) -> dict[Hop, str]:
        """Return the tenants of those machines whose tenant has a policy."""
        if not self.shares:
            return {}
        named = ((vm.place, self.name_of(vm)) for vm in vms)
        return {place: name for place, name in named if name is not None and name in self.shares}

    def by_tenant(self, vms: Iterable[VmRecord]) -> dict[str, list[VmRecord]]:
        """Return the machines of each tenant by its name, tenants that only have a policy too."""
        found: dict[str, list[VmRecord]] = {name: [] for name in self.policies}
        for vm in vms:
            name = self.name_of(vm)
            if name is not None:
                found.setdefault(name, []).append(vm)
        return dict(sorted(found.items()))
