# SPDX-License-Identifier: Apache-2.0
"""REST under /v1, one file a room: what every machine gets and why, and its policy.

Rates are bit/s, as in Open vSwitch.  Errors are JSON: {"error": what, "field": which, "allowed": range,
"in_force": what stays, "candidates": whom an ambiguous name may mean}.
"""

from sdngcc.controller.rest.application import make_app
from sdngcc.controller.rest.live import SAMPLE_S, Live
from sdngcc.controller.rest.room import House

__all__ = ["SAMPLE_S", "House", "Live", "make_app"]
