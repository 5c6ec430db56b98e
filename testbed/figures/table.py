# SPDX-License-Identifier: Apache-2.0
"""Which experiment draws what; the papers' values that are marked stand in papers.py."""

from __future__ import annotations

from typing import Callable, Dict, List

from sdngcc.testbed.figures import (
    of_all_laws,
    of_eyeq,
    of_hygenicc,
    of_ours,
    of_scc,
    of_sdn_gcc,
    of_seawall,
    of_vcc,
    of_vcc_red,
)
from sdngcc.testbed.figures.data import Runs
from sdngcc.testbed.figures.layout import Row

Drawing = Callable[[Runs], List[Row]]
"""Makes a figure's rows of the runs by label; its docstring says which figure of the paper it follows."""

DRAWINGS: Dict[str, Drawing] = {
    "unfair": of_sdn_gcc.unfair,
    "share": of_sdn_gcc.share,
    "scale": of_sdn_gcc.scale,
    "delay": of_sdn_gcc.delay,
    "competitors": of_sdn_gcc.competitors,
    "constants": of_sdn_gcc.constants,
    "mice": of_sdn_gcc.mice,
    "echo": of_hygenicc.echo,
    "admission": of_hygenicc.admission,
    "burst-latency": of_eyeq.burst_latency,
    "spare": of_eyeq.spare,
    "converge": of_eyeq.converge,
    "shuffle": of_eyeq.shuffle,
    "memcached": of_eyeq.memcached,
    "ecn-mix": of_vcc.ecn_mix,
    "ecn-red": of_vcc_red.ecn_red,
    "ack-gaps": of_vcc_red.ack_gaps,
    "send-window": of_vcc_red.send_window,
    "rwnd": of_vcc.rwnd,
    "port-share": of_vcc.port_share,
    "udp-flood": of_seawall.udp_flood,
    "many-flows": of_seawall.many_flows,
    "many-dsts": of_seawall.many_dsts,
    "classes": of_seawall.classes,
    "weights": of_seawall.weights,
    "schedule": of_seawall.schedule,
    "web": of_seawall.web,
    "line-rate": of_seawall.line_rate,
    "interference": of_scc.interference,
    "divisions": of_scc.divisions,
    "divisions-load": of_scc.divisions_load,
    "laws": of_all_laws.laws,
    "maxmin": of_all_laws.maxmin,
    "tournament": of_all_laws.tournament,
    "today": of_all_laws.today,
    "elasticswitch": of_all_laws.elasticswitch,
    "on-off": of_all_laws.on_off,
    "parking-lot": of_ours.parking_lot,
    "innocent": of_ours.innocent,
    "ways": of_ours.ways,
    "churn": of_ours.churn,
    "mixed": of_ours.mixed,
    "failsafe": of_ours.failsafe,
    "lost-echoes": of_vcc_red.lost_echoes,
    "takeover": of_ours.takeover,
    "tenants": of_ours.tenants,
    "beside": of_ours.beside,
    "acdc": of_vcc_red.acdc,
}
