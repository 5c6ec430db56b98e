# SPDX-License-Identifier: Apache-2.0
"""What machines are told: by objects where these are few, in arrays where there are thousands in each period."""

import dataclasses
import functools
import hashlib
from typing import Iterator, NamedTuple, Optional, Sequence

import numpy as np
import numpy.typing as npt

from sdngcc.controller.native import NOTICE
from sdngcc.controller.network.relations import Pair
from sdngcc.controller.network.topology import Hop
from sdngcc.controller.rates.division import Notice
from sdngcc.controller.rates.paths.naming import Prefix
from sdngcc.controller.wire import message, rows

_U32_MAX = 0xFFFFFFFF


class PathMarks(NamedTuple):
    """What is told of one path whose packets were marked."""

    point: Hop  # the port that most of the marks came from
    name: Prefix
    marks: int
    interval_ns: int  # time over which they were counted
    weight_total: int  # such that the steps of all paths of the machine through the port are one machine's


class Telling(NamedTuple):
    """What a machine is told of all that it sends, or of the marks of its paths."""

    pair: Pair  # one of the machine's, behind the port that what it is told of the whole is about
    vm: Hop
    whole: Optional[Notice]  # of all that it sends
    marks: tuple[PathMarks, ...] = ()


@dataclasses.dataclass
class Batch:
    """What machines are told: something of all that each sends, or of its paths, or both.

    Entries are as messages have them; those of a machine stand together, where its row says.  Rows have no versions,
    addresses, epochs and fronts yet (notifier.py).
    """

    pairs: list[Pair]  # of each machine one, as of Telling
    places: list[Hop]
    rows: npt.NDArray[np.void]  # native.NOTICE
    entries: npt.NDArray[np.void]  # rows.ENTRY
    marks: npt.NDArray[np.int64]  # in all that each is told

    def __len__(self) -> int:
        """Return how many machines are told something."""
        return len(self.places)

    def select(self, numbers: Sequence[int]) -> "Batch":
        """Return what some machines are told."""
        return Batch(
            [self.pairs[number] for number in numbers],
            [self.places[number] for number in numbers],
            self.rows[numbers],
            self.entries,
            self.marks[numbers],
        )


@functools.lru_cache(1 << 16)
def teller(point: Hop) -> int:
    """Return the number by which shims know a port: 64 bits, not 0."""
    text = point[0].to_bytes(8, "big") + point[1].to_bytes(4, "big")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") or 1


def _entry(path: PathMarks) -> bytes:
    """Return the entry that tells the marks of a path."""
    entry = message.PathEntry(
        teller(path.point),
        path.name.first,
        path.name.bits,
        weight_total=min(path.weight_total, _U32_MAX),
        marks=min(path.marks, _U32_MAX),
        interval_ns=min(path.interval_ns, _U32_MAX),
    )
    return message.pack_entry(entry, message.TYPE_MARKS)


def _with_levels(tellings: Sequence[Telling]) -> Iterator[tuple[Telling, bool]]:
    """Return what each message is to tell, and whether that is a level: it goes in front of all else."""
    for telling in tellings:
        notice = telling.whole
        if notice is not None and notice.level:
            yield telling._replace(marks=()), True
            if not (notice.rate or notice.marks or telling.marks):
                continue
        yield telling, False


def gather(tellings: Sequence[Telling]) -> Batch:
    """Return what machines are told, in arrays; a machine with a level has a row for it."""
    messages = list(_with_levels(tellings))
    found = np.zeros(len(messages), NOTICE)
    marks = np.zeros(len(messages), np.int64)
    entries: list[bytes] = []
    for row, (telling, level) in enumerate(messages):
        notice = telling.whole
        found["type"][row] = message.TYPE_LEVEL if level else message.TYPE_MARKS
        if notice is not None:
            found["rate"][row] = notice.level if level else notice.rate
            found["weight_total"][row] = min(notice.weight_total, _U32_MAX)
            found["datapath"][row], found["port"][row] = notice.point
            if not level:
                marks[row] = notice.marks
                found["marks"][row] = min(notice.marks, _U32_MAX)
                found["interval_ns"][row] = notice.interval_ns
                if notice.rate:
                    found["type"][row] = message.TYPE_RATE
        found["first"][row] = len(entries)
        entries += [_entry(path) for path in telling.marks]
        found["end"][row] = len(entries)
        marks[row] += sum(path.marks for path in telling.marks)
        if telling.marks:
            found["type"][row] = message.TYPE_MARKS
    return Batch(
        [telling.pair for telling, _ in messages],
        [telling.vm for telling, _ in messages],
        found,
        np.frombuffer(b"".join(entries), rows.ENTRY),
        marks,
    )


def join(first: Batch, second: Batch) -> Batch:
    """Return what two batches tell, in their order."""
    moved = second.rows.copy()
    for name in ("first", "end"):
        moved[name] += len(first.entries)
    return Batch(
        first.pairs + second.pairs,
        first.places + second.places,
        np.concatenate((first.rows, moved)),
        np.concatenate((first.entries, second.entries), dtype=rows.ENTRY),  # else numbers take the machine's order
        np.concatenate((first.marks, second.marks)),
    )
