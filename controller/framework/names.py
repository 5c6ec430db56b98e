# SPDX-License-Identifier: Apache-2.0
"""Ryu or os-ken, as the setting ``framework`` says, under one set of names."""

import importlib
from typing import Any

from sdngcc.controller import settings
from sdngcc.controller.framework import launcher

with launcher.refusals():
    FRAMEWORK = launcher.find_framework(settings.current().framework)


def _module(name: str) -> Any:
    return importlib.import_module(f"{FRAMEWORK}.{name}")


app_manager = _module("base.app_manager")
cfg = _module("cfg")
controller = _module("controller.controller")
handler = _module("controller.handler")
hub = _module("lib.hub")
ofp_event = _module("controller.ofp_event")
ofp_handler = _module("controller.ofp_handler")
ofproto_v1_3 = _module("ofproto.ofproto_v1_3")

App = app_manager.RyuApp if FRAMEWORK == "ryu" else app_manager.OSKenApp
