# SPDX-License-Identifier: Apache-2.0
"""What is read of ``ovs-appctl shim/show --json``: law, knobs and counters; nothing where there is no shim."""

import json

from sdngcc.testbed.virtual import userspace

SHOWN = [
    {"caption": "Settings in force", "headings": ["setting", "value"],
     "data": [["law", "static"], ["limiter", "pace"], ["knob-rate (bytes/s)", "125"], ["knob-t-us (us)", "7"]]},
    {"caption": "Ports (rates in bit/s)", "headings": ["port", "role"], "data": [["s1", "vm"]]},
    {"caption": "Counters", "headings": ["port", "counter", "value"],
     "data": [["s1", "shim_tx_packets", "3"], ["s1", "shim_drop_police", "1"], ["s3", "shim_tx_packets", "0"]]},
]


class Switch:
    """Stands for an Open vSwitch that shows tables."""

    def __init__(self, tables):
        self.tables = tables

    def appctl(self, *words):
        assert words == ("shim/show", "--json")
        return "".join(json.dumps(table) + "\n" for table in self.tables)


def test_law_knobs_and_counters_are_read():
    switch = Switch(SHOWN)
    assert userspace.law(switch) == "static"
    assert userspace.knobs(switch) == {"rate": 125, "t-us": 7}
    assert userspace.counters(switch) == {"s1": {"tx_packets": 3, "drop_police": 1}, "s3": {"tx_packets": 0}}


def test_without_a_shim_there_is_nothing():
    switch = Switch([])
    assert userspace.law(switch) == "" and not userspace.knobs(switch) and not userspace.counters(switch)
