# SPDX-License-Identifier: Apache-2.0
"""A controller, as a soak runs it, that keeps something for each machine that it comes to know."""

from typing import Any, List

# Bytes kept for each.
KEPT_BYTES = 16384


def main() -> None:
    """Let machines leak, and run the controller."""
    from sdngcc.controller.framework import launcher

    launcher.prepare()
    from sdngcc.controller.network.machines import Machines
    from sdngcc.testbed.soak import controller

    kept: List[bytearray] = []
    add = Machines._add

    def leaking(machines: Machines, *arguments: Any) -> Any:
        kept.append(bytearray(b"x" * KEPT_BYTES))
        return add(machines, *arguments)

    Machines._add = leaking  # type: ignore[method-assign]
    controller.main()


if __name__ == "__main__":
    main()
