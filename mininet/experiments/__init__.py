# SPDX-License-Identifier: Apache-2.0
"""Experiments, one module each, by name."""

from typing import Dict

from sdngcc.experiments import constants, delay, ecn_mix, port_share, rwnd, scale, share, unfair
from sdngcc.experiments.base import Experiment

EXPERIMENTS: Dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT for module in (
        unfair, share, scale, delay, constants, ecn_mix, rwnd, port_share)}
