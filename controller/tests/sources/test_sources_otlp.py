# SPDX-License-Identifier: Apache-2.0
"""Counters of OpenTelemetry exports become marks: none invented, none twice, whatever clocks and networks do."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdngcc.controller.network.topology import Port, Topology
from sdngcc.controller.otlp.metrics import BYTES, DROPPED, MARKED, PACKETS, Series, Value
from sdngcc.controller.otlp.records import Export, export_lines, refusals_line
from sdngcc.controller.settings import Settings, SettingsError
from sdngcc.controller.settings.files import check_files
from sdngcc.controller.sources import PortMarks
from sdngcc.controller.sources.otlp import SERIES_MAX, OtlpMarks

MS = 1_000_000
DPID = 0x1001
EPOCH = 1_790_000_000_000_000_000  # the switch's clock is another one


class Source:
    """The source under test, and the switch's clock beside its own."""

    def __init__(self, **changes):
        topology = Topology()
        topology.add_switch(DPID, {7: Port("Ethernet4", bytes(6), True, 0)})
        chosen = {"otlp_switches": ("leaf1=1001",), "otlp_ports": ("1001/Ethernet0=3",), **changes}
        self.source = OtlpMarks.make(Settings(notify=False, mark_source="otlp", **chosen), topology)
        self.now_ns = 50_000 * MS
        self.offset_ns = EPOCH

    def take(self, values, after_ms=10, stamp_ms=None, start=0, delta=False, statistic=MARKED):
        """Take {(port, queue): value}; return the marks that it shows."""
        self.now_ns += after_ms * MS
        stamp = self.now_ns + self.offset_ns if stamp_ms is None else stamp_ms * MS + self.offset_ns
        self.source.take_export(
            Export(DPID, {Series(*one, statistic): Value(value, stamp, start, delta) for one, value in values.items()}),
            self.now_ns,
        )
        return self.source.close_window(self.now_ns)


E03, E00, E43 = ("Ethernet0", 3), ("Ethernet0", 0), ("Ethernet4", 3)


def test_baseline_then_marks_by_port():
    source = Source()
    assert source.take({E03: 5, E00: 5, E43: 5}) == []
    assert source.source.counted(DPID) and not source.source.counted(7)
    told = source.take({E03: 10, E00: 7, E43: 6})
    assert told == [PortMarks((DPID, 3), 7, 10 * MS), PortMarks((DPID, 7), 1, 10 * MS)]
    assert source.take({E03: 10, E00: 7, E43: 6}) == []
    shown = source.source.readings(DPID)
    assert shown[3].marks == 7 and shown[7].marks == 1 and shown[3].packets is None


def test_other_counters_are_shown():
    source = Source()
    for statistic, value in ((PACKETS, 9), (BYTES, 9000), (DROPPED, 2)):
        source.take({E03: value, E00: 1}, statistic=statistic)
    shown = source.source.readings(DPID)[3]
    assert (shown.packets, shown.bytes, shown.drops, shown.marks) == (10, 9001, 3, None)
    assert not source.source.counted(DPID)


def test_the_interval_is_that_of_the_stamps_not_of_arrival():
    """Two exports that come together after a pause were counted one after the other."""
    source = Source()
    for number in range(12):
        source.take({E03: number}, after_ms=100)
    held = source.now_ns // MS + 100
    assert source.take({E03: 100}, after_ms=300, stamp_ms=held) == [PortMarks((DPID, 3), 89, 100 * MS)]
    assert source.take({E03: 200}, after_ms=1, stamp_ms=held + 100) == [PortMarks((DPID, 3), 100, 100 * MS)]


@pytest.mark.parametrize(
    ("before", "after", "marks", "resets"),
    [(2**64 - 3, 4, 7, 0), (2**32 - 1, 2**32 + 1, 2, 0), (2**32 - 1, 4, None, 1), (900, 40, None, 1)],
    ids=["64 bits wrap", "32 bits pass", "no wrap of 32 bits", "reset"],
)
def test_wrap_and_reset(before, after, marks, resets):
    source = Source()
    source.take({E03: before})
    assert [one.marks for one in source.take({E03: after})] == ([marks] if marks else [])
    assert source.source.resets == resets
    assert [one.marks for one in source.take({E03: after + 2})] == [2]


def test_a_start_time_that_changes_is_a_reset():
    source = Source()
    source.take({E03: 5}, start=10)
    assert source.take({E03: 50}, start=20) == [] and source.source.resets == 1
    assert [one.marks for one in source.take({E03: 52}, start=20)] == [2]


def test_what_comes_twice_or_late_counts_once():
    source = Source()
    source.take({E03: 5})
    first = source.now_ns // MS
    assert [one.marks for one in source.take({E03: 9})] == [4]
    assert source.take({E03: 9}, stamp_ms=first + 10) == [] and source.source.faults["duplicate"] == 1
    assert source.take({E03: 5}, stamp_ms=first) == [] and source.source.faults["reordered"] == 1
    assert [one.marks for one in source.take({E03: 10})] == [1]


def test_a_clock_that_was_set_back_is_followed_after_a_while():
    source = Source()
    source.take({E03: 5})
    source.offset_ns -= 3_600_000 * MS
    for _ in range(6):
        assert source.take({E03: 7}, after_ms=1000) == []
    assert source.source.faults == {"reordered": 5, "clock_back": 1}
    assert [one.marks for one in source.take({E03: 9}, after_ms=1000)] == [2]


def test_a_stamp_of_the_far_future_stops_a_series_for_seconds_only():
    source = Source()
    source.take({E03: 5})
    source.take({E03: 6}, stamp_ms=10**12)
    for _ in range(6):
        assert source.take({E03: 7}, after_ms=1000) == []
    assert [one.marks for one in source.take({E03: 9}, after_ms=1000)] == [2]


@pytest.mark.parametrize("factor", [0.001, 1000])
def test_stamps_in_another_unit_give_way_to_arrival(factor):
    source = Source()
    for number in range(25):
        told = source.take({E03: 10 * number}, after_ms=100, stamp_ms=round(number * 100_000 * factor) / 1000)
    assert source.source.faults["clock_rate"] >= 1
    assert told == [PortMarks((DPID, 3), 10, 100 * MS)]


def test_deltas_count_once():
    source = Source()
    at = source.now_ns + EPOCH
    assert source.take({E03: 4}, delta=True, start=at) == [PortMarks((DPID, 3), 4, 10 * MS)]
    assert source.take({E03: 6}, delta=True, start=at + 10 * MS) == [PortMarks((DPID, 3), 6, 10 * MS)]
    assert source.take({E03: 9}, delta=True, start=at + 10 * MS) == [] and source.source.faults["overlapping"] == 1
    assert source.source.readings(DPID)[3].marks == 10
    other = Source()
    assert other.take({E03: 4}, delta=True) == []  # since when is not told


def test_a_long_pause_is_scaled_to_the_usual_interval():
    source = Source()
    for _ in range(12):
        source.take({E03: 0}, after_ms=100)
    [told] = source.take({E03: 6000}, after_ms=60_000)
    assert told.interval_ns <= 60_000 * MS and told.marks / told.interval_ns == pytest.approx(6000 / 60_000 / MS, 0.01)
    source.take({E03: 6000}, after_ms=100)
    assert source.source.news.interval_ns(DPID, source.now_ns) == 100 * MS


def test_unknown_ports_and_too_many_series_are_counted(monkeypatch):
    source = Source()
    source.take({("Ethernet8", 1): 1, E03: 1})
    assert source.source.faults["port_unknown"] == 1
    monkeypatch.setattr("sdngcc.controller.sources.otlp.SERIES_MAX", 2)
    source.take({E00: 1, E43: 1})
    assert source.source.faults["series_too_many"] == 1 and SERIES_MAX == 32_768
    source.take({E43: 1}, after_ms=120_000)  # the others are old by now
    assert source.source.faults["series_too_many"] == 1 and source.source.readings(DPID)[7].marks == 0


def test_news_is_a_round_of_exports_not_a_part_of_one():
    source = Source()
    for _ in range(10):
        source.take({E03: 1}, after_ms=98)
        source.take({E00: 1}, after_ms=1)
        source.take({E43: 1}, after_ms=1)
    assert source.source.news.interval_ns(DPID, source.now_ns) == 100 * MS
    assert source.source.freshness_ns == 100 * MS
    [receiver, leaf] = source.source.origins(source.now_ns)
    assert leaf["state"] == "fresh" and leaf["switch"] == f"{DPID:016x}" and receiver["state"] == "new"


def test_a_switch_that_falls_silent_is_shown():
    source = Source()
    for _ in range(10):
        source.take({E03: 1})
    source.source._watch(source.now_ns + 20 * MS)
    assert source.source.origins(source.now_ns)[1]["state"] == "fresh"
    source.source._watch(source.now_ns + 40 * MS)
    assert source.source.origins(source.now_ns)[1]["state"] == "silent"
    source.take({E03: 1}, after_ms=50)
    assert source.source.origins(source.now_ns)[1]["state"] == "slow"
    source.take({E03: 1})
    assert source.source.origins(source.now_ns)[1]["state"] == "fresh"


def test_a_port_that_was_forgotten_begins_anew():
    source = Source()
    source.take({E03: 5, E43: 5})
    source.source.forget(DPID, 3)
    assert [one.point for one in source.take({E03: 9, E43: 9})] == [(DPID, 7)]
    source.source.forget(DPID)
    assert source.take({E03: 19, E43: 19}) == []
    source.source.forget(0x9999)


def test_lines_of_the_receiver_are_taken():
    source = Source()
    for value in (5, 8):
        [line] = export_lines(DPID, {Series("Ethernet0", 3, MARKED): Value(value, EPOCH + value, 0, False)})
        source.source.feed(line, source.now_ns)
    source.source.feed(refusals_line({"malformed": 2}), source.now_ns)
    assert [one.marks for one in source.source.close_window(source.now_ns)] == [3]
    assert source.source.faults["malformed"] == 2
    with pytest.raises(ValueError):
        source.source.feed(b"{}", source.now_ns)
    foreign = export_lines(0x9999, {Series("Ethernet0", 3, MARKED): Value(1, 1, 0, False)})
    source.source.feed(foreign[0], source.now_ns)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(
    history=st.lists(
        st.tuples(st.integers(0, 2**64 - 1), st.integers(1, 2**64 - 1), st.integers(0, 2**64 - 1), st.booleans(),
                  st.integers(0, 10**10)),
        max_size=20,
    )
)  # fmt: skip
def test_whatever_is_exported_marks_are_counts_over_some_time(history):
    source = Source().source
    now = 10**12
    for value, stamp, start, delta, after in history:
        now += after
        source.take_export(Export(DPID, {Series("Ethernet0", 3, MARKED): Value(value, stamp, start, delta)}), now)
        for told in source.close_window(now):
            assert told.marks > 0 and told.interval_ns > 0


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_of_a_cumulative_counter_no_mark_is_lost_or_doubled(data):
    """Exports that are delayed, repeated and swapped sum up to what the counter grew by."""
    source = Source()
    values = [0]
    for _ in range(data.draw(st.integers(1, 15))):
        values.append(values[-1] + data.draw(st.integers(0, 1000)))
    exports = [(index, value) for index, value in enumerate(values)]
    order = exports[:1]
    for one in exports[1:]:
        order += [one] * data.draw(st.integers(0, 2))
    for index in range(1, len(order) - 1):
        if data.draw(st.booleans()):
            order[index], order[index + 1] = order[index + 1], order[index]
    for index, value in order:
        source.take({E03: value}, after_ms=1, stamp_ms=10 * index + 1)
    assert source.source.readings(DPID)[3].marks == max(value for _, value in order) - order[0][1]


def test_files_are_tried_before_anything_starts(tmp_path):
    files = {f"otlp_tls_{name}": tmp_path / name for name in ("key", "cert", "ca")}
    with pytest.raises(SettingsError, match=r"otlp_tls_key .*No such file"):
        check_files(Settings(notify=False, **files))
    for path in files.values():
        path.write_text("no PEM")
    with pytest.raises(SettingsError, match="otlp_tls_cert .* and otlp_tls_key .*no certificate and its private key"):
        check_files(Settings(notify=False, **files))
    with pytest.raises(SettingsError, match="otlp_tls_key"):
        Source(**{**files, "otlp_tls_key": tmp_path / "missing"})


@pytest.mark.parametrize(
    ("changes", "fault"),
    [({"otlp_switches": ()}, "otlp_switches is needed"),
     ({"otlp_switches": ("leaf1=1", "leaf1=2")}, "named twice"),
     ({"otlp_listen": "0.0.0.0:4317"}, "otlp_tls_key, otlp_tls_cert, otlp_tls_ca are needed"),
     ({"otlp_listen": "4317"}, "<address>:<port>"),
     ({"otlp_tls_key": "k"}, "otlp_tls_cert and otlp_tls_ca: needed"),
     ({"otlp_tls_crl": "k"}, "otlp_tls_crl: certificates are shown with otlp_tls_key"),
     ({"otlp_ports": ("1001/Ethernet0",)}, "<port>")],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(changes, fault):
    with pytest.raises((ValueError, SettingsError), match=fault):
        Source(**changes)
