# SPDX-License-Identifier: Apache-2.0
"""What the database says, the changes that are asked of it, and who ought to own a switch.

A change is stored whole or not at all, and only while the database still says what the change ``expects``.
"""

import dataclasses
import functools
import hashlib
from typing import Iterable, Mapping, Optional, Union

GENERATION_MASK = 0xFFFFFFFFFFFFFFFF
SENDERS_MAX = 4  # sender ids in a cluster, ever: a host remembers 16 in all, and one more makes it deaf to a quiet one
JOINED_BEATS = 10  # a newcomer gets switches of others after this many beats, so that none comes and goes with it


def is_stale(offered: int, known: int) -> bool:
    """Tell whether a switch that knows one generation id refuses another: (int64)(offered - known) < 0.

    OpenFlow 1.3.5, section 6.3.6: ids wrap, and the signed difference of 64 bits decides.
    """
    return bool((offered - known) & GENERATION_MASK & 1 << 63)


def following(generation: int) -> int:
    """Return the generation id after one."""
    return (generation + 1) & GENERATION_MASK


@dataclasses.dataclass(frozen=True)
class Member:
    """A controller's row; ``incarnation`` is new with each start, ``sender`` the operator's id of it."""

    incarnation: str
    sender: int
    beat: int
    lease_ns: int
    switches: frozenset[int] = frozenset()  # connected to it


@dataclasses.dataclass(frozen=True)
class Switch:
    """A switch's row: the incarnation that owns it, and the generation id of that ownership."""

    dpid: int
    owner: str
    generation: int


@dataclasses.dataclass(frozen=True)
class View:
    """Both tables at one time, and the last epoch of each sender."""

    members: Mapping[str, Member] = dataclasses.field(default_factory=dict)
    switches: Mapping[int, Switch] = dataclasses.field(default_factory=dict)
    epochs: Mapping[int, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Join:
    """Enter one's row; ``epoch`` becomes the sender's. Expects ``epoch_before`` and that no such row exists."""

    member: Member
    epoch: int
    epoch_before: Optional[int]


@dataclasses.dataclass(frozen=True)
class Beat:
    """Count one's beat up. Expects the beat before it."""

    incarnation: str
    number: int
    switches: frozenset[int]


@dataclasses.dataclass(frozen=True)
class Give:
    """Make a controller a switch's owner under a new generation id.

    Expects the row as it was (None: no row), and of a dead owner the beat at which it stood still.
    """

    before: Optional[Switch]
    after: Switch
    dead_beat: Optional[int] = None


@dataclasses.dataclass(frozen=True)
class Changes:
    """Rows of switches to change, and rows of controllers long dead, with their beats, to remove."""

    gives: tuple[Give, ...]
    buried: tuple[tuple[str, int], ...] = ()


Transaction = Union[Join, Beat, Changes]


@functools.lru_cache(maxsize=1 << 16)
def _rank(sender: int, dpid: int) -> bytes:
    return hashlib.blake2b(b"%d %d" % (sender, dpid), digest_size=8).digest()


def wanted_owner(dpid: int, alive: Iterable[Member], owner: str = "") -> Optional[str]:
    """Return who of the living ought to own a switch that ``owner`` has: rendezvous hashing among those connected.

    When one dies only its own switches move, each to the next in that switch's order; when it returns they
    move back. Newcomers count once they have JOINED_BEATS, unless there is nobody else; an owner counts always, so
    that a switch moves up its order only, however controllers that start together come to have their beats.
    """
    near = [member for member in alive if dpid in member.switches]
    counting = [member for member in near if member.beat >= JOINED_BEATS or member.incarnation == owner]
    best = max(counting or near, key=lambda member: (_rank(member.sender, dpid), member.incarnation), default=None)
    return best.incarnation if best else None
