# SPDX-License-Identifier: Apache-2.0
"""Where marks come from: one file a mark source, chosen by the setting ``mark_source``."""

from sdngcc.controller.sources.base import MarkSource, PortMarks, Semantics
from sdngcc.controller.sources.openflow import OpenFlowMarks

__all__ = ["SOURCES", "MarkSource", "PortMarks", "Semantics"]

SOURCES = {OpenFlowMarks.name: OpenFlowMarks}
