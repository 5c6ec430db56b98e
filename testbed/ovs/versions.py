# SPDX-License-Identifier: Apache-2.0
"""Names of the versions of Open vSwitch that ovs-patches/ovs has a series for."""

from __future__ import annotations

from typing import Literal, Tuple, get_args

OvsVersion = Literal["3.1", "3.3", "3.5", "4.0"]
VERSIONS: Tuple[OvsVersion, ...] = get_args(OvsVersion)

# What experiments have unless they ask for another one.
PLAIN: OvsVersion = "3.1"
