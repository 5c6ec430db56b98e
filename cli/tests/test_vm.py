# SPDX-License-Identifier: Apache-2.0
"""sdngcc vm against a small stand-in for the controller's REST interface."""

import json

import click.testing
import pytest

from sdngcc.main import main
from sdngcc.names import LONGEST, short_names

from . import stand_in

VM = {
    "id": "h1-eth0", "port_name": "tap0", "addresses": ["10.0.0.1"], "destinations": [], "state": "congested",
    "stored": {"weight": 2, "min": None, "max": 500_000_000}, "uplink_port": None,
    "weight": 2, "min_bps": 0, "max_bps": 500_000_000,
    "rate_bps": 123_400_000, "share_bps": 500_000_000, "sent_bps": 120_000_000, "drops": 7, "marks_accepted": 9,
}


class Handler(stand_in.Handler):
    """Lists one VM on each of two pages; takes a change unless its weight is 0."""

    def do_GET(self):
        self.server.gets.append((self.path, self.headers.get("Authorization")))
        path, _, query = self.path.partition("?")
        if path == "/v1/vms" and self.server.vms:
            self.answer(200, {"vms": self.server.vms, "total": len(self.server.vms), "next": None})
        elif path == "/v1/vms":
            last = "after=" in query or "mac=" in query
            self.answer(200, {"vms": [VM], "total": 2, "next": None if last else "00000000000000a1:1"})
        elif path == "/v1/vms/10.0.0.1":
            self.answer(200, VM)
        else:
            self.answer(409, {"error": "\"tap\" fits 2 virtual machines", "allowed": "one place: x, y"})

    def do_PUT(self):
        body = self.body()
        self.server.puts.append((self.path, body))
        if body.get("weight") == 0:
            self.answer(422, {"error": "weight of 0 is not allowed", "field": "weight", "allowed": "1 to 65535",
                              "in_force": {"weight": 2, "min": None, "max": 5}})
        else:
            self.answer(200, {**VM, **body})

    def do_PATCH(self):
        body = self.body()
        self.server.puts.append((self.path, body))
        results = [{"vm": one["vm"], "id": one["vm"], "status": 200, "result": "stored", "error": None}
                   for one in body["changes"]]
        results[-1].update(status=503, result="refused", error="it is hung; nothing was sent to it")
        self.answer(207, {"results": results})

    def do_DELETE(self):
        self.server.puts.append((self.path, None))
        default = {"value": 0, "origin": "default"}
        self.answer(200, {**VM, "configured": {
            "weight": {"value": 7, "origin": "Interface:external_ids"}, "min": default, "max": default,
            "law": {"value": "eyeq", "origin": "Open_vSwitch:other_config"}, "complaint": None}})


@pytest.fixture
def server():
    with stand_in.serving(Handler, puts=[], gets=[], vms=[]) as running:
        yield running


def run(server, *words, **options):
    return stand_in.run(server, "vm", *words, **options)


UUIDS = ["3f2504e0-4f89-41d3-9a0c-0305e82c3301", "3f2504e0-4f89-ffff-9a0c-0305e82c3301",
         "a3bb189e-8bf9-3888-9912-ace4e6543002"]
PLACES = [f"{dpid:016x}:{port}" for dpid in (0xA1, 0x1001) for port in ("tap0", "tap3f2504e0-4f")]


@pytest.mark.parametrize("columns", [40, 80, 120, 200])
def test_list_tells_vms_apart_however_narrow_the_terminal(server, columns):
    server.vms = [{**VM, "id": one} for one in UUIDS + PLACES]
    result = run(server, "list", columns=columns)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= columns
    shown = [line.split()[1] for line in lines if "congested" in line]
    assert shown == ["3f2504e0-4f89-4", "3f2504e0-4f89-f", "a3bb189e", "a1:tap0", "a1:tap3f2504e0-4f", "1001:tap0",
                     "1001:tap3f2504e0-4f"]
    assert ("marks" in lines[1]) != ("marks" in result.stderr)
    assert result.stderr == "" or "--wide shows them" in result.stderr


def test_list_wide_has_whole_ids_and_all_columns(server):
    server.vms = [{**VM, "id": one} for one in UUIDS + PLACES]
    result = run(server, "list", "--wide", columns=40)
    assert [line.split()[1] for line in result.stdout.splitlines() if "congested" in line] == UUIDS + PLACES
    assert "marks" in result.stdout and result.stderr == ""


def test_short_names_are_distinct_and_bounded():
    long = [f"vm-{'x' * 30}{number}{'y' * 30}" for number in range(3)] + ["vm-" + "x" * 40]
    names = short_names(long)
    assert len(set(names.values())) == 4 and len(names[long[3]]) == LONGEST
    assert names[long[0]] == long[0]  # its middle is what tells it apart
    assert short_names(["neutron-1", "neutron-1"]) == {"neutron-1": "neutron-1"}
    assert short_names([]) == {}


def test_list_shows_rates_in_megabits(server):
    result = run(server, "list")
    assert result.exit_code == 0
    for word in ("h1-eth0", "congested", "123.4", "500.0", "none"):
        assert word in result.output


def test_list_json_is_the_controllers_document(server):
    assert json.loads(run(server, "list", "--json").output) == {"vms": [VM, VM]}
    assert [path for path, _ in server.gets] == ["/v1/vms?limit=500", "/v1/vms?limit=500&after=00000000000000a1%3A1"]


def test_list_filters(server):
    assert run(server, "list", "--mac", "02:00:00:00:00:01").exit_code == 0
    assert server.gets == [("/v1/vms?limit=500&mac=02%3A00%3A00%3A00%3A00%3A01", None)]


def test_show_finds_a_vm_by_address(server):
    result = run(server, "show", "10.0.0.1")
    assert result.exit_code == 0
    shown = dict(line.split(None, 1) for line in result.output.splitlines())
    assert shown["rate_bps"] == "123.4 Mb/s" and shown["min_bps"] == "none" and shown["uplink_port"] == "unknown"
    assert shown["stored"] == "weight 2, min default, max 500000000" and shown["destinations"] == "none"
    assert json.loads(run(server, "show", "10.0.0.1", "--json").output) == VM


def test_an_ambiguous_name_is_refused_with_the_candidates(server):
    result = run(server, "show", "tap")
    assert result.exit_code == 1
    assert '"tap" fits 2 virtual machines; allowed: one place: x, y' in result.output


@pytest.mark.parametrize("line", ["secret", "alice secret", "alice secret operate"])
def test_the_token_is_sent(server, tmp_path, line):
    file = tmp_path / "token"
    file.write_text(f"# mine\n{line}\n")
    assert run(server, "--token-file", str(file), "show", "10.0.0.1").exit_code == 0
    assert server.gets == [("/v1/vms/10.0.0.1", "Bearer secret")]


@pytest.mark.parametrize("args, body", [
    (["--weight", "4"], {"weight": 4}),
    (["--min", "1.5G", "--max", "0"], {"min": 1_500_000_000, "max": 0}),
    (["--weight", "default", "--max", "250k"], {"weight": None, "max": 250_000}),
    (["--law", "eyeq"], {"law": "eyeq"}),
    (["--law", "default"], {"law": None}),
])
def test_set_sends_only_what_is_named(server, args, body):
    result = run(server, "set", "a/b", *args)
    assert result.exit_code == 0, result.output
    assert server.puts == [("/v1/vms/a%2Fb", body)]


def test_several_are_changed_by_one_request_and_what_failed_is_told(server):
    result = run(server, "set", "a", "b", "--law", "default", "--weight", "3")
    assert result.exit_code == 1
    changes = [{"vm": name, "weight": 3, "law": None} for name in "ab"]
    assert server.puts == [("/v1/vms", {"changes": changes})]
    assert result.output.splitlines() == [
        "a: weight 3, law default", "b: refused: it is hung; nothing was sent to it"]


def test_reset_takes_all_back_and_tells_what_holds_then(server):
    result = run(server, "reset", "a/b")
    assert result.exit_code == 0 and server.puts == [("/v1/vms/a%2Fb", None)]
    assert result.output.strip() == ("h1-eth0: weight 7 (Interface:external_ids), min 0 (default), max 0 (default), "
                                     "law eyeq (Open_vSwitch:other_config)")
    assert run(server, "reset", "a", "b").exit_code == 1
    assert server.puts[1][1]["changes"][1] == {"vm": "b", "weight": None, "min": None, "max": None, "law": None}


@pytest.mark.parametrize("args", [[], ["--weight", "x"], ["--max", "-1"], ["--max", "1X"], ["--min", "0.5"]])
def test_set_refuses_before_asking(server, args):
    result = run(server, "set", "vm", *args)
    assert result.exit_code == 2
    assert server.puts == []


def test_a_refusal_names_what_is_allowed_and_what_stays(server):
    result = run(server, "set", "vm", "--weight", "0")
    assert result.exit_code == 1
    assert "weight of 0 is not allowed; allowed: 1 to 65535; still in force: weight 2, min unknown, max 5" \
        in result.output


def test_no_controller_is_said_with_its_address():
    result = click.testing.CliRunner().invoke(main, ["vm", "--url", "http://127.0.0.1:9", "list"])
    assert result.exit_code == 1
    assert "no controller answers at http://127.0.0.1:9" in result.output


CLOUD = {"name": "web-1", "device": "4a0c", "network": "blue", "network_id": "n", "vlan": None, "tunnel_key": 5,
         "macs": ["fa:16:3e:00:00:01"], "addresses": ["10.0.0.1", "fd00::1"], "tenant": "p"}


def test_list_shows_what_the_cloud_calls_a_vm_and_its_network(server):
    server.vms = [{**VM, "id": "a", "cloud": CLOUD}, {**VM, "id": "b", "cloud": {**CLOUD, "name": None}},
                  {**VM, "id": "c", "cloud": None}, {**VM, "id": "d", "cloud": {**CLOUD, "name": "[red]" + "x" * 60}}]
    rows = [[cell.strip() for cell in line.split("\u2502")] for line in run(server, "list").stdout.splitlines()]
    shown = {row[1]: row[2:4] for row in rows if len(row) > 4}
    assert shown == {"a": ["web-1", "blue"], "b": ["4a0c", "blue"], "c": ["-", "-"],
                     "d": ["[red]" + "x" * 14 + "\u2026", "blue"]}
    assert "[red]" + "x" * 60 in run(server, "list", "--wide").stdout


def test_list_asks_by_network_and_tenant(server):
    run(server, "list", "--network", "blue", "--tenant", "p")
    assert "network=blue" in server.gets[-1][0] and "tenant=p" in server.gets[-1][0]


def test_show_tells_what_the_cloud_says(server, monkeypatch):
    def words():
        return next(line for line in run(server, "show", "10.0.0.1").output.splitlines() if line.startswith("cloud "))

    monkeypatch.setitem(VM, "cloud", CLOUD)
    assert words().endswith("  name web-1, device 4a0c, network blue, network_id n, tunnel_key 5, macs "
                            "fa:16:3e:00:00:01, addresses 10.0.0.1 fd00::1, tenant p")
    monkeypatch.setitem(VM, "cloud", None)
    assert words().endswith("  in no database of a cloud that the controller follows")
