# SPDX-License-Identifier: Apache-2.0
"""Experiments, one module each, by name."""

from typing import Dict

from sdngcc.experiments import (
    burst_latency,
    churn,
    constants,
    converge,
    delay,
    divisions,
    ecn_mix,
    failsafe,
    innocent,
    interference,
    laws,
    many_dsts,
    many_flows,
    memcached,
    mice,
    mixed,
    port_share,
    rwnd,
    scale,
    share,
    shuffle,
    spare,
    udp_flood,
    unfair,
    web,
    weights,
)
from sdngcc.experiments.base import Experiment

EXPERIMENTS: Dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT for module in (
        unfair,
        share,
        scale,
        delay,
        constants,
        mice,
        burst_latency,
        spare,
        converge,
        shuffle,
        memcached,
        ecn_mix,
        rwnd,
        port_share,
        udp_flood,
        many_flows,
        many_dsts,
        weights,
        web,
        interference,
        divisions,
        laws,
        innocent,
        churn,
        mixed,
        failsafe,
    )}
