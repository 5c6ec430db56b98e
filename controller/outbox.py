# SPDX-License-Identifier: Apache-2.0
"""What decisions want sent: messages gathered while an event is dealt with, for the rim to drain and send."""

from typing import Iterator, NamedTuple

from sdngcc.controller.cluster.owner import Owner


class Outgoing(NamedTuple):
    """OpenFlow messages for one switch."""

    dpid: int
    data: bytes  # one message or several


class Outbox:
    """Messages in the order in which they are to leave; ``owner`` says for whom this controller may act."""

    def __init__(self, owner: Owner, writes: bool = True) -> None:
        """Without ``writes`` no switch is given a flow, a group or a packet."""
        self._owner = owner
        self._writes = writes
        self._waiting: list[Outgoing] = []

    def put(self, dpid: int, data: bytes) -> None:
        """Add what every controller may send to a switch: requests."""
        self._waiting.append(Outgoing(dpid, data))

    def put_owned(self, dpid: int, data: bytes) -> None:
        """Add what only a switch's owner may send; nothing if that is another controller.

        Raises RuntimeError where nothing may be written.
        """
        if not self._writes:
            raise RuntimeError(f"switch {dpid:016x} was to be written to under forwarding none")
        if self._owner.owns(dpid):
            self._waiting.append(Outgoing(dpid, data))

    def put_notice(self, dpid: int, data: bytes) -> None:
        """Add messages to machines of a bridge, whoever owns it: the congested port's owner speaks."""
        if self._owner.is_live():
            self._waiting.append(Outgoing(dpid, data))

    def drain(self) -> list[Outgoing]:
        """Return the messages gathered so far and forget them."""
        waiting, self._waiting = self._waiting, []
        return waiting


def transactions() -> Iterator[int]:
    """Return the transaction ids of requests, 1 to 0x7fffffff, again and again."""
    while True:
        yield from range(1, 0x80000000)
