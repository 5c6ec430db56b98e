# SPDX-License-Identifier: Apache-2.0
"""The limiter benchmark: what it makes of arrivals, its rows and tables, the peer's program."""

import io
import struct

import pytest
from click.testing import CliRunner
from rich.console import Console

from sdngcc.testbed.bench import departures, limiter
from sdngcc.testbed.bench.arrivals import burst_of, judge, rate_of
from sdngcc.testbed.bench.limiter_rows import LIMITERS, LOADS, RATES, rate_ns

# 12 Mb/s: a packet of 1,500 bytes each millisecond.
LIMIT = 1_500_000.0


def paced(count, gap_ns=1_000_000, bytes_each=1500):
    return [(number * gap_ns, bytes_each) for number in range(count)]


def test_packets_at_the_limit_have_no_error_and_a_burst_of_one_packet():
    found = judge(paced(1000), LIMIT)
    assert (found["error_percent"], found["burst_bytes"]) == (0.0, 1500)
    assert (found["gap_p50"], found["gap_p99"], found["gap_max"]) == (1.0, 1.0, 1.0)


def test_a_rate_that_is_too_high_is_an_error_and_no_burst():
    found = judge(paced(1000, gap_ns=900_000), LIMIT)
    assert found["error_percent"] == pytest.approx(11.1, abs=0.1) and found["burst_bytes"] == pytest.approx(1500, abs=2)


def test_the_burst_is_the_least_bucket_that_lets_pass_what_came_wherever_it_came():
    train = paced(100) + [(100_000_000, 1500)] * 4 + [(104_000_000 + time, size) for time, size in paced(100)]
    assert burst_of(train, LIMIT) == 4 * 1500
    # A pause before fills the bucket, and no more than that.
    pause = paced(100) + [(900_000_000, 1500)] * 2
    assert burst_of(pause, LIMIT) == 2 * 1500


def test_what_leaves_in_pairs_has_gaps_of_none_and_of_two():
    pairs = [(number // 2 * 2_000_000, 1500) for number in range(1000)]
    found = judge(pairs, LIMIT)
    assert (found["gap_p50"], found["gap_p99"], found["burst_bytes"]) == (0.0, 2.0, 3000)


def test_too_few_packets_say_nothing():
    assert rate_of([(0, 1500)]) == 0.0
    with pytest.raises(ValueError, match="only 9 packets"):
        judge(paced(9), LIMIT)


def test_rates_are_measured_long_enough_to_see_an_error():
    assert all(rate_ns(bits) * bits // 8 // 10**9 // 1514 >= 1999 for bits in RATES)
    assert len({load.name for load in LOADS}) == len(LOADS)


@pytest.mark.parametrize("mark", [False, True])
def test_jumps_of_the_peers_program_end_where_it_passes_or_drops(mark):
    code = departures.program(3, 31_250_000, mark)
    steps = [struct.unpack_from("<BBhi", code, at) for at in range(0, len(code), 8)]
    jumps = {departures.JUMP, departures.EQUAL_CONSTANT, departures.AT_LEAST_CONSTANT}
    ends = {at + 1 + step[2]: step[0] for at, step in enumerate(steps) if step[0] in jumps}
    passes, drops = len(steps) - 4, len(steps) - 2
    assert set(ends) == {passes, drops} and ends[drops] == departures.AT_LEAST_CONSTANT
    assert [steps[at][3] for at in (passes, drops)] == [departures.PASS, departures.SHOT]
    assert (departures.SET_CE in [step[3] for step in steps if step[0] == departures.CALL]) is mark
    # What is paid for leaves before it is marked or bounded: the jump over that goes to where a departure is kept.
    later = next(at + 1 + step[2] for at, step in enumerate(steps) if step[0] == departures.GREATER)
    assert steps[later][:2] == (departures.MOVE, 2 << 4 | 3)


def test_unknown_names_are_refused_with_those_there_are():
    for option, name in (("--limiters", "shim,nonsense"), ("--loads", "rate-5")):
        refused = CliRunner().invoke(limiter.main, [option, name])
        assert refused.exit_code == 2 and f"unknown: {name.split(',')[-1]}; there are" in refused.output


def test_tables_have_a_row_for_each_limiter_and_nothing_for_what_was_not_measured():
    spread = {"p50_us": 1870.0, "p99_us": 1980.0, "max_us": 1990.0}
    found = {"shim": {"rate-1000000": {"error_percent": -0.01, "burst_bytes": 2649, "gap_p50": 1.0, "gap_p99": 1.08},
                      "beside-250000000-cubic": {"part": 0.998, "ping": {**spread, "lost": 3}, "request": spread}},
             "htb": {}}
    output = io.StringIO()
    console = Console(file=output, width=200)
    for table in limiter.tables(found):
        console.print(table)
    text = output.getvalue()
    for cell in ("-0.01", "2,649", "1.00 / 1.08", "1.87", "1.98", "99.8", "beside 128 cubic at 250 Mb/s", "100 Gb/s"):
        assert cell in text
    assert text.count("htb") == 4 and set(found) <= set(LIMITERS)
