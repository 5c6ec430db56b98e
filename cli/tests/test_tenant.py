# SPDX-License-Identifier: Apache-2.0
"""sdngcc tenant against a small stand-in for the controller's REST interface."""

import json

import pytest

from . import stand_in

GOLD = {
    "name": "gold", "weight": 2, "min_bps": 0, "max_bps": 40_000_000_000, "applied": True, "vms": 16, "active": 2,
    "hypervisors": 4, "rate_bps": 900_000_000, "sent_bps": 123_400_000, "stored": {"weight": 2},
}  # fmt: skip
TIN = {**GOLD, "name": "tin/1", "weight": None, "max_bps": 0, "stored": None, "applied": False}
MEMBER = {"id": "port-1", "place": "00000000000000a1:tap0", "state": "active", "weight": 1, "rate_bps": 500_000_000,
          "sent_bps": 60_000_000}  # fmt: skip


class Handler(stand_in.Handler):
    """Lists a tenant on each of two pages; takes a change unless its weight is 0."""

    def do_GET(self):
        self.server.asked.append(("GET", self.path, None))
        if self.path.startswith("/v1/tenants?"):
            last = "after=gold" in self.path
            tenants = [TIN if last else GOLD] if self.server.tenants else []
            self.answer(200, {"tenants": tenants, "total": 2, "next": None if last or not tenants else "gold"})
        elif self.path == "/v1/tenants/tin%2F1":
            self.answer(200, {**TIN, "members": [MEMBER]})
        else:
            self.answer(404, {"error": "no port has it", "allowed": "what GET /v1/tenants lists"})

    def do_PUT(self):
        body = self.body()
        self.server.asked.append(("PUT", self.path, body))
        if body.get("weight") == 0:
            self.answer(422, {"error": "weight of 0 is not allowed", "allowed": "1 to 65535",
                              "in_force": {"weight": 2, "min": 0, "max": 5}})  # fmt: skip
        else:
            self.answer(200, {**GOLD, "members": []})

    def do_DELETE(self):
        self.server.asked.append(("DELETE", self.path, None))
        self.answer(200, {**TIN, "members": []})


@pytest.fixture
def server():
    with stand_in.serving(Handler, asked=[], tenants=True) as running:
        yield running


def run(server, *words, **options):
    return stand_in.run(server, "tenant", *words, **options)


def test_list_reads_all_pages(server):
    done = run(server, "list")
    assert done.exit_code == 0 and "gold" in done.output and "tin/1" in done.output
    assert "40,000.0" in done.output and "none" in done.output
    assert [one["name"] for one in json.loads(run(server, "list", "--json").output)["tenants"]] == ["gold", "tin/1"]


def test_a_narrow_terminal_leaves_columns_out_and_says_so(server):
    done = run(server, "list", columns=40)
    assert "Left out for want of room" in done.output and "hypervisors" in done.output
    assert "Left out" not in run(server, "list", "--wide", columns=40).output


def test_without_tenants_it_is_said(server):
    server.tenants = False
    assert "No tenant yet" in run(server, "list").output


def test_show_has_the_vms_and_whether_the_policy_is_in_force(server):
    done = run(server, "show", "tin/1")
    assert "tin/1: weight none, min none, max none Mb/s; 2 of 16 VMs on 4 hypervisors send 123.4 Mb/s" in done.output
    assert "port-1  active, sent 60.0 Mb/s, may send 500.0 Mb/s, weight 1" in done.output
    assert "not in force: the controller's decision is marks" in done.output
    assert json.loads(run(server, "show", "tin/1", "--json").output)["members"] == [MEMBER]
    done = run(server, "show", "nobody")
    assert done.exit_code == 1 and "no port has it; allowed: what GET /v1/tenants lists" in done.output


def test_set_sends_what_is_named(server):
    done = run(server, "set", "gold", "--weight", "2", "--max", "1.5T", "--min", "default")
    assert done.exit_code == 0 and "gold: weight 2, min none, max 40,000.0 Mb/s" in done.output
    assert server.asked[-1] == ("PUT", "/v1/tenants/gold", {"weight": 2, "max": 1_500_000_000_000, "min": None})
    assert run(server, "set", "gold").exit_code == 2
    done = run(server, "set", "gold", "--weight", "0")
    assert done.exit_code == 1 and "still in force: weight 2" in done.output


def test_reset_deletes(server):
    assert run(server, "reset", "tin/1").exit_code == 0
    assert server.asked[-1] == ("DELETE", "/v1/tenants/tin%2F1", None)
