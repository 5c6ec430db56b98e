# SPDX-License-Identifier: Apache-2.0
"""Fuzzes exports of OpenTelemetry metrics, one after another: what the receiver makes of them, and the source of that.

The first byte of an input chooses: 1 in it lines of a receiver; else exports, each behind its length in two bytes, with
2 in it six seconds apart.

``python -m sdngcc.controller.tests.otlp.fuzz_otlp [-runs=N] [libFuzzer's options] FOLDER`` ends with status 0 when no
export raised anything but that it is none or took too many steps, all that was handed on is within its bounds, and no
more marks came than values tell of.
"""

import logging
import struct

import atheris

with atheris.instrument_imports(include=["sdngcc.controller.otlp", "sdngcc.controller.sources"]):
    from sdngcc.controller.otlp import metrics, receiver, records
    from sdngcc.controller.sources import otlp as module

from google.protobuf.message import DecodeError

from .. import fuzzing
from ..sources.test_sources_otlp import DPID, EPOCH, MS, Source
from .exporter import Exporter, add_text, point

SWITCHES = {"leaf1": DPID, "10.0.0.9": DPID, "leaf2": 0x1002}
KINDS = {
    "metric_kind", "temporality", "value_malformed", "object_malformed", "attribute_malformed", "time_missing",
    "points_too_many", "not_monotonic", "value_missing", "switch_unknown", "switch_foreign",
}  # fmt: skip
PEERS = (("ipv4:10.0.0.9:5000", []), ("ipv6:%5Bfe80::1%5D:5000", ["leaf2"]), ("ipv6:[::ffff:10.0.0.9]:1", []),
         ("unix:", []))


def check(value):
    """Check a value that is handed on."""
    assert 0 <= value.value < 1 << 64 and 0 < value.time_ns < 1 << 64 and 0 <= value.start_ns < 1 << 64


def export(source, data, number):
    """Give the source what the receiver makes of an export; return the marks that its values tell of at most."""
    peer, names = PEERS[number % len(PEERS)]
    told = 0
    with fuzzing.steps(len(data)):
        try:
            lines, refused = receiver.read_export(data, receiver.peer_address(peer), names, SWITCHES)
        except DecodeError:
            return 0
    assert set(refused) <= KINDS and all(count > 0 for count in refused.values())
    lines.append(records.refusals_line(dict(refused)))
    for line in lines:
        assert len(line) <= records.LINE_MAX_BYTES
        said = records.parse(line)
        if isinstance(said, records.Export):
            for series, value in said.values.items():
                check(value)
                assert series.statistic in metrics.STATISTICS and 0 <= series.queue <= 99_999
                told += value.value if series.statistic == metrics.MARKED else 0
        with fuzzing.steps(len(data) + len(line)):
            source.source.feed(line, source.now_ns)
    return told


def take_exports(data, step_ms):
    """Take an input's exports."""
    source, number, told = Source(), 0, 0
    source.source.feed(records.listening_line(4317), source.now_ns)
    while len(data) > 2 and number < 16:
        length = struct.unpack_from("!H", data)[0]
        source.now_ns += step_ms * MS
        told += export(source, data[2 : 2 + length], number)
        fresh = source.source.close_window(source.now_ns)
        assert all(one.marks > 0 and one.interval_ns > 0 for one in fresh)
        data, number = data[2 + length :], number + 1
    assert all(sum(switch.totals.values()) <= told + (number << 64) for switch in source.source.switches.values())
    assert all(len(switch.series) <= module.SERIES_MAX for switch in source.source.switches.values())
    assert all(count > 0 for count in source.source.faults.values())
    source.source.readings(DPID)
    source.source.counted(DPID)
    source.source.origins(source.now_ns)
    source.source.forget(DPID, 3)
    source.source.forget(DPID)


def take_lines(data):
    """Read an input's lines as those of a receiver."""
    for line in data.split(b"\n"):
        with fuzzing.steps(len(line)):
            try:
                records.parse(line)
            except ValueError as error:
                assert str(error)


def take(data):
    """Take an input."""
    if data:
        if data[0] & 1:
            take_lines(data[1:])
        else:
            take_exports(data[1:], 6000 if data[0] & 2 else 10)


def exports(*some):
    """Return an input of exports."""
    return b"\0" + b"".join(struct.pack("!H", len(one)) + one for one in (one.bytes() for one in some))


def later(exported):
    """Return the same input with more time between its exports."""
    return b"\2" + exported[1:]


def gauges(*values, statistic=34, host="leaf1"):
    """Return an export of gauges; stamps are the switch's."""
    return Exporter(host).gauges([(name, value, EPOCH + stamp * MS) for name, value, stamp in values], statistic)


def odd():
    """Return exports whose points are refused, each in another way."""
    made = Exporter()
    for points in (made.metric(99), made.metric(34, 1)):
        point(points.gauge.data_points, "Ethernet0|3", 1, EPOCH)
    made.metric().summary.data_points.add()
    for name, value, stamp in (("Ethernet0", 1, EPOCH), ("Ethernet0|3", 1, 0), ("Ethernet0:3", 0.5, EPOCH),
                               ("Ethernet0|3", float("nan"), EPOCH), ("Ethernet0|3", -1.0, EPOCH)):  # fmt: skip
        point(made.metric().gauge.data_points, name, value, stamp)
    point(made.metric().gauge.data_points, "Ethernet0|3", 1, EPOCH).flags = 1
    twice = point(made.metric().gauge.data_points, "Ethernet0|3", 1, EPOCH)
    add_text(twice.attributes, "object_name", "Ethernet0|3")
    number = made.metric().gauge.data_points.add()
    number.time_unix_nano = EPOCH
    attribute = number.attributes.add()
    attribute.key, attribute.value.int_value = "sai_type_id", 21
    attribute = number.attributes.add()
    attribute.key, attribute.value.bool_value = "sai_stat_id", True
    return made


E03 = "Ethernet0|3"
SUM = [(E03, 5, EPOCH + 10 * MS, EPOCH)]
SEEDS = (
    exports(gauges((E03, 5, 10), ("Ethernet4|3", 2**63 + 1, 10)),
            *[gauges((E03, 9, 20), ("Ethernet4|3", 2**63 + 5, 20))] * 2,
            gauges((E03, 1, 30)), gauges((E03, 4, 25)), gauges((E03, 4, 2000)), gauges((E03, 9, 6000))),
    exports(gauges(("Ethernet9|1", 5, 10)), gauges((E03, 5, 10), host="leaf2"), gauges((E03, 5, 10), host="leaf9"),
            gauges((E03, 5, 10), host=None), gauges((E03, 5, 10), statistic=0), gauges((E03, 7.0, 10))),
    exports(Exporter().sums(SUM, 2), Exporter().sums([(E03, 7, EPOCH + 20 * MS, EPOCH)], 2),
            Exporter().sums([(E03, 9, EPOCH + 30 * MS, EPOCH + 5 * MS)], 2), Exporter().sums(SUM, 0),
            Exporter().sums(SUM, 2, monotonic=False)),
    exports(Exporter().sums(SUM, 1), Exporter().sums([(E03, 5, EPOCH + 20 * MS, EPOCH + 10 * MS)], 1),
            Exporter().sums([(E03, 5, EPOCH + 30 * MS, EPOCH + 15 * MS)], 1), Exporter().sums([(E03, -5, EPOCH, 0)], 1),
            Exporter().sums([*SUM, (E03, 6, EPOCH + 20 * MS, EPOCH + 10 * MS)], 1)),
    later(exports(gauges((E03, 5, 6000)), gauges((E03, 9, 5)), gauges((E03, 11, 4)), gauges((E03, 12, 30_000)))),
    later(exports(Exporter().sums([(E03, 5, EPOCH + 9 * MS, EPOCH)], 1), Exporter().sums(SUM, 1),
                  Exporter().sums([(E03, 5, EPOCH + 5 * MS, EPOCH)], 1))),
    exports(gauges((E03, 1, 1), (E03, 2, 2))), exports(odd()), b"\0\0\5hello",
    b"\1" + records.listening_line(7) + records.refusals_line({"malformed": 3}),
    exports(*(gauges((E03, 5 + number, 10 * number)) for number in range(4)),
            *(gauges((E03, 50 + number, 10**6 * number)) for number in range(4))),
    b"\1" + b'{"dpid":4097,"values":[["Ethernet0",3,34,5,1,0,false]]}\n{"x":1}\n[1]\n' + b"[" * 5000,
)  # fmt: skip


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    fuzzing.fuzz(take, SEEDS)
