# SPDX-License-Identifier: Apache-2.0
"""How ports are shared: by tenant, then by machine, then by destination.

An *entry* is a pair of a machine and a destination at one port on its way; the part f of the pair's bytes leaves
there.  The pair wants u of the port, bytes/s of its own rate, and has a floor l.  Water rises to a level in the port
for its tenants, in each tenant's part for its machines, in each machine's part for its pairs (filling.py):

    port     T_t(y) = max(sum of f * l, min(sum of f * u, W_t * y))       sum over tenants = c
    tenant   T_i(x) = max(sum of f * l, min(sum of f * u, w_i * x))       sum over its machines = T_t
    machine  r_e(z) = max(l, min(u, z))                                   sum over its pairs of f * r_e = T_i

A machine whose tenant has no weight stands for itself: W_t = w_i.
"""

from typing import NamedTuple

import numpy as np

from sdngcc.controller import native
from sdngcc.controller.rates.paths.filling import Floats, Ints, grants, runs, sums


class Members(NamedTuple):
    """Who shares: weights of machines and of tenants, and which tenant (-1: none with a weight) a machine is of."""

    weights: Floats  # by machine
    tenants: Ints  # by machine
    tenant_weights: Floats  # by tenant


class Sharing:
    """The shares of entries; those of a port stand together, in them those of a tenant, in these those of a machine."""

    def __init__(self, members: Members, ports: Ints, machines: Ints, parts: Floats) -> None:
        """Take entries in the order of order()."""
        tenants = members.tenants[machines]
        count = len(members.tenant_weights)
        groups = np.where(tenants >= 0, tenants, count + machines)
        every_machine = runs(ports, groups, machines)
        every_group, every_port = runs(ports, groups), runs(ports)
        self.parts = parts
        self.machines = every_machine  # where each machine's entries begin
        self.ports = every_port  # where each port's entries begin
        self._groups = np.searchsorted(every_machine, every_group)  # where each tenant's machines begin
        self._port_groups = np.searchsorted(every_group, every_port)  # where each port's tenants begin
        self._weights = members.weights[machines[every_machine]]
        self.weights = sums(self._weights, np.searchsorted(every_machine, every_port))  # of a port's machines
        self._alone = not bool((tenants >= 0).any())
        both = np.concatenate((members.tenant_weights, members.weights))
        self._group_weights = both[groups[every_group]]
        self.runs = native.Runs(
            self.machines, self._groups, self._port_groups, self._weights, self._group_weights, self._alone
        )

    @staticmethod
    def order(members: Members, ports: Ints, machines: Ints) -> Ints:
        """Return the order in which entries must stand."""
        tenants = members.tenants[machines]
        groups = np.where(tenants >= 0, tenants, len(members.tenant_weights) + machines)
        span = len(members.tenant_weights) + len(members.weights) + 1
        return np.argsort((ports * span + groups) * span + machines, kind="stable")

    def divide(self, lows: Floats, wants: Floats, capacities: Floats) -> Floats:
        """Return the rates, bytes/s, that ports grant entries, each as if it alone wanted more than it does.

        Floors and wants are rates by entry, wants no less; capacities are by port, bytes/s.
        """
        low, high = self.parts * lows, self.parts * wants
        machine_low, machine_high = sums(low, self.machines), sums(high, self.machines)
        given = grants(
            self._group_weights,
            sums(machine_low, self._groups),
            sums(machine_high, self._groups),
            self._port_groups,
            capacities,
        )
        if not self._alone:
            given = grants(self._weights, machine_low, machine_high, self._groups, given)
        return grants(self.parts, low, high, self.machines, given) / self.parts
