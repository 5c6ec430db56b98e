# SPDX-License-Identifier: Apache-2.0
"""Experiments, one module each, by name."""

from typing import Dict

from sdngcc.experiments.base import Experiment
from sdngcc.experiments.eyeq import burst_latency, converge, memcached, shuffle, spare
from sdngcc.experiments.hygenicc import admission, echo
from sdngcc.experiments.others import acdc, elasticswitch, today
from sdngcc.experiments.own import (
    beside,
    churn,
    failsafe,
    lost_echoes,
    maxmin,
    mixed,
    on_off,
    parking_lot,
    takeover,
    tenants,
    tournament,
    ways,
)
from sdngcc.experiments.scc import divisions, divisions_load, interference
from sdngcc.experiments.sdn_gcc import competitors, constants, delay, innocent, laws, mice, scale, share, unfair
from sdngcc.experiments.seawall import classes, line_rate, many_dsts, many_flows, schedule, udp_flood, web, weights
from sdngcc.experiments.vcc import ack_gaps, ecn_mix, ecn_red, port_share, rwnd, send_window

EXPERIMENTS: Dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT for module in (
        unfair,
        share,
        scale,
        delay,
        competitors,
        constants,
        mice,
        echo,
        admission,
        burst_latency,
        spare,
        converge,
        shuffle,
        memcached,
        ecn_mix,
        ecn_red,
        ack_gaps,
        send_window,
        rwnd,
        port_share,
        udp_flood,
        many_flows,
        many_dsts,
        classes,
        weights,
        schedule,
        web,
        line_rate,
        interference,
        divisions,
        divisions_load,
        laws,
        parking_lot,
        maxmin,
        innocent,
        ways,
        churn,
        mixed,
        failsafe,
        lost_echoes,
        takeover,
        tenants,
        on_off,
        tournament,
        today,
        elasticswitch,
        beside,
        acdc,
    )}
