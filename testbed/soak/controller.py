# SPDX-License-Identifier: Apache-2.0
"""The controller as a soak runs it.

When nothing is to be done it looks after NAP_NS, not 50 times a second: each look costs wall time, and a soak is mostly
rest. What an event makes due is done as late by so much at most.

What it keeps of the past, the last events and audit records, is so little that a cycle fills it. With the numbers of an
operator's controller (256 and 1,000, at 35 and 2 a cycle) memory would grow for 8 and 500 cycles before these are full,
which no soak tells from a leak.
"""

from __future__ import annotations

# The longest sleep of the controller's clockwork, ns.
NAP_NS = 250_000_000
# Events and audit records that are kept.
EVENTS, RECORDS = 16, 2


def main() -> None:
    """Run the controller."""
    from sdngcc.controller.framework import launcher

    launcher.prepare()
    from sdngcc.controller import engine, settings
    from sdngcc.controller.rest import audit, events

    engine.NAP_NS = NAP_NS
    events.HISTORY_MAX, audit.KEPT = EVENTS, RECORDS
    chosen = settings.load(None)
    chosen.read_key()
    launcher.start(chosen, settings.load)


if __name__ == "__main__":
    main()
