# SPDX-License-Identifier: Apache-2.0
"""In what proportion bytes part, from counters that a switch brings up to date now and then.

An *owner* (a machine, a group) has *items* (its destinations, its ports) whose bytes a switch counts.  Open
vSwitch brings the counters of flows and groups up to date only when it revalidates its datapath, every 500 ms
(other_config:max-revalidator), all of a bridge in one sweep.  So they say in what proportion an owner's bytes
part, not how many there are right now.

With d_k the bytes of item k since the owner's counters moved last, each time they move:

    b_k <- b_k / 4 + d_k        proportion of k = b_k / sum(b) over the owner's items

The old quarter keeps a reading that fell into the middle of a sweep from hiding half of the items.
"""

import dataclasses
from typing import Container, Generic, Hashable, Iterable, Mapping, TypeVar

KEEP = 0.25  # of what was measured before, each time counters move
SILENT_SWEEPS = 2  # an item whose counter stood still this often while others moved has no bytes

Owner = TypeVar("Owner", bound=tuple[int, Hashable])  # the first is the switch that counts
Item = TypeVar("Item", bound=Hashable)


@dataclasses.dataclass
class _Item:
    """What is known of an item's bytes."""

    number: int = 0  # of the counter read last: another one begins at nothing
    counter: int = 0  # bytes
    recent: float = 0.0  # b_k
    still: int = 0  # sweeps in which it did not move

    @property
    def measured(self) -> bool:
        """Tell whether its counter had the time to show what it has."""
        return self.recent > 0 or self.still >= SILENT_SWEEPS


class Proportions(Generic[Owner, Item]):
    """The proportions of all owners.  ``version`` grows with readings that moved one, and when one is forgotten."""

    def __init__(self) -> None:
        self.version = 0
        self._owners: dict[Owner, dict[Item, _Item]] = {}
        self._revisions: dict[Owner, int] = {}  # version at which an owner's moved last
        self._at: dict[int, set[Owner]] = {}  # owners by switch

    def take(self, owner: Owner, counters: Mapping[Item, tuple[int, int]]) -> None:
        """Take all counters of an owner: (number of the counter, bytes) by item."""
        self._at.setdefault(owner[0], set()).add(owner)
        known = self._owners.setdefault(owner, {})
        for item in [item for item in known if item not in counters]:
            del known[item]
        moved: dict[Item, int] = {}
        for item, (number, counter) in counters.items():
            entry = known.setdefault(item, _Item())
            before = entry.counter if entry.number == number and entry.counter <= counter else 0
            moved[item] = counter - before
            entry.number, entry.counter = number, counter
        if not any(moved.values()):
            return
        for item, entry in known.items():
            entry.recent = entry.recent * KEEP + moved[item]
            entry.still = 0 if moved[item] else entry.still + 1
        self.version += 1
        self._revisions[owner] = self.version

    def revision(self, owner: Owner) -> int:
        """Return a number that changes with every reading that moved an owner's proportions; 0: none."""
        return self._revisions.get(owner, 0)

    def of(self, owner: Owner, items: Iterable[Item]) -> dict[Item, float]:
        """Return how an owner's bytes go to some of its items; the parts add up to 1.

        An item too new to be measured is taken for an average one: 1/n of the n items.
        """
        known = self._owners.get(owner, {})
        entries = {item: known.get(item, _Item()) for item in items}
        total = sum(entry.recent for entry in entries.values())
        count = len(entries)
        if total <= 0:
            return dict.fromkeys(entries, 1 / count) if count else {}
        new = sum(not entry.measured for entry in entries.values())
        return {
            item: (1 - new / count) * entry.recent / total if entry.measured else 1 / count
            for item, entry in entries.items()
        }

    def keep(self, dpid: int, wanted: Container[Owner]) -> None:
        """Forget all owners that a switch counts for but the wanted ones."""
        owners = self._at.get(dpid, set())
        gone = [owner for owner in owners if owner not in wanted]
        self.version += bool(gone)
        for owner in gone:
            owners.discard(owner)
            del self._owners[owner]
            self._revisions.pop(owner, None)
        if not owners:
            self._at.pop(dpid, None)
