# SPDX-License-Identifier: Apache-2.0
"""Which machine belongs to which tenant, and what is set for tenants.

A tenant is a name that OVSDB has for the ports of its machines, a project's id under OpenStack; where OVSDB says
nothing, that of a database of the cloud (directory.py) counts.  Its policy (weight, minimum and maximum for all of its
machines together) is kept elsewhere (databases/tenants.py) and handed in here.
"""

import collections
import logging
import math
import re
from typing import Iterable, Mapping, Optional

from sdngcc.controller.network.by_port import BySwitch, Port, by_switch, moved
from sdngcc.controller.network.directory import Directory
from sdngcc.controller.network.inventory import VmRecord
from sdngcc.controller.network.topology import Hop
from sdngcc.controller.rates.hierarchy import Tenant

NAME_PATTERN = "^[!-$&-~]{1,64}$"  # without %, which stands for something else in a path
NAME_IN_WORDS = "1 to 64 visible ASCII characters without spaces and %"

LOG = logging.getLogger(__name__)

Policy = Mapping[str, int]  # weight, min and max, rates in bit/s; what is not set is left out


def is_name(text: str) -> bool:
    """Tell whether a text may name a tenant."""
    return re.fullmatch(NAME_PATTERN[1:-1], text) is not None


class Tenants:
    """Tenants of machines, and their policies.

    ``weight`` is that of tenants that have none of their own; None: their machines stand for themselves.
    """

    def __init__(
        self,
        weight: Optional[int] = None,
        counters: Optional["collections.Counter[str]"] = None,
        directory: Optional[Directory] = None,
    ) -> None:
        self.shares: dict[str, Tenant] = {}  # of tenants with a policy, in bytes/s
        self.policies: Mapping[str, Policy] = {}
        self._stored: Mapping[str, Policy] = {}  # as they are stored, under any name
        self._weight = weight
        self._counters = collections.Counter() if counters is None else counters
        self._texts: BySwitch[str] = {}  # as OVSDB has them
        self._names: dict[int, dict[str, str]] = {}  # those of them that name a tenant
        self._used: collections.Counter[str] = collections.Counter()  # ports of each
        self._directory = directory or Directory()

    def set_names(self, names: Mapping[Port, str]) -> None:
        """Take the tenants of ports, as OVSDB has them; what is no name is refused, counted and told once."""
        before, self._texts = self._texts, by_switch(names)
        changed = moved(before, self._texts)
        for dpid in changed:
            self._take(dpid, before.get(dpid, {}), self._texts.get(dpid, {}))
        if changed and self._weight:
            self._compute()

    def _take(self, dpid: int, before: Mapping[str, str], texts: Mapping[str, str]) -> None:
        """Take the tenants of a switch's ports."""
        for port, text in texts.items():
            if not is_name(text) and before.get(port) != text:
                self._counters["tenant_names_refused"] += 1
                LOG.warning("port %s of switch %016x: shim-tenant of %r names no tenant; allowed: %s; it has none",
                            port, dpid, text[:80], NAME_IN_WORDS)  # fmt: skip
        for name in self._names.pop(dpid, {}).values():
            self._used[name] -= 1
            if not self._used[name]:
                del self._used[name]
        found = {port: text for port, text in texts.items() if is_name(text)}
        if found:
            self._names[dpid] = found
            self._used.update(found.values())

    def set_policies(self, policies: Mapping[str, Policy]) -> None:
        """Take what is set for tenants; what is under no name of a tenant is refused, counted and told once."""
        if policies == self._stored:
            return
        before, self._stored = self._stored, policies
        for name in policies.keys() - before.keys():
            if not is_name(name):
                self._counters["tenant_names_refused"] += 1
                LOG.warning("policy is stored for %r, which names no tenant; allowed: %s; it is left out",
                            name[:80], NAME_IN_WORDS)  # fmt: skip
        self.policies = {name: policy for name, policy in policies.items() if is_name(name)}
        self._compute()

    def directory_changed(self) -> None:
        """Take note that databases of the cloud say something else of ports."""
        if self._weight:
            self._add_shares(self._directory.tenants.keys() - self.shares.keys())

    def _compute(self) -> None:
        self.shares = {}
        named = (*self._used, *self._directory.tenants) if self._weight else ()
        self._add_shares({*self.policies, *named})

    def _add_shares(self, names: Iterable[str]) -> None:
        for name in names:
            policy = self.policies.get(name, {})
            tenant = Tenant(
                policy.get("weight", self._weight), policy.get("min", 0) / 8, policy.get("max", 0) / 8 or math.inf
            )
            if tenant != Tenant():
                self.shares[name] = tenant

    def name_of(self, vm: VmRecord) -> Optional[str]:
        """Return a machine's tenant; None: it has none. One that OVSDB names wrongly has none either."""
        dpid = vm.place[0]
        if vm.name in self._texts.get(dpid, {}):
            return self._names.get(dpid, {}).get(vm.name)
        known = self._directory.find(vm.iface_id)
        return known.tenant or None if known else None

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
