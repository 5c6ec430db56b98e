# SPDX-License-Identifier: Apache-2.0
"""Options of the extensions, in group ``[sdngcc]`` of the agents' configuration."""

from __future__ import annotations

from typing import Any, List, Tuple

from oslo_config import cfg

GROUP = "sdngcc"

OPTIONS = [
    cfg.IntOpt("weight_unit_kbps", default=100_000, min=0,
               help="The guarantee, in kbit/s, that weight 1 stands for. A port with a minimum bandwidth rule gets its "
                    "guarantee divided by this as its weight, rounded, at least 1; a port without one has weight 1. "
                    "0: no weights are written."),
]


def register() -> None:
    """Make the options known to oslo.config; a second time does nothing. Raises ValueError for values out of range."""
    cfg.CONF.register_opts(OPTIONS, group=GROUP)
    weight_unit_kbps()


def weight_unit_kbps() -> int:
    """Return the guarantee in kbit/s that weight 1 stands for; 0: no weights."""
    return int(cfg.CONF[GROUP].weight_unit_kbps)


def list_opts() -> List[Tuple[str, List[Any]]]:
    """Return the options by group, for oslo-config-generator."""
    return [(GROUP, OPTIONS)]
