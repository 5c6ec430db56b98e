# SPDX-License-Identifier: Apache-2.0
"""Compute nodes by the databases that connect: who is which node, and whose bridges each may speak for.

A node goes by its system-id (accepted.system_name) and belongs to the certificate by which it came first, until it is
forgotten.  Its database is believed about a bridge when the list of certificates allows it (allowlist.py), no other
node has the bridge, and no switch is connected under its datapath id by another certificate.  Whoever comes first keeps
a bridge; once its database no longer has it, or the switch's connection ends, the next one that claims it gets it.  An
OpenFlow connection is a bridge's only by the certificate of the node that has the bridge.

Decisions only: there is no socket in here, and time comes from the caller.
"""

import dataclasses
import enum
from typing import Callable, NamedTuple, Optional, Protocol

from sdngcc.controller.databases.accepted import AcceptedClient
from sdngcc.controller.databases.rows import bridges
from sdngcc.controller.framework.allowlist import AllowList
from sdngcc.controller.framework.certificates import Identity

BRIDGES_MAX = 64  # of a node
_REFUSED_MAX = 64  # claims shown of a node


class Arrival(enum.Enum):
    """The answer to a database that says which node it is."""

    NEW = "it was not known"
    RESUMED = "it comes back"
    DOUBTED = "its other connection is asked first"
    REFUSED = "it may not be this node"


class Answer(NamedTuple):
    """An answer, and for a refusal why; ``forgotten`` is a node that had to go for it."""

    arrival: Arrival
    why: str = ""
    forgotten: Optional["Node"] = None


@dataclasses.dataclass(eq=False)
class Node:
    """A compute node."""

    name: str
    identity: Optional[Identity]  # None: it came without TLS
    client: AcceptedClient
    address: str  # of its last connection
    connections: int = 1
    waiting: bool = False  # a second connection of it waits to be judged
    dpids: frozenset[int] = frozenset()  # of its bridges, as far as it is believed
    refused: dict[int, str] = dataclasses.field(default_factory=dict)  # bridges it is not believed about, why
    seen: Optional[tuple[int, tuple[int, int]]] = None  # versions of the list and of the client's rows

    @property
    def owner(self) -> str:
        """Return by what it was admitted."""
        return "no certificate" if self.identity is None else f'certificate "{self.identity.name}"'


class Holder(NamedTuple):
    """A switch that is connected under a datapath id."""

    identity: Optional[Identity]  # None: it came without TLS
    address: str


class Settled(NamedTuple):
    """What became different of nodes' bridges: who is believed about others than before; and new refusals."""

    changed: list[Node]
    refused: list[tuple[Node, int, str]]  # node, datapath id, why


class FindHolder(Protocol):
    """What tells which switch is connected under a datapath id."""

    def __call__(self, dpid: int) -> Optional[Holder]:
        """Return it, None when there is none."""


def same(one: Optional[Identity], other: Optional[Identity]) -> bool:
    """Tell whether two connections came by the same certificate, or both without one."""
    return (one and one.name) == (other and other.name)


class Nodes:
    """All nodes by name; at most ``limit``. ``make`` makes a node's client by its name."""

    def __init__(
        self, allowed: AllowList, holder: FindHolder, make: Callable[[str], AcceptedClient], limit: int
    ) -> None:
        self.allowed = allowed
        self.by_name: dict[str, Node] = {}
        self.conflicts = 0  # claims of a name or a bridge that somebody else has
        self._holder = holder
        self._make = make
        self._limit = limit
        self._owners: dict[int, Node] = {}  # by datapath id

    # Connections of databases

    def arrive(self, name: str, identity: Optional[Identity], address: str) -> Answer:
        """Take a database that says it is a node; ``identity`` None is one that came without TLS."""
        node = self.by_name.get(name)
        if node is None:
            return self._welcome(name, identity, address)
        if not same(node.identity, identity):
            self.conflicts += 1
            since = "connected" if node.client.is_connected else "known, and gone now"
            whose = "no certificate" if identity is None else f'certificate "{identity.name}"'
            why = (
                f"it says that it is node {name}, by {whose}; that node is {since}, came from {node.address} and "
                f"belongs to {node.owner} until it is forgotten (`sdngcc node forget`)"
            )
            return Answer(Arrival.REFUSED, why)
        if not node.client.is_connected:
            self.resume(node, address)
            return Answer(Arrival.RESUMED)
        if node.waiting:
            self.conflicts += 1
            return Answer(Arrival.REFUSED, f"it is the third that says it is node {name}; {node.address} has that name")
        node.waiting = True
        return Answer(Arrival.DOUBTED)

    def _welcome(self, name: str, identity: Optional[Identity], address: str) -> Answer:
        forgotten = None
        if len(self.by_name) >= self._limit:
            gone = [node for node in self.by_name.values() if not node.client.is_connected]
            if not gone:
                return Answer(Arrival.REFUSED, f"{self._limit} nodes are connected, which is the limit")
            forgotten = min(gone, key=lambda node: node.client.health.since_ns)
            self.forget(forgotten)
        self.by_name[name] = Node(name, identity, self._make(name), address)
        return Answer(Arrival.NEW, "", forgotten)

    def keep(self, node: Node, refused: str) -> str:
        """Leave a name to the connection that answered; return why the one from ``refused`` ends."""
        node.waiting = False
        self.conflicts += 1
        return f"it says that it is node {node.name}, which is connected from {node.address} and answers"

    def resume(self, node: Node, address: str) -> None:
        """Take note that a node goes on by another connection."""
        node.waiting = False
        node.address, node.connections = address, node.connections + 1

    def forget(self, node: Node) -> None:
        """Forget a node: its name and its bridges are free."""
        del self.by_name[node.name]
        for dpid in node.dpids:
            del self._owners[dpid]
        node.dpids = node.client.dpids = frozenset()

    def refused_now(self) -> list[tuple[Node, str]]:
        """Return the connected nodes that the list no longer admits, and why."""
        found = []
        for node in self.by_name.values():
            why = self.allowed.refuses(node.identity) if node.identity is not None else None
            if why is not None and node.client.is_connected:
                found.append((node, why))
        return found

    # Bridges

    def refuses_switch(self, identity: Optional[Identity], dpid: int) -> Optional[str]:
        """Return why an OpenFlow connection may not be a switch's, None when it may.

        Without TLS, which is for loopback or a network that keeps strangers out, nothing tells one from another.
        """
        if identity is None:
            return None
        why = self.allowed.refuses_switch(identity, dpid)
        if why is not None:
            return why
        node = self._owners.get(dpid)
        if node is None or same(node.identity, identity):
            return None
        self.conflicts += 1
        return (
            f'its certificate "{identity.name}" may not speak for switch {dpid:016x}, which is a bridge of node '
            f"{node.name}; allowed is {node.owner} until the node is forgotten (`sdngcc node forget`)"
        )

    def settle(self) -> Settled:
        """Decide anew about the bridges of nodes whose tables changed; return what is different."""
        changed, refused = [], []
        for node in self.by_name.values():
            seen = self.allowed.version, node.client.version
            others = node.seen is None or node.seen[0] != seen[0]
            if node.client.whole and (others or (node.client.ready and (node.refused or seen != node.seen))):
                node.seen = seen
                before = node.refused
                changed += [node] if self._judge(node) else []
                refused += [(node, dpid, why) for dpid, why in node.refused.items() if dpid not in before]
        self.conflicts += len(refused)
        return Settled(changed, refused)

    def _judge(self, node: Node) -> bool:
        """Decide which bridges a node is believed about; return whether they changed."""
        claimed = {dpid for dpid, _ in bridges(node.client.idl)}
        refused: dict[int, str] = {}
        kept: set[int] = set()
        for dpid in sorted(claimed, key=lambda dpid: (dpid not in node.dpids, dpid)):  # those it has come first
            why = f"it has more than {BRIDGES_MAX} bridges" if len(kept) >= BRIDGES_MAX else self._why_not(node, dpid)
            if why is None:
                kept.add(dpid)
            elif len(refused) < _REFUSED_MAX:
                refused[dpid] = why
        node.refused = refused
        if kept == node.dpids:
            return False
        for dpid in node.dpids - kept:
            del self._owners[dpid]
        self._owners.update(dict.fromkeys(kept, node))
        node.dpids = node.client.dpids = frozenset(kept)
        return True

    def _why_not(self, node: Node, dpid: int) -> Optional[str]:
        if node.identity is not None:
            why = self.allowed.refuses_switch(node.identity, dpid)
            if why is not None:
                return why
        other = self._owners.get(dpid)
        if other is not None and other is not node:
            return f"it is a bridge of node {other.name}, which came from {other.address}"
        holder = self._holder(dpid)
        if holder is None or holder.identity is None or same(holder.identity, node.identity):
            return None
        return f'a switch is connected under its id from {holder.address}, by certificate "{holder.identity.name}"'

    def listed(self) -> list[Node]:
        """Return the nodes by name."""
        return [node for _, node in sorted(self.by_name.items())]
