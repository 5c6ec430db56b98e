# SPDX-License-Identifier: Apache-2.0
"""A Mininet link whose two ends send each in its own shape, and the addresses that go with it.

Each command of ``ip`` or ``tc`` is a process of its own, unless a Batch gathers them.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from mininet.link import Link, TCIntf

from sdngcc.topologies.shaping import Shape, tc_commands


class Batch:
    """Commands of ``ip`` and ``tc`` by network namespace, which is known by a process in it, or 1: this one."""

    def __init__(self) -> None:
        self._lines: Dict[Tuple[str, int], List[str]] = {}

    def add(self, pid: int, program: str, *words: str) -> None:
        """Remember a command's words."""
        self._lines.setdefault((program, pid), []).append(" ".join(words))

    def run(self, start: Callable[[Sequence[str], str], Any]) -> None:
        """Run all of them: ``ip`` before ``tc``, this process's namespace first, one process for each of both.

        start runs a program with a text to read.
        """
        for (program, pid), lines in sorted(self._lines.items()):
            within = [] if pid == 1 else ["mnexec", "-a", str(pid)]
            start([*within, program, "-batch", "-"], "\n".join([*lines, ""]))
        self._lines.clear()


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
            if ShapedLink.batch is None or not hasattr(self.node, "device_words"):  # such a host does it itself
                self._do("ip", "link", "set", self.name, "up")
        elif self.shape is not None:
            for command in tc_commands(self.name, self.shape):
                self._do("tc", *command)
        return {}

    def _do(self, program: str, *words: str) -> None:
        if ShapedLink.batch is not None:
            ShapedLink.batch.add(self.node.pid if self.node.inNamespace else 1, program, *words)
        elif output := self.cmd(program, *words):
            raise RuntimeError(f"{program} {' '.join(words)}: {output.strip()}")


class ShapedLink(Link):
    """A veth pair with a shape at each end.

    ``shape1`` and ``shape2`` are what the two ends send with; None leaves that end alone.
    """

    batch: Optional[Batch] = None
    """What gathers the commands, if anything does."""

    def __init__(self, node1: Any, node2: Any, shape1: Optional[Shape] = None, shape2: Optional[Shape] = None,
                 **params: Any) -> None:
        """Make the pair; see mininet.link.Link for the other parameters."""
        params["intf"] = ShapedIntf
        super().__init__(node1, node2, params1={**(params.pop("params1", None) or {}), "shape": shape1},
                         params2={**(params.pop("params2", None) or {}), "shape": shape2}, **params)

    @classmethod
    def makeIntfPair(cls, intfname1: str, intfname2: str, addr1: Optional[str] = None, addr2: Optional[str] = None,
                     node1: Any = None, node2: Any = None, deleteIntfs: bool = True) -> None:
        """Make the pair of devices, at once or with the batch."""
        if cls.batch is None:
            super().makeIntfPair(intfname1, intfname2, addr1, addr2, node1, node2, deleteIntfs)
            return
        pids = [str(node.pid if node.inNamespace else 1) for node in (node1, node2)]
        cls.batch.add(1, "ip", "link", "add", "name", intfname1, "address", str(addr1),
                      *getattr(node1, "device_words", ()), "netns", pids[0],
                      "type", "veth", "peer", "name", intfname2, "address", str(addr2), "netns", pids[1])
