# SPDX-License-Identifier: Apache-2.0
"""The benchmark of many limiters: its figures, its frames, and numbers it refuses."""

from ipaddress import IPv4Address

import pytest
from click.testing import CliRunner

from sdngcc.testbed.bench import destinations, destinations_guest
from sdngcc.testbed.bench.destinations import summarize, table


def test_costs_are_ratios_within_a_round_and_beside_the_fewest_limiters():
    """The host slows down by half in the second round, of all ways alike."""
    found = {"1": {"none": [2e6, 1e6, 2e6], "eyeq": [1e6, 5e5, 1e6]},
             "1000": {"none": [2e6, 1e6, 2e6], "eyeq": [8e5, 4e5, 8e5]}}
    rows = {(row["limiters"], row["way"]): row for row in summarize(found)}
    assert [rows[1, "eyeq"][key] for key in ("ns", "cost", "error", "to_least")] == [1000, 2.0, 0.0, 1.0]
    assert [rows[1000, "eyeq"][key] for key in ("ns", "cost", "error", "to_least")] == [1250, 2.5, 0.0, 1.25]
    assert rows[1000, "none"]["to_least"] == 1.0 and table(list(rows.values())).row_count == 4


def test_a_destinations_report_is_an_ip_packet_to_the_vm():
    frame = destinations_guest.report(IPv4Address("10.1.39.15"), bytes(96))
    assert len(frame) == 14 + 20 + 96 and frame[12:14] == b"\x08\x00" and frame[23] == 253
    assert frame[26:34] == IPv4Address("10.1.39.15").packed + IPv4Address("10.0.0.1").packed
    total = sum(int.from_bytes(frame[at:at + 2], "big") for at in range(14, 34, 2))
    assert (total & 0xffff) + (total >> 16) == 0xffff


@pytest.mark.parametrize("counts, word", [("0", "from 1 to 65000"), ("1,70000", "from 1 to 65000"), ("x", "whole")])
def test_numbers_that_make_no_sense_are_refused(counts, word):
    done = CliRunner().invoke(destinations.main, ["--counts", counts])
    assert done.exit_code == 2 and word in done.output
