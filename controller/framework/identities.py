# SPDX-License-Identifier: Apache-2.0
"""Which connection is which switch's, when several say they are.

The first connection with a datapath id holds it.  A second one has to wait while the first is asked whether it is
still there: when it answers in time the second is refused, else the second takes its place.  So a switch that
reconnects is not kept out by what is left of its former connection, and a stranger with its id does not make it deaf.
A third one is refused at once.
"""

import enum
from typing import Generic, Optional, TypeVar

Connection = TypeVar("Connection")


class Claim(enum.Enum):
    """The answer to a connection's claim of a datapath id."""

    HELD = "it holds the id now"
    DOUBTED = "it waits while the holder is asked"
    REFUSED = "another one waits already"


class Identities(Generic[Connection]):
    """Holders of datapath ids and those who wait for one; ``holders`` is by datapath id, to be read only."""

    def __init__(self) -> None:
        self.holders: dict[int, Connection] = {}
        self._waiting: dict[int, Connection] = {}

    def claim(self, dpid: int, connection: Connection) -> Claim:
        """Take a connection's claim."""
        if dpid not in self.holders:
            self.holders[dpid] = connection
            return Claim.HELD
        if dpid in self._waiting:
            return Claim.REFUSED
        self._waiting[dpid] = connection
        return Claim.DOUBTED

    def waits(self, dpid: int, connection: Connection) -> bool:
        """Tell whether a connection waits for an id."""
        return self._waiting.get(dpid) is connection

    def keep(self, dpid: int) -> Optional[Connection]:
        """Leave an id to its holder, who answered; return the connection that is refused by this."""
        return self._waiting.pop(dpid, None)

    def replace(self, dpid: int) -> tuple[Connection, Connection]:
        """Give an id to the connection that waits, as its holder did not answer; return (former, present) holder.

        Raises KeyError when none waits.
        """
        successor = self._waiting.pop(dpid)
        former, self.holders[dpid] = self.holders[dpid], successor
        return former, successor

    def release(self, dpid: int, connection: Connection) -> tuple[bool, Optional[Connection]]:
        """Take note that a connection ended; return whether it held the id, and who holds it now instead."""
        if self._waiting.get(dpid) is connection:
            del self._waiting[dpid]
        if self.holders.get(dpid) is not connection:
            return False, None
        successor = self._waiting.pop(dpid, None)
        if successor is None:
            del self.holders[dpid]
        else:
            self.holders[dpid] = successor
        return True, successor
