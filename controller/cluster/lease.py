# SPDX-License-Identifier: Apache-2.0
"""Leases: a controller stops by its own clock before another may take over by its own.

A controller counts a *beat* up in the database every b. Let L be the lease, and let every clock's rate be
within 1 - r and 1 + r of true time. Only differences of one monotonic clock are ever compared.

- The owner sends beat n when its clock shows s and hears that it is stored. It acts until its clock shows
  s + L, which is at most L / (1 - r) of true time after s.
- Another sees beat n for the first time when its own clock shows o. Beat n was stored before it was seen and
  sent before it was stored, so s comes before o. It takes the owner for dead once its clock shows
  o + W, which is at least W / (1 + r) of true time after o.

With W = L * (1 + r) / (1 - r) the owner has stopped before the other takes over. That the owner sent beat n+1
meanwhile is no gap either: whoever takes over does it on condition that the beat stored is still n, so either
that transaction is refused, or beat n+1 comes after it and shows its sender that it lost.
"""

from typing import NamedTuple, Optional

BEATS_A_LEASE = 5
FORGET_NS = 600_000_000_000  # after so long without a return none is remembered
DOUBLINGS_MAX = 6
DRIFT_PPM = 1000  # twice what adjtimex lets a clock be slewed by


class Terms(NamedTuple):
    """The times of a lease, in ns of a monotonic clock."""

    lease_ns: int

    @property
    def beat_ns(self) -> int:
        """Return the time between two beats."""
        return self.lease_ns // BEATS_A_LEASE

    @property
    def grace_ns(self) -> int:
        """Return W, after which another's beat that stands still means its end."""
        return -(-self.lease_ns * (1_000_000 + DRIFT_PPM) // (1_000_000 - DRIFT_PPM))


class Lease:
    """One's own lease: which beats were sent when, and until when one may act."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.until_ns: Optional[int] = None

    def renewed(self, sent_ns: int) -> None:
        """Note that the beat sent at a time was stored."""
        until = sent_ns + self.terms.lease_ns
        self.until_ns = until if self.until_ns is None else max(self.until_ns, until)

    def is_valid(self, now_ns: int) -> bool:
        """Tell whether one may act now."""
        return self.until_ns is not None and now_ns < self.until_ns

    def end(self) -> None:
        """Stop acting at once."""
        self.until_ns = None


class Watch:
    """Others' beats and when each was first seen, by the watcher's own clock."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int, int]] = {}  # incarnation -> beat, when first seen, its lease

    def see(self, beats: dict[str, tuple[int, int]], now_ns: int) -> None:
        """Take (beat, lease in ns) of every controller in the database."""
        for gone in self._seen.keys() - beats.keys():
            del self._seen[gone]
        for incarnation, (beat, lease_ns) in beats.items():
            known = self._seen.get(incarnation)
            if known is None or known[0] != beat:
                self._seen[incarnation] = (beat, now_ns, lease_ns)

    def restart(self, now_ns: int) -> None:
        """Count silence from now on only: who could not reach the database knows nothing of others' beats."""
        for incarnation, (beat, seen_ns, lease_ns) in self._seen.items():
            self._seen[incarnation] = (beat, max(seen_ns, now_ns), lease_ns)

    def is_alive(self, incarnation: str, now_ns: int) -> bool:
        """Tell whether a controller may still act, as far as can be known here."""
        known = self._seen.get(incarnation)
        return known is not None and now_ns < known[1] + Terms(known[2]).grace_ns

    def silent_ns(self, incarnation: str, now_ns: int) -> int:
        """Return how long a controller's beat has stood still; 0 when it is not known."""
        known = self._seen.get(incarnation)
        return now_ns - known[1] if known else 0


class Returns:
    """Controllers that were taken for dead and came back, and for how many of their beats they are newcomers again.

    One that stalls again and again is passed over for longer each time, twice as long as the time before, until it has
    been there for FORGET_NS. Silence counts only while somebody looks: who stalled itself saw nothing of others.
    """

    def __init__(self) -> None:
        self._beats: dict[str, int] = {}  # as seen last, by incarnation
        self._silent_ns: dict[str, int] = {}
        self._returned: dict[str, tuple[int, int, int]] = {}  # beat at which it came back, how often, and when
        self._looked_ns: Optional[int] = None

    def see(self, beats: dict[str, tuple[int, int]], now_ns: int) -> None:
        """Take (beat, lease in ns) of every controller in the database."""
        passed_ns = 0 if self._looked_ns is None else now_ns - self._looked_ns
        self._looked_ns = now_ns
        for table in (self._beats, self._silent_ns, self._returned):
            for gone in table.keys() - beats.keys():
                del table[gone]
        for incarnation, (beat, lease_ns) in beats.items():
            terms = Terms(lease_ns)
            silent_ns = self._silent_ns.get(incarnation, 0) + min(passed_ns, terms.beat_ns)
            if beat == self._beats.get(incarnation, beat):
                self._silent_ns[incarnation] = silent_ns
            else:
                if silent_ns >= terms.grace_ns:
                    self.returned(incarnation, beat, now_ns)
                self._silent_ns[incarnation] = 0
            self._beats[incarnation] = beat

    def returned(self, incarnation: str, beat: int, now_ns: int) -> None:
        """Take note that a controller came back, at a beat of its."""
        _, often, when_ns = self._returned.get(incarnation, (0, 0, now_ns))
        self._returned[incarnation] = (beat, 1 if now_ns - when_ns > FORGET_NS else often + 1, now_ns)

    def beats_since(self, incarnation: str, beat: int) -> int:
        """Return how many beats count for a controller that has so many: of one that came back fewer."""
        if incarnation not in self._returned:
            return beat
        since, often, _ = self._returned[incarnation]
        return max(0, beat - since) >> min(often - 1, DOUBLINGS_MAX)
