# SPDX-License-Identifier: Apache-2.0
"""What the demo makes of its runs' results."""

import io

from rich.console import Console

from sdngcc.testbed import demo

RESULT = {
    "parameters": {"phases": [10, 10, 10]},
    "phases": [
        {"name": "competitors", "start_s": 0, "end_s": 10, "goodput_mbps": {"vm1": 0.0}},
        {"name": "all", "start_s": 10, "end_s": 20, "goodput_mbps": {"vm1": 240.0}, "jain": [0.5, 0.6, 0.99, 0.98],
         "utilisation": 0.97},
        {"name": "tagged", "start_s": 20, "end_s": 30, "goodput_mbps": {"vm1": 950.0}},
    ],
    "queue": {"bytes_p99": 45420},
    "series": {"t_s": [0.0, 10.0, 20.0], "goodput_mbps": {"vm1": [0, 240, 950]}},
    "verdicts": [{"holds": True}, {"holds": False}],
}


def test_nine_panels_in_the_order_of_the_page():
    assert [panel.name for panel in demo.PANELS][:4] == ["none-tcp", "none-dctcp", "none-udp", "static-tcp"]
    assert len(demo.PANELS) == 9


def test_a_row_holds_the_papers_four_means_and_the_settled_jain():
    row = demo.summarize(demo.PANELS[0], RESULT)
    assert row["tagged_mbps"] == [0.0, 240.0, 950.0]
    assert row["tagged_mean_mbps"] == 396.7
    assert row["jain_worst"] == 0.98
    assert (row["expectations_held"], row["expectations"]) == (1, 2)


def test_the_table_ends_with_the_papers_optimum():
    text = io.StringIO()
    Console(file=text, width=140).print(demo.table([demo.summarize(panel, RESULT) for panel in demo.PANELS]))
    last = [line for line in text.getvalue().splitlines() if "optimum" in line][-1]
    assert all(word in last for word in ("0", "250", "1000", "416"))
    assert text.getvalue().count("1 of 2") == 9


def test_the_figure_has_a_panel_for_each_control(tmp_path):
    path = tmp_path / "figure.png"
    demo.draw({panel: RESULT for panel in demo.PANELS}, path)
    assert path.read_bytes().startswith(b"\x89PNG")
