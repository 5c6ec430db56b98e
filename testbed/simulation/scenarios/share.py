# SPDX-License-Identifier: Apache-2.0
"""The testbed's experiment ``share``, simulated."""

from sdngcc.experiments import EXPERIMENTS
from sdngcc.testbed.simulation.beds import scenario_of

SCENARIO = scenario_of(EXPERIMENTS["share"])
