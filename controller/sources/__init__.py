# SPDX-License-Identifier: Apache-2.0
"""Where marks come from: one file a mark source, chosen by the setting ``mark_source``."""

from sdngcc.controller.sources.base import PREPARE_XID, Deliver, MarkSource, PortMarks, Reading, Semantics
from sdngcc.controller.sources.delayed import DelayedMarks
from sdngcc.controller.sources.openflow import OpenFlowMarks
from sdngcc.controller.sources.openflow_ce import OpenFlowCe
from sdngcc.controller.sources.otlp import OtlpMarks
from sdngcc.controller.sources.sflow import SFlowMarks
from sdngcc.controller.sources.sflow_rt import SFlowRtMarks
from sdngcc.controller.sources.shim import ShimMarks
from sdngcc.controller.sources.sonic import SonicMarks

__all__ = ["PREPARE_XID", "SOURCES", "DelayedMarks", "Deliver", "MarkSource", "PortMarks", "Reading", "Semantics"]

SOURCES: dict[str, type[MarkSource]] = {
    source.name: source
    for source in (OpenFlowMarks, OpenFlowCe, SFlowMarks, SFlowRtMarks, SonicMarks, OtlpMarks, ShimMarks)
}
