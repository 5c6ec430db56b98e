# SPDX-License-Identifier: Apache-2.0
"""Compute nodes whose databases connect to the controller: real ovsdb-server, real processes, both frameworks."""

import contextlib
import functools
import json
import shutil
import socket
import ssl
import subprocess

import pytest

from ..fabric import vm_reading
from ..processes import PATIENCE_S, Controller, WireSwitch, free_port, wait_for
from ..real_ovs import MANAGED, SCHEMA, make_certificates

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (shutil.which("ovsdb-server") and shutil.which("openssl") and SCHEMA.exists()),
        reason="Open vSwitch is not installed",
    ),
]


class Hypervisor:
    """A real ovsdb-server with one bridge of VMs tap0 and tap1; nothing but set-manager tells it of the controller."""

    def __init__(self, folder, name, dpid):
        self.folder = folder / name
        self.folder.mkdir()
        self.name, self.dpid = name, dpid
        self.remote = f"unix:{self.folder}/db.sock"
        subprocess.run(["ovsdb-tool", "create", self.folder / "db", SCHEMA], check=True)
        self.start()
        self.vsctl("init")
        self.vsctl("set", "open_vswitch", ".", f"external_ids:system-id={name}")
        self.vsctl("add-br", "br0")
        self.set_bridge(dpid)
        for number in (0, 1):
            self.vsctl("add-port", "br0", f"tap{number}", "--", "set", "interface", f"tap{number}",
                       f"external_ids:iface-id={name}-vm{number}")  # fmt: skip

    def start(self):
        (self.folder / "db.sock").unlink(missing_ok=True)
        self.process = subprocess.Popen(
            ["ovsdb-server", f"--remote=p{self.remote}", *MANAGED, f"--unixctl={self.folder}/ctl", "-vconsole:off",
             f"--log-file={self.folder}/log", self.folder / "db"]
        )  # fmt: skip
        wait_for((self.folder / "db.sock").exists, lambda: "ovsdb-server does not start")

    def set_bridge(self, dpid):
        self.vsctl("set", "bridge", "br0", f"datapath_id={dpid:016x}")

    def vsctl(self, *words):
        command = ["ovs-vsctl", "--no-wait", f"--db={self.remote}", *[str(word) for word in words]]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout.strip()

    def manage(self, controller, keys=None, certificate=None):
        """Connect to a controller; by TLS under one of the certificates if there are keys."""
        if keys:
            self.vsctl("set-ssl", keys[f"{certificate}_key"], keys[f"{certificate}_cert"], keys["controller_ca"])
        self.vsctl("set-manager", f"{'ssl' if keys else 'tcp'}:127.0.0.1:{controller.managers}")
        self.vsctl("set", "manager", ".", "max_backoff=1000")

    def stop(self):
        self.process.kill()
        self.process.wait(PATIENCE_S)


@contextlib.contextmanager
def running(tmp_path, framework, **settings):
    port = free_port()
    controller = Controller(tmp_path, framework, ovsdb_listen=f"127.0.0.1:{port}", **settings)
    controller.managers = port
    wait_for(lambda: "databases may connect at" in controller.log(), controller.log)
    try:
        yield controller
        assert controller.process.poll() is None, controller.log()
        assert "Traceback" not in controller.log()
        assert controller.get("/v1/status")["counters"].get("internal_errors", 0) == 0
    finally:
        controller.stop()


@pytest.fixture
def hypervisor(tmp_path):
    made = []

    def make(name="compute-1", dpid=0xA1):
        made.append(Hypervisor(tmp_path, name, dpid))
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("keys") / "pki", "compute-1", "compute-2", "leaf-1")


@pytest.fixture(scope="module")
def strange_keys(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("strange") / "pki", "compute-1")


def tls_settings(keys):
    return {
        "openflow_tls_key": keys["ctl_key"],
        "openflow_tls_cert": keys["ctl_cert"],
        "openflow_tls_ca": keys["switch_ca"],
    }


def context(keys, certificate):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.load_verify_locations(keys["controller_ca"])
    made.load_cert_chain(keys[f"{certificate}_cert"], keys[f"{certificate}_key"])
    return made


def switch_of(hypervisor, dpid=None):
    switch = WireSwitch(dpid or hypervisor.dpid, {1: b"tap0", 2: b"tap1", 3: b"up0"})
    switch.vms = {1: vm_reading(1), 2: vm_reading(2)}
    return switch


def node(controller, name="compute-1"):
    return next((one for one in controller.get("/v1/nodes")["nodes"] if one["node"] == name), None)


def is_in(controller, state, name="compute-1"):
    found = node(controller, name)
    return found if found is not None and found["state"] == state else None


def refused(controller):
    return controller.get("/v1/status")["database_connections"]["refused"]


def test_a_new_node_needs_no_restart_and_one_that_comes_back_goes_on(tmp_path, framework, hypervisor):
    with running(tmp_path, framework) as controller:
        assert controller.get("/v1/nodes") == {"nodes": []}
        one = hypervisor()
        switch = switch_of(one)
        switch.connect(controller.address)
        one.manage(controller)
        wait_for(lambda: is_in(controller, "connected"), controller.log)
        wait_for(lambda: node(controller)["vms"] == 2, controller.log)
        shown = node(controller)
        assert shown["certificate"] is None and shown["address"].startswith("127.0.0.1:")
        assert shown["switches"] == [{"switch": "00000000000000a1", "connected": True}] and shown["refused"] == []
        wait_for(lambda: controller.get("/v1/vms?iface_id=compute-1-vm0")["vms"], controller.log)
        answer = controller.put("/v1/vms/compute-1-vm0", {"weight": 3})
        assert answer["stored"]["weight"] == 3, answer
        assert one.vsctl("get", "interface", "tap0", "other_config:shim-weight") == '"3"'
        # A second one, of which nothing was known when the controller started either.
        two = hypervisor("compute-2", 0xA2)
        two.manage(controller)
        wait_for(lambda: is_in(controller, "connected", "compute-2"), controller.log)
        # The first one goes: its machines keep names and policy, changes are refused.
        one.stop()
        wait_for(lambda: is_in(controller, "gone"), controller.log)
        assert controller.get("/v1/vms/compute-1-vm0")["stored"]["weight"] == 3
        refusal = controller.put("/v1/vms/compute-1-vm0", {"weight": 5})
        assert "hypervisor database node compute-1 is gone" in refusal["error"]
        assert "nothing was sent to it" in refusal["error"]
        text = 'sdngcc_database_state{database="node compute-1",kind="hypervisor",state="gone"} 1.0'
        assert text in controller.metrics()
        assert "compute-2 is connected" in controller.delete("/v1/nodes/compute-2")["error"]
        one.start()
        one.set_bridge(0xA1)  # not kept: ovs-vswitchd writes it
        wait_for(lambda: is_in(controller, "connected"), controller.log)
        assert node(controller)["connections"] >= 2
        wait_for(
            lambda: controller.put("/v1/vms/compute-1-vm0", {"weight": 6}).get("stored", {}).get("weight") == 6,
            controller.log,
        )
        # And is forgotten once it is gone for good.
        one.stop()
        wait_for(lambda: is_in(controller, "gone"), controller.log)
        assert controller.delete("/v1/nodes/compute-1") == {"node": "compute-1"}
        assert node(controller) is None
        assert controller.get("/v1/vms/00000000000000a1:tap0")["stored"] is None
        switch.close()


def test_what_a_certificate_may_not_speak_for_it_does_not_get(tmp_path, framework, hypervisor, keys):
    with running(tmp_path, framework, **tls_settings(keys)) as controller:
        one, two = hypervisor("compute-1", 0xA1), hypervisor("compute-2", 0xA2)
        one.manage(controller, keys, "compute-1")
        wait_for(lambda: is_in(controller, "connected"), controller.log)
        assert node(controller)["certificate"] == "compute-1"
        # The bridge of compute-1 by OpenFlow: by its own certificate only.
        thief = switch_of(one)
        line = thief.connect(controller.address, context=context(keys, "compute-2"))
        wait_for(lambda: not line.alive, controller.log)
        said = 'its certificate "compute-2" may not speak for switch 00000000000000a1, which is a bridge of node '
        assert f"{said}compute-1" in controller.log()
        assert controller.get("/v1/status")["connections"]["refused"]["not_admitted"] == 1
        switch = switch_of(one)
        own = switch.connect(controller.address, context=context(keys, "compute-1"))
        wait_for(lambda: node(controller)["vms"] == 2, controller.log)
        # A database that claims the bridge of another node is not believed about it, and nothing is written to it.
        two.set_bridge(0xA1)
        two.manage(controller, keys, "compute-2")
        wait_for(lambda: is_in(controller, "connected", "compute-2"), controller.log)
        wait_for(lambda: node(controller, "compute-2")["refused"], controller.log)
        [refusal] = node(controller, "compute-2")["refused"]
        assert refusal["switch"] == "00000000000000a1" and "it is a bridge of node compute-1" in refusal["why"]
        assert node(controller, "compute-2")["switches"] == []
        assert refused(controller)["bridge_of_another"] >= 1
        assert {vm["id"] for vm in controller.get("/v1/vms")["vms"]} == {"compute-1-vm0", "compute-1-vm1"}
        assert controller.put("/v1/vms/compute-1-vm0", {"weight": 4})["stored"]["weight"] == 4
        assert two.vsctl("get", "interface", "tap0", "other_config") == "{}"
        # Nor is one believed to be another node.
        two.vsctl("set", "open_vswitch", ".", "external_ids:system-id=compute-1")
        for said in (
            "it was admitted as node compute-2 and says that it is node",
            'it says that it is node compute-1, by certificate "compute-2"',
        ):
            wait_for(lambda said=said: said in controller.log(), controller.log)
        assert is_in(controller, "connected")
        # When the node is gone its bridge stays its own until it is forgotten.
        one.stop()
        own.close()
        wait_for(lambda: is_in(controller, "gone"), controller.log)
        line = thief.connect(controller.address, context=context(keys, "compute-2"))
        wait_for(lambda: not line.alive, controller.log)
        controller.delete("/v1/nodes/compute-1")
        line = thief.connect(controller.address, context=context(keys, "compute-2"))
        wait_for(lambda: controller.get("/v1/status")["switches"] == 1, controller.log)
        for one in (thief, switch):
            one.close()


def test_who_is_admitted_stands_in_a_file_that_is_followed(tmp_path, framework, hypervisor, keys):
    lines = tmp_path / "admitted"
    lines.write_text("# the first node\ncompute-1 a1\nleaf-* any\n")
    with running(tmp_path, framework, **tls_settings(keys), admit_file=lines) as controller:
        one, two = hypervisor("compute-1", 0xA1), hypervisor("compute-2", 0xA2)
        one.manage(controller, keys, "compute-1")
        wait_for(lambda: is_in(controller, "connected"), controller.log)
        two.manage(controller, keys, "compute-2")
        wait_for(lambda: refused(controller)["not_admitted"], controller.log)
        said = 'no line of admit_file fits its certificate "compute-2"; allowed: compute-1, leaf-*'
        assert said in controller.log()
        for source, certificate, dpid, allowed in (
            ("127.0.0.2", "compute-1", 0xA2, "admit_file allows it: 00000000000000a1"),
            ("127.0.0.3", "leaf-1", 0xA1, "admit_file allows it: any that admit_file does not name"),
            ("127.0.0.4", "compute-2", 0xA2, said),
        ):
            line = switch_of(one, dpid).connect(controller.address, source, context(keys, certificate))
            wait_for(lambda line=line: not line.alive, controller.log)
            wait_for(lambda allowed=allowed: allowed in controller.log(), controller.log)
        leaf = switch_of(one, 0xB1)
        leaf.connect(controller.address, context=context(keys, "leaf-1"))
        wait_for(lambda: controller.get("/v1/status")["switches"] == 1, controller.log)
        # A further node needs a line, and no restart.
        lines.write_text("compute-1 a1\ncompute-2 a2\nleaf-* any\n")
        wait_for(lambda: is_in(controller, "connected", "compute-2"), controller.log)
        assert node(controller, "compute-2")["switches"] == [{"switch": "00000000000000a2", "connected": False}]
        # A mistake leaves in force what was.
        lines.write_text("compute-1 a1\ncompute-2 where\nleaf-* any\n")
        wait_for(lambda: "the lines read before stay in force" in controller.log(), controller.log)
        fault = controller.get("/v1/status")["admit_file_fault"]
        assert fault.startswith(f'admit_file {lines}, line 2: "where" is no datapath id') and fault in controller.log()
        assert "sdngcc_admit_file_fault 1.0" in controller.metrics()
        assert is_in(controller, "connected", "compute-2")
        # Whose line is taken away has to go.
        lines.write_text("compute-2 a2\n")
        wait_for(lambda: is_in(controller, "gone", "compute-1"), controller.log)
        wait_for(lambda: controller.get("/v1/status")["switches"] == 0, controller.log)
        assert is_in(controller, "connected", "compute-2")
        leaf.close()


def test_certificates_of_another_authority_and_connections_without_one_are_refused(
    tmp_path, framework, hypervisor, keys, strange_keys
):
    with running(tmp_path, framework, **tls_settings(keys)) as controller:
        one = hypervisor()
        one.manage(controller, {**strange_keys, "controller_ca": keys["controller_ca"]}, "compute-1")
        wait_for(lambda: refused(controller)["tls"], controller.log)
        assert "no TLS handshake with a known certificate" in controller.log()
        one.manage(controller)  # plain TCP
        before = refused(controller)["tls"]
        wait_for(lambda: refused(controller)["tls"] > before + 1, controller.log)
        assert controller.get("/v1/nodes") == {"nodes": []}
        one.manage(controller, keys, "compute-1")
        wait_for(lambda: is_in(controller, "connected"), controller.log)


class FakeDatabase:
    """A database that says what a test wants it to."""

    def __init__(self, controller, name="compute-1", source="127.0.0.1", dpid="00000000000000a1", room_bytes=None):
        """``room_bytes`` is what the kernel keeps of what the test does not read, None: as much as it likes."""
        self.sock = socket.socket()
        self.sock.settimeout(PATIENCE_S)
        if room_bytes is not None:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room_bytes)
        self.sock.bind((source, 0))
        self.sock.connect(("127.0.0.1", controller.managers))
        self.address = "{}:{}".format(*self.sock.getsockname())
        self.name, self.dpid = name, dpid
        self.decoder, self.text, self.monitor = json.JSONDecoder(), "", None

    def hear(self):
        """Return the next message; None at the end."""
        while True:
            try:
                message, end = self.decoder.raw_decode(self.text)
                self.text = self.text[end:].lstrip()
                return message
            except ValueError:
                pass
            try:
                chunk = self.sock.recv(65536)
            except ConnectionError:
                return None
            if not chunk:
                return None
            self.text += chunk.decode()

    def say(self, message):
        self.sock.sendall(message if isinstance(message, bytes) else json.dumps(message).encode())

    def answer(self):
        """Answer one message as a database does; return its method."""
        message = self.hear()
        if message is None:
            return None
        method = message["method"]
        if method == "transact":
            row = {"_uuid": ["uuid", "0" * 8 + "-0000-4000-8000-" + "0" * 12], "external_ids": self.ids()}
            result = [{"rows": [row]}]
        elif method == "echo":
            result = message["params"]
        elif method.startswith("monitor"):
            self.monitor, result = message["params"][1], self.tables()
            result = [False, "0" * 8 + "-0000-0000-0000-" + "0" * 12, result] if method.endswith("since") else result
        else:
            self.say({"id": message["id"], "result": None, "error": "unknown database"})
            return method
        self.say({"id": message["id"], "result": result, "error": None})
        return method

    def ids(self):
        return ["map", [["system-id", self.name]]]

    def tables(self):
        system, bridge = (f"{number:08x}-0000-4000-8000-000000000000" for number in (1, 2))
        return {
            "Open_vSwitch": {system: {"new": {"external_ids": self.ids()}}},
            "Bridge": {bridge: {"new": {"name": "br0", "datapath_id": self.dpid, "ports": ["set", []]}}},
        }

    def introduce(self):
        """Say which node it is, and have the tables read."""
        while not self.monitor:
            assert self.answer() is not None, "the controller closed the connection"
        return self

    def serve_until(self, condition, told):
        """Answer whatever comes until a condition holds."""
        self.sock.settimeout(0.05)

        def holds():
            try:
                self.answer()
            except TimeoutError:
                pass
            return condition()

        wait_for(holds, told)
        self.sock.settimeout(PATIENCE_S)

    def is_ended(self):
        """Wait for the end of the connection; whatever is asked meanwhile is not answered."""
        while self.hear() is not None:
            pass
        return True


HOSTILE = {
    "no object": b"[1]",
    "no JSON": b"{nonsense}",
    "no end": b'{"id":"' + b"x" * 70_000,
    "no bottom": b'{"id":' + b"[" * 60_000,
    "no such number": b'{"id":"which node","result":[{"rows":[{"_uuid":1e999,"external_ids":["map",[]]}]}]}',
    "an integer of 5,000 digits": b'{"id":"which node","result":' + b"9" * 5000 + b"}",
    "no rows": b'{"id":"which node","result":[{"rows":[]}],"error":null}',
    "no result": b'{"id":"which node","result":null,"error":"what?"}',
    "a row of something else": b'{"id":"which node","result":[{"rows":[{"_uuid":[1,2],"external_ids":[3,4]}]}]}',
    "an echo without anything": b'{"method":"echo"}',
    "sixteen questions of its own": b'{"method":"echo","params":[],"id":"echo"}' * 16,
    "no UTF-8": b'{"id":"\xff\xfe"}',
}


def test_what_does_not_say_which_node_it_is_ends_and_no_more(tmp_path, framework, hypervisor):
    with running(tmp_path, framework) as controller:
        one = hypervisor()
        one.manage(controller)
        wait_for(lambda: is_in(controller, "connected"), controller.log)
        for number, (what, data) in enumerate(HOSTILE.items(), 1):
            stranger = FakeDatabase(controller)
            assert stranger.hear()["method"] == "transact"
            stranger.say(data)
            assert stranger.is_ended(), what
            wait_for(lambda number=number: refused(controller)["malformed"] == number, controller.log)
        assert controller.log().count("closed the database's connection of 127.0.0.1") == 1
        text = f'sdngcc_ovsdb_connections_refused_total{{reason="malformed"}} {len(HOSTILE)}.0'
        assert text in controller.metrics()
        # Neither one that says nothing nor one that says a byte now and then stays.
        silent, slow = FakeDatabase(controller), FakeDatabase(controller)
        slow.sock.settimeout(0.2)

        def is_over():
            try:
                slow.say(b" ")
                return not slow.sock.recv(65536)
            except TimeoutError:
                return False
            except OSError:
                return True

        wait_for(is_over, controller.log)
        assert silent.is_ended()
        wait_for(lambda: refused(controller)["handshake_time"] == 2, controller.log)
        assert len(controller.get("/v1/nodes")["nodes"]) == 1 and is_in(controller, "connected")


def update(database, table, rows):
    return {"method": "update", "params": [database.monitor, {table: rows}], "id": None}


def row_of(number):
    return f"{number:08x}-0000-4000-8000-000000000009"


@functools.lru_cache(1)
def many_rows():
    """Return 33,000 rows as text; made before it is needed, for a database that is silent meanwhile counts as hung."""
    return json.dumps({row_of(number): {"new": {"name": f"x{number}"}} for number in range(33_000)})


def flood(database):
    return f'{{"method":"update","id":null,"params":["{database.monitor}",{{"Interface":{many_rows()}}}]}}'.encode()


ADMITTED_AND_HOSTILE = {
    "no end": (lambda one: b'{"id":"' + b"x" * (5 << 20), "malformed"),
    "no bottom": (lambda one: b'{"id":' + b"[" * 60_000, "malformed"),
    "no object": (lambda one: b"null", "malformed"),
    "no JSON": (lambda one: b"{nonsense}", "malformed"),
    "no message": (lambda one: b'{"what":1}', "malformed"),
    "an update of nothing": (lambda one: {"method": "update2", "params": [1, {"Bridge": {}}], "id": 7}, None),
    "an update without tables": (lambda one: {"method": "update3", "params": [1, 2, 3], "id": None}, None),
    "another node's name": (
        lambda one: update(
            one, "Open_vSwitch", {row_of(1)[:-1] + "0": {"new": {"external_ids": ["map", [["system-id", "other"]]]}}}
        ),
        "not_admitted",
    ),
    "too many rows": (flood, "costs_too_much"),
    "a bridge whose id is no number": (
        lambda one: update(one, "Bridge", {row_of(1): {"new": {"name": "b", "datapath_id": "nonsense"}}}),
        None,
    ),
}


def test_what_an_admitted_node_says_harms_nobody_else(tmp_path, framework, hypervisor):
    many_rows()
    with running(tmp_path, framework) as controller:
        one = hypervisor("compute-2", 0xA2)
        switch = switch_of(one)
        switch.connect(controller.address)
        one.manage(controller)
        wait_for(lambda: is_in(controller, "connected", "compute-2"), controller.log)
        for number, (what, (make, reason)) in enumerate(ADMITTED_AND_HOSTILE.items(), 1):
            name = f"hostile-{number}"
            hostile = FakeDatabase(controller, name, f"127.0.2.{number}", f"{0xC0 + number:016x}").introduce()
            hostile.serve_until(lambda name=name: is_in(controller, "connected", name), controller.log)
            before = refused(controller)
            hostile.say(make(hostile))
            if reason:
                assert hostile.is_ended(), what
                wait_for(lambda before=before, reason=reason: refused(controller)[reason] == before[reason] + 1,
                         controller.log)  # fmt: skip
            else:
                hostile.serve_until(lambda name=name: node(controller, name)["switches"], controller.log)
                hostile.sock.close()
            wait_for(
                lambda number=number: controller.put("/v1/vms/compute-2-vm1", {"weight": number + 1})
                .get("stored", {}).get("weight") == number + 1,
                controller.log,
            )  # fmt: skip
        switch.close()


def test_one_that_reads_nothing_of_what_it_asks_for_ends(tmp_path, framework):
    with running(tmp_path, framework) as controller:
        # What the kernel keeps for it would have to be filled first, with as much as a connection may send in a second.
        hostile = FakeDatabase(controller, room_bytes=4096).introduce()
        hostile.serve_until(lambda: is_in(controller, "connected"), controller.log)
        with pytest.raises(ConnectionError):
            while True:
                hostile.say({"method": "echo", "params": ["x" * 60_000], "id": "echo"})
        wait_for(lambda: refused(controller)["does_not_read"] == 1, controller.log)


def test_of_two_that_are_one_node_the_first_stays_while_it_answers(tmp_path, framework):
    with running(tmp_path, framework) as controller:
        first = FakeDatabase(controller).introduce()
        first.serve_until(lambda: is_in(controller, "connected"), controller.log)
        second = FakeDatabase(controller, source="127.0.0.2")
        assert second.answer() == "transact"
        first.serve_until(lambda: refused(controller)["duplicate_id"] == 1, controller.log)
        assert second.is_ended()
        told = f"closed the database's connection of {second.address}: it says that it is node compute-1, which is "
        assert f"{told}connected from {first.address} and answers" in controller.log()
        assert controller.get("/v1/status")["database_connections"]["conflicts"] == 1
        assert node(controller)["address"] == first.address
        # Once the first one answers no more, the next one takes its place: the node came back.
        third = FakeDatabase(controller, source="127.0.0.3").introduce()
        third.serve_until(lambda: node(controller)["address"] == third.address, controller.log)
        assert first.is_ended()
        third.serve_until(lambda: is_in(controller, "connected"), controller.log)
        assert len(controller.get("/v1/nodes")["nodes"]) == 1


def test_connections_and_nodes_have_their_number(tmp_path, framework):
    with running(tmp_path, framework, ovsdb_connections=4, ovsdb_connections_a_peer=2) as controller:
        idle = [FakeDatabase(controller, source="127.0.0.2") for _ in range(3)]
        wait_for(lambda: refused(controller)["too_many_of_peer"] == 1, controller.log)
        idle += [FakeDatabase(controller, source="127.0.0.3") for _ in range(2)]
        # All places are taken; who says which node it is finds room all the same.
        nodes = [FakeDatabase(controller, f"node-{number}", f"127.0.1.{number}").introduce() for number in range(1, 5)]
        nodes[3].serve_until(lambda: is_in(controller, "connected", "node-4"), controller.log)
        assert refused(controller)["too_many"] == 4
        shown = controller.get("/v1/status")["database_connections"]
        assert shown["open"] <= shown["limit"] == 4
        # A node that is gone for the longest time is forgotten for a new one.
        nodes[0].sock.close()
        for number in (2, 3, 4):
            nodes[number - 1].serve_until(lambda: is_in(controller, "gone", "node-1"), controller.log)
        fifth = FakeDatabase(controller, "node-5", "127.0.1.9").introduce()
        fifth.serve_until(lambda: is_in(controller, "connected", "node-5"), controller.log)
        assert node(controller, "node-1") is None
        assert "node node-1 is forgotten" in controller.log()
        for one in idle + nodes + [fifth]:
            one.sock.close()
