# SPDX-License-Identifier: Apache-2.0
"""sdngcc top against a stand-in for the controller's event stream."""

import json

import click.testing
import pytest

from sdngcc.main import main

from . import stand_in


def vm(place, sent, state="active"):
    return {"place": place, "id": f"vm-{place}", "name": "tap", "state": state, "rate_bps": 200_000_000,
            "share_bps": 500_000_000, "sent_bps": sent, "weight": 1, "min_bps": 0, "max_bps": 0, "drops": 3, "marks": 4}


def port(place, congested):
    return {"place": place, "name": f"eth{place}", "up": True, "congested": congested, "marks_per_s": 1234.0,
            "tx_bps": 1e9}


STREAM = [
    ("vms", {"full": True, "vms": [vm("1", 10_000_000), vm("2", 20_000_000, "congested")], "gone": []}),
    ("ports", {"full": True, "ports": [port("7", True), port("8", False)], "gone": []}),
    ("notice", {"notices": []}),
    ("vms", {"full": False, "vms": [vm("1", 30_000_000)], "gone": ["2"]}),
    ("ports", {"full": False, "ports": [port("7", False)], "gone": []}),
]


class Handler(stand_in.Handler):
    """Sends the stream and closes."""

    def do_GET(self):
        self.send_response(200 if self.path == "/v1/events" else 404)
        self.end_headers()
        self.wfile.write(b"retry: 2000\n\n: a comment\n\n")
        for number, (kind, data) in enumerate(STREAM):
            self.wfile.write(f"id: 1-{number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n".encode())


@pytest.fixture
def server():
    with stand_in.serving(Handler) as running:
        yield running


def run(server, *words, **options):
    return stand_in.run(server, "top", *words, **options)


def test_once_shows_vms_and_congested_ports(server):
    result = run(server, "--once")
    assert result.exit_code == 0, result.output
    assert "2 VMs send 30.0 Mb/s, 1 limited by congestion; 1 congested ports" in result.output
    assert "eth7" in result.output and "1,234" in result.output and "eth8" not in result.output
    assert result.output.index("vm-2") < result.output.index("vm-1")


def test_the_clouds_names_stand_beside_ids(server, monkeypatch):
    named = {**vm("1", 10_000_000), "cloud_name": "[red]web", "network": "blue", "tenant": "project-1"}
    events = [("vms", {"full": True, "vms": [named, vm("2", 5)], "gone": []}), STREAM[1]]
    monkeypatch.setattr(f"{__name__}.STREAM", events)
    result = run(server, "--once")
    assert result.exit_code == 0 and "[red]web" in result.output and "name" in result.output


def test_json_is_a_line_for_each_change(server):
    result = run(server, "--json")
    lines = [json.loads(line) for line in result.output.splitlines() if line.startswith("{")]
    assert [[row["id"] for row in line["vms"]] for line in lines] == [["vm-2", "vm-1"], ["vm-1"], ["vm-1"]]
    assert [len(line["congested_ports"]) for line in lines] == [1, 1, 0]
    assert result.exit_code == 1 and "closed the event stream" in result.output


def test_once_json(server):
    result = run(server, "--once", "--json", "--sort", "rate")
    assert result.exit_code == 0
    assert [row["id"] for row in json.loads(result.output)["vms"]] == ["vm-1", "vm-2"]


def test_no_controller_is_said_with_its_address():
    result = click.testing.CliRunner().invoke(main, ["top", "--url", "http://127.0.0.1:9"])
    assert result.exit_code == 1 and "no controller answers at http://127.0.0.1:9" in result.output
