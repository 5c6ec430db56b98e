# SPDX-License-Identifier: Apache-2.0
"""What bridges told, made readings of the entries of ports, in C: native/reading.c, which has the algebra.

rates/paths/readings.py has what the columns mean.  Their structures are made anew in each period, for arrays are
replaced where they grow.
"""

import ctypes
from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np
import numpy.typing as npt

from sdngcc.controller import native

Columns = Mapping[str, npt.NDArray[Any]]
Ints = npt.NDArray[np.intp]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
States = npt.NDArray[np.int8]

#: Columns of machines and parts, by name, and what they are made of.
MACHINES = {
    **dict.fromkeys(("sent", "rate", "share", "low", "high", "left"), np.float64),
    "drops": np.uint64, "read_ns": np.int64, "uncounted": np.int64,
    **dict.fromkeys(("bound", "limited", "bounded", "fresh"), np.bool_), "firsts": np.int64,
}  # fmt: skip
PARTS = {
    "members": np.int64, "nexts": np.int64, **dict.fromkeys(("counted", "rates", "sent", "lows", "shares"), np.float64),
    "there": np.bool_, "seen": np.bool_,
}  # fmt: skip

_POINTER, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_STATE_BYTES, _PATH_BYTES, _PATH_PORT = 96, 72, 28  # of entries of VM_STATE and HOST_PATHS; where the port is


class Machines(ctypes.Structure):
    """struct native_machines."""

    _fields_ = [(name, _POINTER) for name in MACHINES]


class Parts(ctypes.Structure):
    """struct native_parts."""

    _fields_ = [(name, _POINTER) for name in PARTS]


class _Answers(ctypes.Structure):
    """struct native_answers."""

    _fields_ = [*((name, _POINTER) for name in ("text", "counts", "numbers", "times_ns")), ("count", _SIZE)]


class _Owners(ctypes.Structure):
    """struct native_owners."""

    _fields_ = [*((name, _POINTER) for name in ("members", "parts", "states")), ("count", _SIZE)]


class _Readings(ctypes.Structure):
    """struct native_readings."""

    _fields_ = [*((name, _POINTER) for name in ("places", "sent", "states", "lows")), ("count", _SIZE)]


class Answers(NamedTuple):
    """Entries of bridges' answers, and what they stand for."""

    texts: Sequence[bytes]  # by bridge, its entries
    counts: Ints  # by bridge, how many there are
    numbers: Ints  # by entry, of all bridges: its machine or part; -1: none
    times_ns: npt.NDArray[np.int64]  # by bridge, when the answer came


#: How a machine takes what it is told: struct native_heard.
HEARD = np.dtype([("bridge", np.uint64), *((name, np.uint32) for name in ("port", "messages", "refused", "unused"))])


class Owners(NamedTuple):
    """Which machine and which part rows are of."""

    members: Ints
    parts: Ints  # -1: of all that the machine sends ...
    states: States  # ... which this is what holds it then


def _library() -> Any:
    """Return the library, with the types of this module's functions."""
    found = native.load()
    terms, machines, parts = (ctypes.POINTER(one) for one in (native.Terms, Machines, Parts))
    answers, rows = ctypes.POINTER(_Answers), _POINTER
    for name, *arguments in (
        ("read_states", answers, machines, terms, _POINTER),
        ("compare_states", _POINTER, _POINTER, _POINTER, _SIZE, _POINTER, _POINTER),
        ("same_paths", _POINTER, _POINTER, _POINTER, _SIZE, _SIZE, _POINTER),
        ("read_paths", answers, machines, parts, terms),
        ("count_parts", machines, parts, _POINTER, _SIZE),
        ("divide_parts", machines, parts, terms, _POINTER, _POINTER, _SIZE, _POINTER),
        ("read_rows", rows, ctypes.POINTER(_Owners), machines, parts, terms, _POINTER, ctypes.c_int64),
        ("read", rows, terms, ctypes.POINTER(_Readings)),
        ("judge", rows, terms, _POINTER, _POINTER, _POINTER, _SIZE, ctypes.c_int64, _POINTER),
    ):
        function = getattr(found, f"native_{name}")
        function.argtypes, function.restype = arguments, None
    found.native_read_states.restype = found.native_compare_states.restype = _SIZE
    return found


_LIBRARY = _library()


def address_machines(columns: Columns) -> Machines:
    """Return where the arrays of MACHINES are, as long as each other; ValueError for columns that are none."""
    count = len(columns["sent"])
    return Machines(*(native.column_address(columns, name, kind, count) for name, kind in MACHINES.items()))


def address_parts(columns: Columns) -> Parts:
    """Return where the arrays of PARTS are, as long as each other; ValueError for columns that are none."""
    count = len(columns["members"])
    return Parts(*(native.column_address(columns, name, kind, count) for name, kind in PARTS.items()))


def _address_answers(answers: Answers, entry_bytes: int) -> _Answers:
    """Return where answers are; ValueError where their counts do not fit."""
    texts, counts, numbers, times_ns = answers
    text = b"".join(texts)
    if not len(numbers) == counts.sum() == len(text) / entry_bytes or len(counts) != len(times_ns):
        sizes = f"{len(numbers)} numbers, {len(counts)} counts of {counts.sum()} and {len(times_ns)} times"
        raise ValueError(f"{sizes} are not those of {len(text)} bytes of entries of {entry_bytes}")
    columns = {"counts": counts, "numbers": numbers, "times_ns": times_ns}
    addresses = (native.column_address(columns, name, np.int64, len(column)) for name, column in columns.items())
    found = _Answers(ctypes.cast(ctypes.c_char_p(text), _POINTER), *addresses, len(counts))
    found.kept = text, answers  # for as long as C may look at them
    return found


def compare_states(first: Sequence[bytes], second: Sequence[bytes]) -> tuple[Flags, npt.NDArray[np.void]]:
    """Compare two answers to VM_STATE of each of some bridges, alike long.

    Return whether machines are others or share otherwise in the first one, by bridge, and of all others how those
    machines hear whose counters moved, of type HEARD.
    """
    counts = np.array([len(entries) for entries in first], np.int64) // _STATE_BYTES
    texts = b"".join(first), b"".join(second)
    if len(texts[0]) != len(texts[1]):
        raise ValueError(f"answers of {len(texts[0])} and of {len(texts[1])} bytes are not alike long")
    changed, heard = np.empty(len(first), np.bool_), np.empty(len(texts[0]) // _STATE_BYTES, HEARD)
    count = _LIBRARY.native_compare_states(
        *texts, counts.ctypes.data, len(first), changed.ctypes.data, heard.ctypes.data
    )
    return changed, heard[:count]


def read_states(answers: Answers, machines: Machines, terms: native.Terms) -> Ints:
    """Take entries of VM_STATE; return the numbers of machines that told something since they were read last."""
    fresh = np.empty(len(answers.numbers), np.int64)
    known = _address_answers(answers, _STATE_BYTES)
    count = _LIBRARY.native_read_states(
        ctypes.byref(known), ctypes.byref(machines), ctypes.byref(terms), fresh.ctypes.data
    )
    return fresh[:count]


def same_paths(first: Sequence[bytes], second: Sequence[bytes], devices: bool) -> Flags:
    """Return of two answers to HOST_PATHS of each of some bridges, alike long, whether they are of the same paths.

    ``devices``: machines are known by the kernel's index of their device, not by OpenFlow port.
    """
    counts = np.fromiter(map(len, first), np.int64, len(first)) // _PATH_BYTES
    found = np.empty(len(first), np.bool_)
    texts = b"".join(first), b"".join(second)
    if len(texts[0]) != len(texts[1]):
        raise ValueError(f"answers of {len(texts[0])} and of {len(texts[1])} bytes are not alike long")
    who = 0 if devices else _PATH_PORT
    _LIBRARY.native_same_paths(*texts, counts.ctypes.data, len(first), who, found.ctypes.data)
    return found


def read_paths(answers: Answers, machines: Machines, parts: Parts, terms: native.Terms) -> None:
    """Take entries of HOST_PATHS."""
    known = _address_answers(answers, _PATH_BYTES)
    _LIBRARY.native_read_paths(
        ctypes.byref(known), ctypes.byref(machines), ctypes.byref(parts), ctypes.byref(terms)
    )


def count_parts(machines: Machines, parts: Parts, numbers: Ints) -> None:
    """Find how many parts of some machines no path counted, and what these sent."""
    _LIBRARY.native_count_parts(ctypes.byref(machines), ctypes.byref(parts), numbers.ctypes.data, len(numbers))


def divide_parts(
    machines: Machines, parts: Parts, terms: native.Terms, guarantees: Floats, numbers: Ints, most: int
) -> None:
    """Find what all parts of some machines sent, and their floors; no machine has more than ``most`` parts.

    ``guarantees`` are bytes/s by machine.
    """
    room = np.empty(3 * most)
    _LIBRARY.native_divide_parts(
        ctypes.byref(machines), ctypes.byref(parts), ctypes.byref(terms), guarantees.ctypes.data, numbers.ctypes.data,
        len(numbers), room.ctypes.data,
    )  # fmt: skip


def read_rows(
    columns: Columns,
    owners: Owners,
    machines: Machines,
    parts: Parts,
    terms: native.Terms,
    guarantees: Floats,
    decided_ns: int,
) -> None:
    """Give the rows of a table, whose columns change in place, the readings of their machines where they are fresh."""
    rows, count = native.address_rows(columns), len(columns["numbers"])
    if not len(owners.members) == len(owners.parts) == len(owners.states) == count:
        raise ValueError(f"{len(owners.members)} owners are none of {count} rows")
    known = _Owners(*(column.ctypes.data for column in owners), count)
    _LIBRARY.native_read_rows(
        ctypes.byref(rows), ctypes.byref(known), ctypes.byref(machines), ctypes.byref(parts), ctypes.byref(terms),
        guarantees.ctypes.data, decided_ns,
    )  # fmt: skip


def read(columns: Columns, terms: native.Terms, places: Ints, sent: Floats, states: States, lows: Floats) -> None:
    """Give some rows of a table, whose columns change in place, readings."""
    given = [
        np.ascontiguousarray(column, kind)
        for column, kind in ((places, np.int64), (sent, np.float64), (states, np.int8), (lows, np.float64))
    ]
    if any(len(column) != len(places) for column in given):
        raise ValueError(f"{', '.join(str(len(column)) for column in given)} are not lengths of columns of readings")
    rows = native.address_rows(columns)
    readings = _Readings(*(column.ctypes.data for column in given), len(places))
    _LIBRARY.native_read(ctypes.byref(rows), ctypes.byref(terms), ctypes.byref(readings))


def judge(
    columns: Columns, terms: native.Terms, places: Ints, limits: Floats, limited: Flags, decided_ns: int
) -> States:
    """Return what holds some rows of a table whose rates in force are ``limits``, bytes/s."""
    given = [
        np.ascontiguousarray(column, kind)
        for column, kind in ((places, np.int64), (limits, np.float64), (limited, np.bool_))
    ]
    if any(len(column) != len(places) for column in given):
        raise ValueError(f"{', '.join(str(len(column)) for column in given)} are not lengths of columns of rates")
    rows, found = native.address_rows(columns), np.empty(len(places), np.int8)
    _LIBRARY.native_judge(
        ctypes.byref(rows), ctypes.byref(terms), *(column.ctypes.data for column in given), len(places), decided_ns,
        found.ctypes.data,
    )  # fmt: skip
    return found

