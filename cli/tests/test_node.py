# SPDX-License-Identifier: Apache-2.0
"""sdngcc node against a small stand-in for the controller's REST interface."""

import json

import pytest

from sdngcc.commands.node import duration

from . import stand_in

NODES = [
    {
        "node": "compute-1", "certificate": "compute-1.example", "address": "10.0.0.1:4711", "state": "connected",
        "since_s": 7200.5, "connections": 1, "vms": 2, "refused": [],
        "switches": [{"switch": "00000000000000a1", "connected": True},
                     {"switch": "00000000000000b1", "connected": False}],
    },
    {
        "node": "compute-2", "certificate": None, "address": "127.0.0.1:4712", "state": "gone", "since_s": 59.0,
        "connections": 3, "vms": 0, "switches": [],
        "refused": [{"switch": "00000000000000a1", "why": "it is a bridge of node compute-1"}],
    },
]  # fmt: skip


class Handler(stand_in.Handler):
    """Lists two nodes; forgets the one that is gone."""

    def do_GET(self):
        self.answer(200, {"nodes": self.server.nodes})

    def do_DELETE(self):
        if self.path == "/v1/nodes/compute%2F2":
            self.answer(200, {"node": "compute/2"})
        else:
            self.answer(409, {"error": "node compute-1 is connected", "allowed": "nodes that are not connected"})


@pytest.fixture
def server():
    with stand_in.serving(Handler, nodes=NODES) as running:
        yield running


def run(server, *words, **options):
    return stand_in.run(server, "node", *words, **options)


def test_list_shows_state_bridges_and_why_one_is_refused(server):
    result = run(server, "list")
    assert result.exit_code == 0
    head, first, second = result.stdout.splitlines()
    assert head.split() == ["node", "state", "for", "vms", "switches", "certificate", "address"]
    assert " connected  2 h " in first and "a1, b1 (not connected)" in first and "compute-1.example" in first
    assert " gone " in second and "59 s" in second and "a1 (refused)" in second
    assert "compute-2: bridge 00000000000000a1: it is a bridge of node compute-1" in result.stderr


def test_list_json_is_the_controllers_document(server):
    assert json.loads(run(server, "list", "--json").stdout) == {"nodes": NODES}


def test_without_a_node_it_is_said_how_they_come(server):
    server.nodes = []
    result = run(server, "list")
    assert result.exit_code == 0 and result.stdout == "" and "ovs-vsctl set-manager" in result.stderr


def test_forget_quotes_the_name_and_says_a_refusal(server):
    assert run(server, "forget", "compute/2").stdout == "compute/2: forgotten\n"
    result = run(server, "forget", "compute-1")
    assert result.exit_code == 1
    assert "node compute-1 is connected; allowed: nodes that are not connected" in result.output


@pytest.mark.parametrize("seconds, text", [(0.2, "0 s"), (59.9, "59 s"), (60, "1 min"), (90_000, "1 d")])
def test_a_duration_has_one_unit(seconds, text):
    assert duration(seconds) == text
