# SPDX-License-Identifier: Apache-2.0
"""The controller as a soak runs it: when nothing is to be done it looks after NAP_NS, not 50 times a second.

Each look costs wall time, and a soak is mostly rest. What an event makes due is done as late by so much at most.
"""

from __future__ import annotations

# The longest sleep of the controller's clockwork, ns.
NAP_NS = 250_000_000


def main() -> None:
    """Run the controller."""
    from sdngcc.controller.framework import launcher

    launcher.prepare()
    from sdngcc.controller import engine, settings

    engine.NAP_NS = NAP_NS
    chosen = settings.load(None)
    chosen.read_key()
    launcher.start(chosen, settings.load)


if __name__ == "__main__":
    main()
