# SPDX-License-Identifier: Apache-2.0
"""A Mininet link whose two ends send each in its own shape, and the addresses that go with it."""

from __future__ import annotations

from typing import Any, Dict, Optional

from mininet.link import Link, TCIntf

from sdngcc.topologies.shaping import Shape, tc_commands


class ShapedIntf(TCIntf):
    """A switch's interface that sends in a shape.

    Open vSwitch clears a device's queues when it takes the device as a port. Mininet knows that of TCIntf and calls
    config() once more afterwards, so that is when the shape is given.
    """

    shape: Optional[Shape] = None
    """How it sends; None: as fast as it can."""
    _made = False

    def config(self, shape: Optional[Shape] = None, **params: Any) -> Dict[str, Any]:
        """Bring the interface up, and give it its shape when called a second time.

        Raises RuntimeError when tc refuses.
        """
        if not self._made:
            self._made, self.shape = True, shape
            self.cmd("ip", "link", "set", self.name, "up")
        elif self.shape is not None:
            for command in tc_commands(self.name, self.shape):
                output = self.cmd("tc", *command)
                if output:
                    raise RuntimeError(f"tc {' '.join(command)}: {output.strip()}")
        return {}


class ShapedLink(Link):
    """A veth pair with a shape at each end.

    ``shape1`` and ``shape2`` are what the two ends send with; None leaves that end alone.
    """

    def __init__(self, node1: Any, node2: Any, shape1: Optional[Shape] = None, shape2: Optional[Shape] = None,
                 **params: Any) -> None:
        """Make the pair; see mininet.link.Link for the other parameters."""
        params["intf"] = ShapedIntf
        super().__init__(node1, node2, params1={**(params.pop("params1", None) or {}), "shape": shape1},
                         params2={**(params.pop("params2", None) or {}), "shape": shape2}, **params)
