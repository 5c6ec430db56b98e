# SPDX-License-Identifier: Apache-2.0
"""What every mark source is: it turns what switches say into new marks of ports.

Its ``semantics`` says what a mark at a port means, because the sources behind it differ: those whose packets
leave by the port when its own queue set the marks, those whose packets came in by it when CE was only seen
arriving.
"""

import abc
import enum
from typing import NamedTuple, Optional

from sdngcc.controller.experimenter import PortReading, Reply


class Semantics(enum.Enum):
    """What a mark counted at a port means."""

    SET_HERE = "the port's own queue set it"
    ARRIVED = "a packet came in with CE, set by a switch before"


class PortMarks(NamedTuple):
    """New marks of a port."""

    port: int
    marks: int  # more than 0
    interval_ns: int  # since the reading before


class MarkSource(abc.ABC):
    """One way to learn of marks."""

    name: str
    semantics: Semantics

    @abc.abstractmethod
    def request(self, dpid: int, xid: int) -> bytes:
        """Return the OpenFlow message that asks a switch for its marks; empty if none is to be sent."""

    @abc.abstractmethod
    def take(self, dpid: int, reply: Reply) -> list[PortMarks]:
        """Return the new marks in a reply."""

    @abc.abstractmethod
    def counted(self, dpid: int) -> bool:
        """Tell whether a switch has any mark counter."""

    @abc.abstractmethod
    def readings(self, dpid: int) -> dict[int, PortReading]:
        """Return the last reading of each port of a switch."""

    @abc.abstractmethod
    def forget(self, dpid: int, port: Optional[int] = None) -> None:
        """Forget a port that is gone, or a whole switch."""
