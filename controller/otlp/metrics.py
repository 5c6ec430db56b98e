# SPDX-License-Identifier: Apache-2.0
"""What an export of OpenTelemetry metrics says of queues, as SONiC's high-frequency telemetry writes it.

SONiC's countersyncd exports each SAI counter as a metric of its own; numbers are SAI's (object type 21 is a queue, its
statistic 34 WRED_ECN_MARKED_PACKETS):

    resource    attributes: service.name "countersyncd"; a collector on the way can add host.name
    metric      name "sai_counter_type_21_stat_34"; a gauge, though the counter in it only grows
    data point  attributes object_name "Ethernet0|3" (port and queue), sai_type_id "21", sai_stat_id "34";
                time_unix_nano: the ASIC's; value: as_int, in which a counter above 2^63 is negative, or as_double,
                by release

Others may write the same name as a monotonic sum, cumulative or of deltas. Points of other metrics are left out without
being read. Of each series the newest cumulative value of an export is kept, for those before it add nothing; deltas are
added up.

What is refused is counted by kind:

``metric_kind``        neither gauge nor sum        ``not_monotonic``     a sum that may fall
``temporality``        unknown                      ``value_missing``     flagged so, or without a value
``value_malformed``    negative, infinite, no whole number, or beyond 64 bits
``object_malformed``   object_name is no <port>|<queue>
``attribute_malformed`` sai_type_id or sai_stat_id is not that of the metric's name; an attribute given twice
``time_missing``       no time_unix_nano            ``points_too_many``   beyond POINTS_MAX of one export
"""

import collections
import math
import re
from typing import Any, Iterable, NamedTuple, Optional

TYPE_QUEUE = 21
PACKETS, BYTES, DROPPED, MARKED = 0, 1, 2, 34
STATISTICS = (PACKETS, BYTES, DROPPED, MARKED)
POINTS_MAX = 100_000
HOST = "host.name"
_NAME = re.compile(r"sai_counter_type_([0-9]{1,10})_stat_([0-9]{1,10})")
_OBJECT = re.compile(r"([A-Za-z0-9_./-]{1,64})[|:]([0-9]{1,5})")
_WHOLE = 1 << 64
_NO_VALUE = 1  # bit of a data point's flags
_DELTA, _CUMULATIVE = 1, 2  # temporality


class Series(NamedTuple):
    """A counter of a queue."""

    port: str
    queue: int
    statistic: int


class Value(NamedTuple):
    """What an export said of a series; times in ns of the switch's clock."""

    value: int  # below 2^64; the counter, or what it grew by
    time_ns: int  # of the newest point
    start_ns: int  # since when it counts; 0: it does not say
    delta: bool


Values = dict[Series, Value]
Faults = "collections.Counter[str]"


def host_of(resource: Any) -> Optional[str]:
    """Return host.name of a resource, None without a usable one."""
    for attribute in resource.attributes:
        if attribute.key == HOST and attribute.value.WhichOneof("value") == "string_value":
            return str(attribute.value.string_value) or None
    return None


def read(scopes: Iterable[Any], faults: "collections.Counter[str]") -> Values:
    """Return what metrics of a resource (its scope_metrics) say of queues; what is refused is counted."""
    values: Values = {}
    left = POINTS_MAX
    for scope in scopes:
        for metric in scope.metrics:
            found = _NAME.fullmatch(metric.name)
            if found is None or int(found[1]) != TYPE_QUEUE or int(found[2]) not in STATISTICS:
                continue
            kind = metric.WhichOneof("data")
            if kind not in ("gauge", "sum"):
                faults["metric_kind"] += 1
                continue
            points = getattr(metric, kind).data_points
            if len(points) > left:
                faults["points_too_many"] += len(points) - left
            delta = _temporality(metric, kind, faults)
            if delta is not None:
                for point in points[:left]:
                    _take(point, found.groups(), kind, delta, values, faults)
            left -= min(left, len(points))
    return values


def _temporality(metric: Any, kind: str, faults: "collections.Counter[str]") -> Optional[bool]:
    """Tell whether a metric's values are deltas; None when it cannot be used."""
    if kind == "gauge":
        return False
    if not metric.sum.is_monotonic:
        faults["not_monotonic"] += 1
    elif metric.sum.aggregation_temporality not in (_DELTA, _CUMULATIVE):
        faults["temporality"] += 1
    else:
        return bool(metric.sum.aggregation_temporality == _DELTA)
    return None


def _take(
    point: Any,
    numbers: tuple[str, ...],
    kind: str,
    delta: bool,
    values: Values,
    faults: "collections.Counter[str]",
) -> None:
    """Add a data point to the values."""
    series = _series(point, numbers, faults)
    if series is None:
        return
    if not point.time_unix_nano:
        faults["time_missing"] += 1
        return
    value = _value(point, kind, faults)
    if value is None:
        return
    before = values.get(series)
    fresh = Value(value, point.time_unix_nano, point.start_time_unix_nano, delta)
    if before is None:
        values[series] = fresh
    elif not delta:
        if not before.delta and fresh.time_ns > before.time_ns:
            values[series] = fresh
    elif before.delta and fresh.time_ns != before.time_ns:
        starts = [one.start_ns for one in (before, fresh)]
        values[series] = Value(
            min(before.value + value, _WHOLE - 1), max(before.time_ns, fresh.time_ns), min(starts), True
        )


def _series(point: Any, numbers: tuple[str, ...], faults: "collections.Counter[str]") -> Optional[Series]:
    """Return the series of a data point by its attributes."""
    name: Optional[str] = None
    seen = set()
    for attribute in point.attributes:
        key = attribute.key
        if key not in ("object_name", "sai_type_id", "sai_stat_id"):
            continue
        text = _text(attribute.value)
        if key in seen or (key != "object_name" and text != numbers[key == "sai_stat_id"]):
            faults["attribute_malformed"] += 1
            return None
        seen.add(key)
        if key == "object_name":
            name = text
    found = _OBJECT.fullmatch(name or "")
    if found is None:
        faults["object_malformed"] += 1
        return None
    return Series(found[1], int(found[2]), int(numbers[1]))


def _text(value: Any) -> Optional[str]:
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return str(value.string_value)
    return str(value.int_value) if kind == "int_value" else None


def _value(point: Any, kind: str, faults: "collections.Counter[str]") -> Optional[int]:
    """Return a data point's value as a whole number of 64 bits, None when it has none."""
    which = point.WhichOneof("value")
    if point.flags & _NO_VALUE or which is None:
        faults["value_missing"] += 1
        return None
    if which == "as_int":
        whole = int(point.as_int)
        if whole >= 0:
            return whole
        if kind == "gauge":
            return whole + _WHOLE
    else:
        number = float(point.as_double)
        if math.isfinite(number) and 0 <= number < _WHOLE and number.is_integer():
            return int(number)
    faults["value_malformed"] += 1
    return None
