# SPDX-License-Identifier: Apache-2.0
"""Scenarios, one module each, by name."""

from typing import Dict

from sdngcc.testbed.simulation.scenario import Scenario
from sdngcc.testbed.simulation.scenarios import (
    converge,
    ecmp,
    eyeq_memcached,
    eyeq_shuffle,
    leaf_spine,
    scale,
    scc_clos,
    seawall_racks,
    share,
    stability,
    tournament_size,
    udp_flood,
)

SCENARIOS: Dict[str, Scenario] = {
    module.SCENARIO.name: module.SCENARIO for module in (
        share, scale, udp_flood, converge, leaf_spine, stability, ecmp, eyeq_shuffle, eyeq_memcached, seawall_racks,
        tournament_size, scc_clos)}
