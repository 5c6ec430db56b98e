# SPDX-License-Identifier: Apache-2.0
"""Ports out of Neutron's API: what is made of its answers, and a reader before an HTTP server that may misbehave.

The server is made up from the references of Neutron's, Keystone's and Nova's APIs.
"""

import http.server
import json
import socket
import threading
import urllib.parse

import pytest

from sdngcc.controller.databases import neutron, ports
from sdngcc.controller.databases.ports import Report
from sdngcc.controller.databases.telling import Teller
from sdngcc.controller.network.directory import TEXT_MAX, CloudPort, Trunk, address_of, allowed_of, mac_of

from ..processes import free_port
from .cloud import Followed

pytest.importorskip("keystoneauth1")
pytestmark = pytest.mark.filterwarnings(r"ignore:\s*Eventlet is deprecated")

BOUND = {"bound_drivers": {"0": "openvswitch"}}


def network(number, kind="vlan", segment=100, **more):
    return {"id": f"net-{number}", "name": f"blue-{number}", "provider:network_type": kind,
            "provider:segmentation_id": segment, **more}  # fmt: skip


def port(number, of=1, **more):
    return {"id": f"port-{number}", "name": f"web-{number}", "network_id": f"net-{of}", "device_owner": "compute:nova",
            "mac_address": f"fa:16:3e:00:00:{number % 256:02x}", "project_id": "project-1", "device_id": "server-1",
            "fixed_ips": [{"subnet_id": "s", "ip_address": f"10.0.{number // 256}.{number % 256}"}],
            "binding:vif_details": BOUND, **more}  # fmt: skip


NETWORKS = {"net-1": network(1)}


def test_a_port_is_read():
    assert neutron.port_of(port(1), NETWORKS) == CloudPort(
        "port-1", "web-1", "server-1", "blue-1", "net-1", ((100, 0),), (mac_of("fa:16:3e:00:00:01"),),
        (address_of("10.0.0.1"),), "project-1",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "segment", "drivers", "expected"),
    [
        ("vlan", 100, None, ((100, 0),)),
        ("vlan", 100, {"0": "ovn"}, ((100, 0),)),
        ("flat", None, {"0": "ovn"}, ((0, 0),)),
        ("vxlan", 70, {"0": "openvswitch"}, ((0, 70),)),
        ("geneve", 70, {"0": "openvswitch"}, ((0, 70),)),
        ("geneve", 70, {"0": "ovn"}, ()),  # the tunnel's key is OVN's choice
        ("geneve", 70, None, ()),  # it may be OVN's
        ("vlan", 4095, None, ()),
        ("vlan", True, None, ()),
        ("vxlan", 1 << 40, {"0": "openvswitch"}, ()),
        ("local", None, None, ()),
        (None, None, None, ()),
    ],
)
def test_a_segment_is_what_is_on_the_wire(kind, segment, drivers, expected):
    details = {} if drivers is None else {"bound_drivers": drivers}
    read = neutron.port_of(port(1, **{"binding:vif_details": details}), {"net-1": network(1, kind, segment)})
    assert read.segments == expected


def test_what_is_no_vms_port_is_left_out_and_what_no_port_can_be_is_refused():
    assert neutron.port_of(port(1, device_owner="network:dhcp"), NETWORKS) is None
    for wrong in ({"id": None}, {"id": ""}, {"id": "x" * 300}, {"name": 3}, {"fixed_ips": {"a": 1}},
                  {"device_owner": ["a"]}, {"mac_address": 5}):  # fmt: skip
        with pytest.raises(ValueError):
            neutron.port_of(port(1, **wrong), NETWORKS)
    poor = neutron.port_of({"id": "p", "project_id": "two words", "fixed_ips": ["a", {"ip_address": 3}]}, {})
    assert poor == CloudPort("p")


def test_what_port_security_allows_beside_is_read():
    pairs = [{"ip_address": "10.0.0.100", "mac_address": "fa:16:3e:00:00:01"},
             {"ip_address": "10.1.0.0/24", "mac_address": "00:00:5e:00:01:07"},
             {"ip_address": "nonsense"}, {"ip_address": 5}, "nonsense"]  # fmt: skip
    assert neutron.port_of(port(1, allowed_address_pairs=pairs), NETWORKS).allowed == (
        allowed_of("10.0.0.100"), allowed_of("10.1.0.0/24", mac_of("00:00:5e:00:01:07")),
    )  # fmt: skip
    with pytest.raises(ValueError):
        neutron.port_of(port(1, allowed_address_pairs={"a": 1}), NETWORKS)


def test_subports_are_told_with_their_trunk_whatever_comes_first():
    details = {"trunk_id": "t", "sub_ports": [
        {"port_id": "port-1", "segmentation_id": 30, "segmentation_type": "vlan", "mac_address": "fa:16:3e:00:00:01"},
        {"port_id": "port-3", "segmentation_id": 5000}, {"port_id": 7, "segmentation_id": 3}, "nonsense"]}  # fmt: skip
    get = Pages([network(1)], [port(1, device_owner="trunk:subport"), port(2, trunk_details=details), port(3)])
    lines = []
    teller = Teller(lines.append)
    neutron.Reader(get, teller, 60, lambda: 0.0).run()
    teller.turn(Report("connected", None, 0))
    told = [ports.parse(line) for line in b"".join(lines).splitlines()]
    assert {one.id: one.trunk for one in told if isinstance(one, CloudPort)} == {
        "port-1": Trunk("port-2", 30), "port-2": None, "port-3": None,
    }  # fmt: skip
    for nonsense in (None, "a", {"sub_ports": 5}, {"sub_ports": None}):
        assert neutron.trunks_of({"id": "p", "trunk_details": nonsense}) == {}
    for parent, vlan in (("", 7), ("p" * (TEXT_MAX + 1), 7), (7, 7), ("p", True), ("p", 0), ("p", 4095)):
        sub_ports = [{"port_id": "s", "segmentation_id": vlan}]
        assert neutron.trunks_of({"id": parent, "trunk_details": {"sub_ports": sub_ports}}) == {}


def test_all_of_a_port_passes_by_the_pipe():
    whole = CloudPort(
        "p", "name", "server", "net", "net-id", ((100, 0), (0, 7)), (b"abcdef",), (bytes(16),), "tenant", Trunk("q", 9),
        (allowed_of("10.0.0.0/8"), allowed_of("fd00::1", b"abcdef")), (((200, 0), bytes(15) + b"a"),), "web",
        (bytes(15) + b"b",),
    )  # fmt: skip
    assert ports.parse(ports.port_line(whole)) == whole
    assert ports.parse(ports.port_line(CloudPort("p"))) == CloudPort("p")


class Pages:
    """Answers of Neutron, or Nova; ``script`` changes each before it is given."""

    def __init__(self, networks, ports, floating=(), servers=()):
        self.held = {"/networks": networks, "/ports": ports, "/floatingips": floating, "/servers": servers}
        self.asked = []
        self.script = lambda answer: answer

    def __call__(self, path, parameters):
        self.asked.append((path, parameters))
        items = sorted(self.held[path], key=lambda one: one["id"])
        after = [one for one in items if one["id"] > parameters.get("marker", "")]
        return self.script({path[1:]: after[: parameters["limit"]]})


class Heard:
    """A reader with a clock of its own, and what it told."""

    def __init__(self, get, nova=None):
        self.now = 0.0
        self.lines = []
        self.teller = Teller(self.lines.append)
        self.reader = neutron.Reader(get, self.teller, 60, lambda: self.now, nova)

    def turn(self, seconds=0.0):
        """Let time pass; return the kinds of lines that were told, the report as it is."""
        self.now += seconds
        self.lines.clear()
        self.reader.run()
        self.teller.turn(self.reader.report())
        said = [next(iter(json.loads(line).items())) for line in b"".join(self.lines).splitlines()]
        return [value if kind == "report" else kind for kind, value in said]

    def ports(self):
        """Let the next round be made; return the ports that were told, by id."""
        self.turn(60)
        told = [ports.parse(line) for line in b"".join(self.lines).splitlines()]
        return {one.id: one for one in told if isinstance(one, CloudPort)}


def test_all_pages_are_asked_for_and_only_the_fields_that_are_used(monkeypatch):
    monkeypatch.setattr(neutron, "PAGE", 2)
    get = Pages([network(1)], [port(number) for number in range(5)])
    heard = Heard(get)
    assert heard.turn() == ["port"] * 5 + ["whole", ["connected", None, 0]]
    markers = [parameters.get("marker") for path, parameters in get.asked if path == "/ports"]
    assert markers == [None, "port-1", "port-3"]
    assert all(parameters["limit"] == 2 and "id" in parameters["fields"] for _, parameters in get.asked)


def test_pages_that_are_shorter_than_was_asked_for_are_followed_as_the_server_says():
    """As where the server has a largest page of its own (pagination_max_limit, osapi_max_limit)."""
    get = Pages([network(1)], [port(number) for number in range(5)])

    def shorten(answer):
        ((what, items),) = answer.items()
        return {what: items[:2], f"{what}_links": [{"rel": "next", "href": "x"}] if len(items) > 2 else []}

    get.script = shorten
    assert Heard(get).turn() == ["port"] * 5 + ["whole", ["connected", None, 0]]


def floating(number, of, **more):
    return {"id": f"floating-{number}", "port_id": of, "floating_ip_address": f"192.0.2.{number}", **more}


def test_floating_addresses_are_those_of_the_port_that_they_are_associated_with():
    given = [floating(1, "port-1"), floating(2, None), floating(3, "port-1"), floating(4, "port-9"), floating(6, 7),
             floating(5, "port-2", floating_ip_address="nonsense")]  # fmt: skip
    get = Pages([network(1)], [port(1), port(2)], given)
    heard = Heard(get)
    found = heard.ports()
    assert found["port-1"].associated == (address_of("192.0.2.1"), address_of("192.0.2.3"))
    # Who translates them is not known, so nothing on the wire is known by them.
    assert found["port-1"].floating == () and found["port-2"].associated == ()
    get.held["/floatingips"] = [floating(1, "port-2")]
    assert {one.id: len(one.associated) for one in heard.ports().values()} == {"port-1": 0, "port-2": 1}


def test_a_neutron_without_routers_has_no_floating_addresses():
    get = Pages([network(1)], [port(1)])

    def without(answer):
        if "floatingips" in answer:
            raise neutron.Missing("/floatingips was answered by 404 Not Found")
        return answer

    get.script = without
    assert Heard(get).turn() == ["port", "whole", ["connected", None, 0]]


def test_servers_names_are_asked_of_nova_for_all_projects(monkeypatch):
    monkeypatch.setattr(neutron, "PAGE", 2)
    nova = Pages((), (), (), [{"id": f"server-{number}", "name": f"db-{number}", "links": []} for number in range(5)])
    get = Pages([network(1)], [port(1), port(2, device_id="server-4"), port(3, device_id="nothing"),
                               port(4, device_owner="network:dhcp")])  # fmt: skip
    heard = Heard(get, nova)
    assert {one.id: one.server for one in heard.ports().values()} == {
        "port-1": "db-1", "port-2": "db-4", "port-3": ""}  # fmt: skip
    assert all(parameters["all_tenants"] == "True" and "fields" not in parameters for _, parameters in nova.asked)
    nova.held["/servers"] = [{"id": "server-1", "name": "renamed\x1b[2J"}, {"id": "server-4", "name": 5}, {"id": "s"}]
    assert {one.id: one.server for one in heard.ports().values()} == {"port-1": "renamed\ufffd[2J", "port-2": ""}


def test_a_nova_that_fails_takes_no_name_away_and_keeps_no_port_from_being_told():
    nova = Pages((), (), (), [{"id": "server-1", "name": "db"}])
    get = Pages([network(1)], [port(1)])
    heard = Heard(get, nova)
    assert heard.ports()["port-1"].server == "db"

    def refuse(answer):
        raise neutron.Unreadable("/servers was answered by 403 Forbidden")

    nova.script = refuse
    get.held["/ports"] = [port(1), port(2)]
    told = heard.turn(60)
    assert told[0] == "port" and told[1][0] == "connected"
    assert told[1][1] == "Nova: Unreadable: /servers was answered by 403 Forbidden; names of servers stay as they were"
    nova.script = lambda answer: answer
    assert heard.turn(60)[-1] == ["connected", None, 0]


def test_a_period_passes_between_rounds_and_changes_alone_are_told():
    get = Pages([network(1)], [port(1), port(2)])
    heard = Heard(get)
    heard.turn()
    asked = len(get.asked)
    get.held["/ports"] = [port(1), port(3)]
    assert heard.turn(59) == [["connected", None, 0]] and len(get.asked) == asked
    assert sorted(map(str, heard.turn(1))) == sorted(["gone", "port", str(["connected", None, 0])])


def test_a_round_that_fails_changes_nothing_and_the_next_comes_later_each_time():
    get = Pages([network(1)], [port(1)])
    heard = Heard(get)
    heard.turn()

    def fail(answer):
        if "ports" in answer:
            raise ValueError("nonsense")
        return answer

    get.script = fail
    assert heard.turn(60) == [["unusable", "ValueError: nonsense", 0]]
    for wait in (2, 4, 8):
        asked = len(get.asked)
        heard.turn(wait - 0.5)
        assert len(get.asked) == asked
        heard.turn(0.5)
        assert len(get.asked) == asked + 2
    get.script = lambda answer: answer
    assert heard.turn(16) == [["connected", None, 0]]


@pytest.mark.parametrize(
    "answer",
    [None, [], {"ports": {}}, {"ports": ["a"]}, {"other": []}],
)
def test_an_answer_that_is_no_list_is_unusable(answer):
    get = Pages([], [])
    get.script = lambda good: good if "networks" in good else answer
    assert Heard(get).turn()[-1][0] == "unusable"


def test_pages_that_go_round_end(monkeypatch):
    monkeypatch.setattr(neutron, "PAGE", 1)
    get = Pages([], [port(1)])
    get.script = lambda answer: answer if "networks" in answer else {"ports": [port(1)]}
    (report,) = Heard(get).turn()
    assert report[0] == "unusable" and "round in circles" in report[1]


def test_more_than_there_may_be_is_refused_as_a_whole(monkeypatch):
    monkeypatch.setattr(neutron, "ITEMS_MAX", 3)
    (report,) = Heard(Pages([], [port(number) for number in range(4)])).turn()
    assert report == ["unusable", "Unreadable: there are more than 3 ports", 0]


def test_ports_that_cannot_be_read_are_counted():
    assert Heard(Pages([], [port(1), port(2, name=5)])).turn() == ["port", "whole", ["connected", None, 1]]


# The reader's process


class Api(http.server.ThreadingHTTPServer):
    """Lists of Neutron and Nova by HTTP; ``answer`` takes the handler and its path."""

    daemon_threads = True
    block_on_close = False

    def __init__(self):
        self.ports, self.networks, self.floatingips, self.servers = [], [network(1)], [], []
        self.answer = self.lists

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.server.answer(self)

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", free_port()), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def lists(self, handler):
        path = urllib.parse.urlparse(handler.path).path
        what = path.rpartition("/")[2]
        assert path in ("/v2.0/ports", "/v2.0/networks", "/v2.0/floatingips", "/compute/v2.1/servers")
        self.give(handler, json.dumps({what: getattr(self, what)}).encode())

    @staticmethod
    def give(handler, body, status=200):
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)


@pytest.fixture
def api():
    made = Api()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def follow():
    made = []

    def start(**settings):
        made.append(Followed(**settings))
        return made[-1]

    yield start
    for one in made:
        one.close()


def test_the_readers_process_tells_what_the_api_says(api, follow):
    api.ports = [port(1), port(2, device_owner="network:router_interface")]
    followed = follow(neutron_endpoint=api.url, neutron_period_s=5)
    assert followed.until_port("port-1", network="blue-1").tenant == "project-1"
    followed.until_whole()
    assert followed.directory.count("neutron") == 1
    api.ports = [port(3)]
    followed.until_port("port-3")
    followed.until(lambda: followed.directory.find("port-1") is None)


@pytest.mark.parametrize("status", [401, 500])
def test_a_refusal_is_a_state_with_its_reason(api, follow, status):
    api.answer = lambda handler: api.give(handler, b"{}", status)
    followed = follow(neutron_endpoint=api.url)
    followed.until(lambda: followed.database.health.state == "unusable")
    assert str(status) in followed.database.health.fault


def test_nobody_there_is_unreachable(follow):
    followed = follow(neutron_endpoint=f"http://127.0.0.1:{free_port()}")
    followed.until(lambda: followed.database.health.state == "unreachable")


def test_an_answer_that_trickles_ends_with_the_time_for_a_round(api, follow):
    def trickle(handler):
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b" ")
                handler.wfile.flush()
                threading.Event().wait(0.2)
        except OSError:
            pass

    api.answer = trickle
    followed = follow(neutron_endpoint=api.url, orders={"round_s": 2})
    followed.until(lambda: followed.database.health.state == "hung")


def test_a_server_that_never_answers_is_hung(follow):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        followed = follow(neutron_endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}")
        followed.until(lambda: followed.database.health.state in ("hung", "unreachable"))


def test_an_answer_without_end_fills_the_readers_memory_only(api, follow):
    def flood(handler):
        handler.send_response(200)
        handler.end_headers()
        chunk = b'"' + b"x" * (1 << 24)
        try:
            while True:
                handler.wfile.write(chunk)
        except OSError:
            pass

    api.answer = flood
    followed = follow(neutron_endpoint=api.url)
    followed.until(lambda: followed.database.health.state in ("hung", "unusable"))
    assert followed.directory.count("neutron") == 0


def test_a_cloud_of_a_file_is_asked_with_what_keystone_gave(api, follow, tmp_path):
    """A keystone made up from its API's reference: a token for a password, and a catalogue."""
    asked = []

    def keystone_and_neutron(handler):
        asked.append((handler.command, handler.path, handler.headers.get("X-Auth-Token")))
        path = urllib.parse.urlparse(handler.path).path
        if path.startswith("/v2.0/") and handler.headers.get("X-Auth-Token") != "token-1":
            return api.give(handler, b"{}", 401)
        if path.rstrip("/") == "/identity/v3":
            return api.give(handler, json.dumps({"version": {"id": "v3.14", "status": "stable", "links": [
                {"rel": "self", "href": f"{api.url}/identity/v3/"}]}}).encode())  # fmt: skip
        if path in ("/", ""):
            return api.give(handler, json.dumps({"versions": [{"id": "v2.0", "status": "CURRENT", "links": [
                {"rel": "self", "href": f"{api.url}/v2.0/"}]}]}).encode())  # fmt: skip
        if path.rstrip("/") == "/v2.0":
            return api.give(handler, b'{"resources": []}')
        if path.rstrip("/") == "/compute/v2.1":
            return api.give(handler, json.dumps({"version": {
                "id": "v2.1", "status": "CURRENT", "version": "2.100", "min_version": "2.1",
                "links": [{"rel": "self", "href": f"{api.url}/compute/v2.1/"}]}}).encode())  # fmt: skip
        return api.lists(handler)

    def sign_in(handler):
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        asked.append((handler.command, handler.path, body["auth"]["identity"]["password"]["user"]["password"]))
        catalog = [{"type": "network", "name": "neutron", "id": "1", "endpoints": [
            {"interface": "public", "region": "one", "region_id": "one", "url": api.url, "id": "2"}]},
            {"type": "compute", "name": "nova", "id": "3", "endpoints": [
            {"interface": "public", "region": "one", "region_id": "one", "url": f"{api.url}/compute/v2.1", "id": "4"}]}]
        token = {"token": {"methods": ["password"], "expires_at": "2999-01-01T00:00:00.000000Z", "catalog": catalog,
                           "issued_at": "2026-01-01T00:00:00.000000Z", "user": {"id": "u", "name": "sdngcc", "domain":
                           {"id": "default", "name": "Default"}}, "roles": [], "project": {"id": "p", "name": "admin",
                           "domain": {"id": "default", "name": "Default"}}}}  # fmt: skip
        data = json.dumps(token).encode()
        handler.send_response(201)
        handler.send_header("X-Subject-Token", "token-1")
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    api.answer = keystone_and_neutron
    api.RequestHandlerClass.do_POST = sign_in
    api.ports, api.servers = [port(1)], [{"id": "server-1", "name": "db"}]
    api.floatingips = [floating(7, "port-1")]
    clouds = tmp_path / "clouds.yaml"
    clouds.write_text(json.dumps({"clouds": {"mine": {
        "auth": {"auth_url": f"{api.url}/identity/v3", "username": "sdngcc", "password": "secret-1", "project_name":
                 "admin", "user_domain_name": "Default", "project_domain_name": "Default"},
        "region_name": "one"}}}))  # fmt: skip
    clouds.chmod(0o600)
    followed = follow(neutron_cloud="mine", neutron_clouds_file=clouds, nova_names=True)
    followed.until_port("port-1", server="db", associated=(address_of("192.0.2.7"),))
    assert ("POST", "/identity/v3/auth/tokens", "secret-1") in asked
    for path in ("/v2.0/ports", "/compute/v2.1/servers"):
        assert any(one.startswith(path) and token == "token-1" for _, one, token in asked)
