# SPDX-License-Identifier: Apache-2.0
"""Exports as SONiC's countersyncd writes them, by its sources of 2026; no switch was to be had to record one from."""

from typing import Any, Iterable, Optional

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, NumberDataPoint

MARKED = 34
MS = 1_000_000


def add_text(attributes: Any, key: str, text: str) -> None:
    attribute = attributes.add()
    attribute.key = key
    attribute.value.string_value = text


def point(
    points: Any, name: str, value: Any, time_ns: int, statistic: int = MARKED, start_ns: int = 0
) -> NumberDataPoint:
    """Add a data point of a queue's counter, as_int of a whole number of 64 bits, as_double of a float."""
    made = points.add()
    made.time_unix_nano = time_ns
    made.start_time_unix_nano = start_ns
    if isinstance(value, float):
        made.as_double = value
    else:
        made.as_int = value - (1 << 64) if value >= 1 << 63 else value
    for key, text in (("object_name", name), ("sai_type_id", "21"), ("sai_stat_id", str(statistic))):
        add_text(made.attributes, key, text)
    return made


class Exporter:
    """One request, filled step by step."""

    def __init__(self, host: Optional[str] = "leaf1") -> None:
        self.request = ExportMetricsServiceRequest()
        resource = self.request.resource_metrics.add()
        add_text(resource.resource.attributes, "service.name", "countersyncd")
        if host is not None:
            add_text(resource.resource.attributes, "host.name", host)
        self.scope = resource.scope_metrics.add()
        self.scope.scope.name, self.scope.scope.version = "countersyncd", "1.0"

    def metric(self, statistic: int = MARKED, type_id: int = 21) -> Metric:
        made = self.scope.metrics.add()
        made.name = f"sai_counter_type_{type_id}_stat_{statistic}"
        made.description = f"SAI counter (type:{type_id}, stat:{statistic})"
        return made

    def gauges(self, values: Iterable[tuple[str, Any, int]], statistic: int = MARKED) -> "Exporter":
        """Add (object name, value, time) as gauges, a metric each, as countersyncd does."""
        for name, value, time_ns in values:
            point(self.metric(statistic).gauge.data_points, name, value, time_ns, statistic)
        return self

    def sums(self, values: Iterable[tuple[str, Any, int, int]], temporality: int, monotonic: bool = True) -> "Exporter":
        """Add (object name, value, time, start) as a sum."""
        total = self.metric().sum
        total.aggregation_temporality, total.is_monotonic = temporality, monotonic
        for name, value, time_ns, start_ns in values:
            point(total.data_points, name, value, time_ns, start_ns=start_ns)
        return self

    def bytes(self) -> bytes:
        return self.request.SerializeToString()
