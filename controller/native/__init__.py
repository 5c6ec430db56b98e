# SPDX-License-Identifier: Apache-2.0
"""What the controller computes in C: what has to be done for each of thousands of machines and paths in each period.

setup.py builds the functions of native.h into a library beside this file, with the C core's SipHash; ``make setup``
does so in a checkout, Debian's packages bring it.  Arrays go by address and are C-contiguous.
"""

import ctypes
import pathlib
import sysconfig
from collections.abc import Sequence
from typing import Any, Mapping, NamedTuple

import numpy as np
import numpy.typing as npt

#: What one machine is told: struct native_notice.
NOTICE = np.dtype(
    [
        *((name, np.uint64) for name in ("rate", "interval_ns", "datapath")),
        *((name, np.uint32) for name in ("port", "weight_total", "marks", "epoch")),
        *((name, np.uint32) for name in ("first", "end", "front", "front_bytes")),
        *((name, np.uint8) for name in ("version", "type")),
        ("unused", "V6"),
        ("vm", "V16"),
        ("peer", "V16"),
    ]
)
KEY_BYTES = 16
_LARGEST_HEAD = 96  # bytes of a message without entries, at most

_FILE = pathlib.Path(__file__).parent / f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"
_POINTER, _SIZE, _NUMBER = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32

Ends = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.void]
Floats = npt.NDArray[np.float64]


class _Basins(ctypes.Structure):
    """struct native_basins."""

    _fields_ = [
        *((name, _POINTER) for name in ("slopes", "lows", "highs", "starts", "capacities")),
        *((name, _SIZE) for name in ("members", "count")),
    ]


#: Columns of rows, by name, and what they are made of.
COLUMNS = {
    "numbers": np.int64, "parts": np.float64, "lows": np.float64, "states": np.int8, "quiet": np.int8,
    "sent": np.float64, "before": np.float64, "peaks": np.float64, "granted": np.float64, "moved": np.float64,
    "damping": np.float64, "offers": np.float64, "told": np.float64, "former": np.float64, "told_ns": np.int64,
}  # fmt: skip


class _Rows(ctypes.Structure):
    """struct native_rows."""

    _fields_ = [(name, _POINTER) for name in COLUMNS]


def address_rows(columns: Mapping[str, npt.NDArray[Any]]) -> _Rows:
    """Return where the arrays of COLUMNS are; ValueError for columns that are none."""
    count = len(columns["numbers"])
    return _Rows(*(column_address(columns, name, kind, count) for name, kind in COLUMNS.items()))


def column_address(columns: Mapping[str, npt.NDArray[Any]], name: str, kind: type, count: int) -> int:
    """Return where a column of so many numbers of a kind is; ValueError for one that is none."""
    column = columns[name]
    if column.dtype != kind or len(column) != count or not column.flags.c_contiguous:
        raise ValueError(f"column {name} of {len(column)} {column.dtype} is none of {count} {np.dtype(kind)}")
    return column.ctypes.data


class _Sharing(ctypes.Structure):
    """struct native_sharing."""

    _fields_ = [
        *(
            (name, _POINTER)
            for name in ("machine_starts", "group_starts", "port_groups", "weights", "group_weights", "scratch")
        ),
        *((name, _SIZE) for name in ("entries", "machines", "groups", "ports")),
        ("alone", ctypes.c_uint64),
    ]


class Terms(ctypes.Structure):
    """struct native_terms: the numbers of the law that ports.py has."""

    _fields_ = [
        *(
            (name, ctypes.c_double)
            for name in (
                "margin", "standby", "damping", "easing", "rise", "fall", "loose_rise", "loose_fall", "holds", "off",
                "rounding", "rate_min", "rate_max", "binding", "held", "same", "fading",
            )
        ),
        *((name, ctypes.c_int64) for name in ("refresh_ns", "patience_ns", "window", "idle", "here", "elsewhere")),
    ]  # fmt: skip


class Runs(NamedTuple):
    """How rows stand: where runs of them begin, as sharing.py finds it, and weights."""

    machines: npt.NDArray[np.intp]  # by machine at a port, its first row
    groups: npt.NDArray[np.intp]  # by tenant at a port, its first machine
    ports: npt.NDArray[np.intp]  # by port, its first tenant
    weights: Floats  # of machines
    group_weights: Floats  # of tenants
    alone: bool  # each tenant is one machine


def load() -> Any:
    """Return the library, with the types of this module's functions; ImportError where it was not built."""
    try:
        found = ctypes.CDLL(str(_FILE))
    except OSError as error:
        raise ImportError(f"{error}: run `make setup`, which builds it") from error
    found.native_tags.argtypes = (_POINTER, _POINTER, _POINTER, _SIZE, _POINTER)
    found.native_tags.restype = None
    found.native_compose.argtypes = (
        _POINTER, _SIZE, _POINTER, _POINTER, _POINTER, _NUMBER, _NUMBER, _POINTER, _POINTER,
    )  # fmt: skip
    found.native_compose.restype = _SIZE
    for function in (found.native_levels, found.native_grants):
        function.argtypes = (ctypes.POINTER(_Basins), _POINTER)
        function.restype = None
    found.native_share.argtypes = (
        ctypes.POINTER(_Rows), ctypes.POINTER(_Sharing), ctypes.POINTER(Terms), _POINTER, _POINTER, ctypes.c_int64,
        _POINTER,
    )  # fmt: skip
    found.native_share.restype = _SIZE
    return found


_LIBRARY = load()


def _checked(key: bytes) -> bytes:
    if len(key) != KEY_BYTES:
        raise ValueError(f"SipHash key has {len(key)} bytes; it must have {KEY_BYTES}")
    return key


def tags(key: bytes, texts: Sequence[bytes]) -> list[int]:
    """Return SipHash-2-4 of each text under a key; ValueError for one that has not 16 bytes."""
    ends = np.cumsum([len(text) for text in texts], dtype=np.uint64)
    found = np.empty(len(texts), np.uint64)
    _LIBRARY.native_tags(_checked(key), b"".join(texts), ends.ctypes.data, len(texts), found.ctypes.data)
    return found.tolist()  # type: ignore[no-any-return]


def compose(
    notices: Rows, counts: npt.NDArray[np.int64], fronts: Rows, entries: Rows, key: bytes, sender: int, sequence: int
) -> tuple[bytes, Ends]:
    """Return the sealed messages of notices, of type NOTICE, one behind the other, and where each ends.

    ``counts`` is how many messages each takes: 1, or of version 2 one for each 32 of its entries.  These stand in
    ``entries`` as messages have them.  A notice's front, in ``fronts``, is in front of each of its messages.  They are
    numbered from ``sequence`` on.  ValueError for a key that has not 16 bytes.
    """
    room = int(np.dot(counts, notices["front_bytes"].astype(np.int64) + _LARGEST_HEAD)) + entries.nbytes
    out, ends = np.empty(room, np.uint8), np.empty(int(counts.sum()), np.uint64)
    _LIBRARY.native_compose(
        notices.ctypes.data, len(notices), fronts.ctypes.data, entries.ctypes.data, _checked(key), sender, sequence,
        out.ctypes.data, ends.ctypes.data,
    )  # fmt: skip
    return out[: int(ends[-1]) if len(ends) else 0].tobytes(), ends


def levels(slopes: Floats, lows: Floats, highs: Floats, starts: npt.NDArray[np.intp], capacities: Floats) -> Floats:
    """Return the level of each basin (rates/paths/filling.py); members stand together, ``starts`` has each first."""
    found = np.empty(len(starts))
    return _fill(_LIBRARY.native_levels, found, slopes, lows, highs, starts, capacities)


def grants(slopes: Floats, lows: Floats, highs: Floats, starts: npt.NDArray[np.intp], capacities: Floats) -> Floats:
    """Return what the basin of each member would let it take if it alone wanted more; arguments as of levels()."""
    found = np.empty(len(slopes))
    return _fill(_LIBRARY.native_grants, found, slopes, lows, highs, starts, capacities)


def _fill(function: Any, found: Floats, *arrays: npt.NDArray[Any]) -> Floats:
    """Let a function write to ``found`` what it finds of basins."""
    kinds = (np.float64, np.float64, np.float64, np.uint64, np.float64)
    columns = [np.ascontiguousarray(array, kind) for array, kind in zip(arrays, kinds)]
    slopes, lows, highs, starts, capacities = columns
    if not len(slopes) == len(lows) == len(highs) or len(starts) != len(capacities):
        lengths = ", ".join(str(len(array)) for array in columns)
        raise ValueError(f"{lengths} are not lengths of three columns of members and two of basins")
    basins = _Basins(*(array.ctypes.data for array in columns), len(slopes), len(starts))
    function(ctypes.byref(basins), found.ctypes.data)
    return found


def share(
    columns: Mapping[str, npt.NDArray[Any]],
    runs: Runs,
    terms: Terms,
    allowed: Floats,
    engaged: npt.NDArray[np.bool_],
    now_ns: int,
) -> npt.NDArray[np.intp]:
    """Share what engaged ports may carry among the rows of a table, and return the rows of those who are due.

    ``columns`` has the arrays of COLUMNS, which change in place; ``allowed``, bytes/s above 0, and ``engaged`` are by
    port.  ValueError for columns that are none.
    """
    count = len(columns["numbers"])
    machines, groups, ports = (len(starts) for starts in (runs.machines, runs.groups, runs.ports))
    if not len(allowed) == len(engaged) == ports or len(runs.weights) != machines or len(runs.group_weights) != groups:
        raise ValueError(f"{len(allowed)} capacities and {len(engaged)} flags are none of {ports} ports, or weights "
                         "none of their machines and tenants")  # fmt: skip
    rows = address_rows(columns)
    kept = [
        *(np.ascontiguousarray(starts, np.uint64) for starts in (runs.machines, runs.groups, runs.ports)),
        np.ascontiguousarray(runs.weights, np.float64),
        np.ascontiguousarray(runs.group_weights, np.float64),
        np.empty(3 * (count + machines + groups)),
    ]
    sharing = _Sharing(*(array.ctypes.data for array in kept), count, machines, groups, ports, runs.alone)
    bounds, flags = np.ascontiguousarray(allowed, np.float64), np.ascontiguousarray(engaged, np.uint8)
    due = np.empty(count, np.uint64)
    found = _LIBRARY.native_share(
        ctypes.byref(rows), ctypes.byref(sharing), ctypes.byref(terms), bounds.ctypes.data, flags.ctypes.data, now_ns,
        due.ctypes.data,
    )  # fmt: skip
    return due[:found].astype(np.intp)
