# SPDX-License-Identifier: Apache-2.0
"""What an export says is read as written, and nothing it holds does more than be refused."""

import collections

import pytest
from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1 import metrics_pb2

from sdngcc.controller.otlp import metrics
from sdngcc.controller.otlp.metrics import BYTES, MARKED, Series, Value
from sdngcc.controller.otlp.receiver import peer_address, read_export, speakers
from sdngcc.controller.otlp.records import VALUES_MAX, Export, parse

from .exporter import MS, Exporter, add_text, point

Q3 = Series("Ethernet0", 3, MARKED)
SWITCHES = {"leaf1": 0x1001, "10.0.0.7": 0x1002}


def read(exporter):
    faults = collections.Counter()
    return metrics.read(exporter.request.resource_metrics[0].scope_metrics, faults), dict(faults)


@pytest.mark.parametrize("value", [7, 7.0, 0, 2**64 - 1, 2**63, float(2**53)])
def test_a_gauge_of_a_queue_is_its_counter(value):
    values, faults = read(Exporter().gauges([("Ethernet0|3", value, 5 * MS)]))
    assert values == {Q3: Value(int(value), 5 * MS, 0, False)} and not faults


@pytest.mark.parametrize("name", ["Ethernet0|3", "Ethernet0:3"])
def test_both_ways_to_write_a_queue_are_known(name):
    assert list(read(Exporter().gauges([(name, 7, 1)]))[0]) == [Q3]


def test_other_metrics_are_left_out_unread():
    exporter = Exporter().gauges([("Ethernet0|3", 7, 1)], statistic=BYTES)
    exporter.metric(0, type_id=1).gauge.data_points.add()
    exporter.metric(35).gauge.data_points.add()
    exporter.scope.metrics.add().name = "cpu.load"
    assert read(exporter) == ({Series("Ethernet0", 3, BYTES): Value(7, 1, 0, False)}, {})


def test_of_a_series_the_newest_value_is_kept():
    exporter = Exporter().gauges([("Ethernet0|3", 7, 2), ("Ethernet0|3", 9, 3), ("Ethernet0|3", 5, 1)])
    assert read(exporter)[0] == {Q3: Value(9, 3, 0, False)}


def test_sums_say_what_they_count():
    assert read(Exporter().sums([("Ethernet0|3", 7, 9, 4)], 2)) == ({Q3: Value(7, 9, 4, False)}, {})
    deltas = [("Ethernet0|3", 7, 9, 4), ("Ethernet0|3", 2, 12, 9), ("Ethernet0|3", 2, 12, 9)]
    assert read(Exporter().sums(deltas, 1)) == ({Q3: Value(9, 12, 4, True)}, {})


def spoiled(name):
    exporter = Exporter()
    metric = exporter.metric()
    if name == "metric_kind":
        metric.histogram.data_points.add()
    elif name == "not_monotonic":
        return Exporter().sums([("Ethernet0|3", 7, 9, 4)], 2, monotonic=False)
    elif name == "temporality":
        return Exporter().sums([("Ethernet0|3", 7, 9, 4)], 0)
    else:
        made = point(metric.gauge.data_points, "Ethernet0|3", 7, 5)
        if name == "value_missing":
            made.flags = metrics_pb2.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK
        elif name == "time_missing":
            made.time_unix_nano = 0
        elif name == "attribute_malformed":
            made.attributes[2].value.string_value = "35"
        else:
            del made.attributes[0]
    return exporter


@pytest.mark.parametrize(
    "kind",
    ["metric_kind", "not_monotonic", "temporality", "value_missing", "time_missing", "attribute_malformed",
     "object_malformed"],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_by_kind(kind):
    assert read(spoiled(kind)) == ({}, {kind: 1})


@pytest.mark.parametrize("value", [-1.0, 0.5, float("nan"), float("inf"), 2.0**64, -1e300])
def test_a_value_that_is_no_count_is_refused(value):
    assert read(Exporter().gauges([("Ethernet0|3", value, 5)])) == ({}, {"value_malformed": 1})


def test_a_sum_below_zero_is_refused():
    exporter = Exporter().sums([("Ethernet0|3", 1, 5, 1)], 2)
    exporter.scope.metrics[0].sum.data_points[0].as_int = -1
    assert read(exporter) == ({}, {"value_malformed": 1})


@pytest.mark.parametrize("name", ["", "Ethernet0", "Ethernet0|", "Ethernet0|x", "E" * 65 + "|1", "a|1|2", "Eth\n|1"])
def test_an_object_that_is_no_queue_is_refused(name):
    assert read(Exporter().gauges([(name, 1, 5)])) == ({}, {"object_malformed": 1})


def test_an_attribute_given_twice_is_refused():
    exporter = Exporter().gauges([("Ethernet0|3", 1, 5)])
    add_text(exporter.scope.metrics[0].gauge.data_points[0].attributes, "object_name", "Ethernet4|3")
    assert read(exporter) == ({}, {"attribute_malformed": 1})


def test_points_beyond_the_bound_are_counted(monkeypatch):
    monkeypatch.setattr(metrics, "POINTS_MAX", 3)
    exporter = Exporter().gauges([(f"Ethernet{number}|3", 1, 5) for number in range(5)])
    values, faults = read(exporter)
    assert len(values) == 3 and faults == {"points_too_many": 2}


# Whole exports


def exported(data, peer="10.0.0.9", names=()):
    lines, refused = read_export(data, peer, list(names), SWITCHES)
    return [parse(line) for line in lines], dict(refused)


def test_a_switch_is_known_by_its_host_name_or_its_address():
    for exporter, peer, dpid in ((Exporter(), "10.0.0.9", 0x1001), (Exporter(host=None), "10.0.0.7", 0x1002)):
        [export], refused = exported(exporter.gauges([("Ethernet0|3", 7, 5)]).bytes(), peer)
        assert export == Export(dpid, {Q3: Value(7, 5, 0, False)}) and not refused
    assert exported(Exporter("leaf9").gauges([("Ethernet0|3", 7, 5)]).bytes()) == ([], {"switch_unknown": 1})


def test_who_has_a_switchs_certificate_speaks_for_no_other():
    data = Exporter("leaf1").gauges([("Ethernet0|3", 7, 5)]).bytes()
    assert len(exported(data, names=["leaf1"])[0]) == 1
    assert len(exported(data, names=["collector"])[0]) == 1
    assert exported(data, names=["10.0.0.7"]) == ([], {"switch_foreign": 1})
    assert speakers(SWITCHES, ["leaf1", "other"]) == {"leaf1": 0x1001}


def test_a_long_export_is_told_in_parts():
    data = Exporter().gauges([(f"Ethernet{number}|3", number, 5) for number in range(VALUES_MAX + 1)]).bytes()
    told, _ = exported(data)
    assert [len(one.values) for one in told] == [VALUES_MAX, 1]


@pytest.mark.parametrize(
    ("peer", "address"),
    [("ipv4:10.0.0.1:5000", "10.0.0.1"), ("ipv6:%5Bfe80::1%5D:5000", "fe80::1"),
     ("ipv6:[::ffff:10.0.0.1]:5", "10.0.0.1"), ("unix:/tmp/x", ""), ("", "")],
)  # fmt: skip
def test_addresses_as_grpc_names_them(peer, address):
    assert peer_address(peer) == address


# Whatever comes

TEXT = st.sampled_from(["Ethernet0|3", "21", "34", "", "object_name", "host.name", "leaf1"]) | st.text(max_size=8)
WHOLE = st.integers(0, 2**64 - 1)


@st.composite
def exports(draw):
    """Requests of the right messages with anything in them."""
    exporter = Exporter(draw(TEXT))
    for _ in range(draw(st.integers(0, 4))):
        metric = exporter.metric(draw(st.sampled_from([0, 34, 99])))
        kind = draw(st.sampled_from(["gauge", "sum", "histogram", "summary", None]))
        if kind is None:
            continue
        data = getattr(metric, kind)
        data.SetInParent()
        if kind == "sum":
            data.is_monotonic, data.aggregation_temporality = draw(st.booleans()), draw(st.integers(0, 3))
        for _ in range(draw(st.integers(0, 4))):
            made = data.data_points.add()
            made.time_unix_nano, made.start_time_unix_nano = draw(WHOLE), draw(WHOLE)
            if kind in ("gauge", "sum"):
                made.flags = draw(st.integers(0, 3))
                if draw(st.booleans()):
                    made.as_int = draw(st.integers(-(2**63), 2**63 - 1))
                elif draw(st.booleans()):
                    made.as_double = draw(st.floats())
            for _ in range(draw(st.integers(0, 4))):
                add_text(made.attributes, draw(TEXT), draw(TEXT))
    return exporter.bytes()


@settings(max_examples=200, deadline=None, derandomize=True, database=None,
          suppress_health_check=[HealthCheck.too_slow])  # fmt: skip
@given(data=exports())
def test_whatever_an_export_holds_is_read_or_refused(data):
    told, refused = exported(data)
    for export in told:
        assert export.dpid in SWITCHES.values()
        for series, value in export.values.items():
            assert 0 <= value.value < 2**64 and 0 < value.time_ns < 2**64 and series.statistic in metrics.STATISTICS
    assert all(count > 0 for count in refused.values())


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_an_export_with_bytes_changed_is_read_or_refused(data):
    whole = bytearray(Exporter().gauges([("Ethernet0|3", 7, 5), ("Ethernet4|1", 2**63, 6)]).bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    for one in (bytes(whole), cut, data.draw(st.binary(max_size=64))):
        try:
            exported(one)
        except DecodeError:
            continue


@pytest.mark.parametrize("line", [b"", b"7", b"[]", b"null", b'{"values":1}', b'{"dpid":1}', b"[" * 5000, b"\xff"])
def test_a_line_that_no_receiver_writes_is_refused(line):
    with pytest.raises(ValueError):
        parse(line)
