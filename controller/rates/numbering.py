# SPDX-License-Identifier: Apache-2.0
"""Epoch and sequence of the messages that a controller sends.

One sequence counts the messages to all machines. The epoch is the second the controller started, and later than
any it used before, as far as the cluster's database tells (cluster/membership.py).

A controller whose clock stepped back would be refused by all who heard it before, without a word. What tells are the
counters that VM_STATE shows: a machine that was told something refuses, and accepts nothing. Many other reasons lead
to that as well, such as another key or a law that obeys no rates, and the counters do not tell them apart. So nobody
else's messages change at first: after three such readings those to this one machine bear a later epoch, by a distance
of 1 s that doubles after three more. A refused message leaves no trace in a shim, whatever its epoch. When one is
accepted its epoch becomes that of all messages; when all distances were tried the machine is told as the others are,
and tried again after a while.
"""

import dataclasses
import time
from typing import Callable, Optional

U32_MAX = 0xFFFFFFFF
SEQUENCE_MAX = U32_MAX
PATIENCE = 3  # readings with refusals only before a later epoch is tried
REST_NS = 60_000_000_000  # between two passes over all distances
DISTANCE_MAX_S = 1 << 31  # from the time of day to an epoch that is tried: a later start finds back from there


@dataclasses.dataclass
class Hearing:
    """What is known of how one machine takes the messages to it."""

    messages: int = 0  # accepted by the last reading, modulo 2^32, whoever sent them
    refused: int = 0  # refused by the last reading, modulo 2^32
    known: bool = False  # there was a reading
    told: bool = False  # a message was sent since the counters last moved
    bad: int = 0  # readings in a row with refusals only
    trial: int = 0  # epoch tried with this machine, if later than the sender's
    rest_until_ns: int = 0  # all distances were tried; not again before

    def is_sound(self) -> bool:
        """Tell whether there was a reading, and none that asks for another epoch."""
        return self.known and not (self.bad or self.trial or self.rest_until_ns)


class Numbering:
    """Numbers a sender's messages; ``wall_s`` is the time of day in seconds since 1970."""

    def __init__(self, epoch: Optional[int] = None, wall_s: Callable[[], float] = time.time) -> None:
        self._wall_s = wall_s
        self.epoch = self._of_today() if epoch is None else epoch
        self.sequence = 0  # of the last message
        self.accepted = self.refused = 0  # messages that shims told of, whoever sent them
        self.raised = 0  # times that the epoch was raised because machines refused the one before

    def _of_today(self) -> int:
        return min(max(int(self._wall_s()), 1), U32_MAX)

    def raise_to(self, epoch: int) -> None:
        """Number no message with an earlier epoch from now on."""
        self.epoch = max(self.epoch, epoch)

    def reserve(self, count: int) -> int:
        """Return the first of so many sequences of messages that are about to be sent, all of one epoch."""
        if self.sequence > SEQUENCE_MAX - count:
            self.epoch, self.sequence = min(max(self.epoch + 1, self._of_today()), U32_MAX), 0
        self.sequence += count
        return self.sequence - count + 1

    def epoch_for(self, hearing: Hearing) -> int:
        """Return the epoch of messages to a machine that are about to be sent."""
        hearing.told = True
        return max(self.epoch, hearing.trial)

    def heard(self, hearing: Hearing, messages: int, refused: int, now_ns: int) -> Optional[str]:
        """Take a machine's counters of messages; return what to log when the epoch was raised."""
        if refused == hearing.refused and hearing.is_sound() and 0 < messages - hearing.messages <= U32_MAX // 2:
            self.accepted += messages - hearing.messages
            hearing.messages, hearing.told = messages, False
            return None
        accepted, refusals = (messages - hearing.messages) & U32_MAX, (refused - hearing.refused) & U32_MAX
        fresh = not hearing.known or max(accepted, refusals) > U32_MAX // 2  # a port made anew counts from 0
        hearing.messages, hearing.refused, hearing.known = messages, refused, True
        if not fresh:
            self.accepted, self.refused = self.accepted + accepted, self.refused + refusals
        if fresh or not hearing.told or not (accepted or refusals):
            return None
        hearing.told = False
        if accepted and refusals:
            return None  # another sender's may be among them
        if accepted:
            return self._accepted(hearing)
        hearing.bad += 1
        if hearing.bad >= PATIENCE and now_ns >= hearing.rest_until_ns:
            self._try_later(hearing, now_ns)
        return None

    def _try_later(self, hearing: Hearing, now_ns: int) -> None:
        """Try a later epoch with a machine, twice as far away as the one before."""
        hearing.bad = 0
        hearing.trial = self.epoch + max(2 * (hearing.trial - self.epoch), 1)
        if hearing.trial > min(self._of_today() + DISTANCE_MAX_S, U32_MAX):
            hearing.trial, hearing.rest_until_ns = 0, now_ns + REST_NS

    def _accepted(self, hearing: Hearing) -> Optional[str]:
        """Take note that a machine accepts messages; raise the epoch if it needed a later one for that."""
        before, trial = self.epoch, hearing.trial
        hearing.bad = hearing.trial = hearing.rest_until_ns = 0
        if trial <= before:
            return None
        self.epoch = trial
        self.raised += 1
        return (
            f"epoch of messages raised from {before} to {self.epoch}: the one before was refused; "
            "the clock may have stepped back, or another controller have the same sender_id"
        )
