# SPDX-License-Identifier: Apache-2.0
"""What a run does before its workload starts: devices by few processes, and a wait until the controllers are ready."""

import json
import socket
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from sdngcc.testbed.virtual import agent as agents
from sdngcc.testbed.virtual import rest
from sdngcc.testbed.virtual.agent import Agent, Failure
from sdngcc.topologies.links import Batch, ShapedIntf, ShapedLink
from sdngcc.topologies.shaping import Shape

FIRST, SECOND = "0000000000000001", "0000000000000002"


@pytest.fixture
def controller():
    """Return a made-up controller: its port, and its answers by path, which a test may change."""
    answers = {"/v1/readyz": {"ready": True, "causes": []},
               "/v1/switches": {"switches": [{"switch": FIRST, "settled": True}, {"switch": SECOND, "settled": True}]}}
    with socket.create_server(("127.0.0.1", 0)) as server:
        def serve():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    path = connection.recv(4096).decode().split()[1]
                    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                    for byte in json.dumps(answers[path]).encode():  # answers come in pieces
                        connection.sendall(bytes([byte]))

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1], answers
        server.shutdown(socket.SHUT_RDWR)


def test_a_controller_is_ready_when_it_says_so_and_has_all_bridges(controller):
    port, answers = controller
    assert rest.hindrances(port, [FIRST, SECOND]) == []
    answers["/v1/switches"]["switches"][1]["settled"] = False
    assert rest.hindrances(port, [FIRST, SECOND]) == [f"switch {SECOND}"]
    assert rest.hindrances(port, [FIRST]) == []
    answers["/v1/switches"]["switches"].clear()
    assert rest.hindrances(port, [FIRST, SECOND]) == [f"switch {FIRST}", f"switch {SECOND}"]
    answers["/v1/readyz"]["causes"] = ["databases"]
    assert rest.hindrances(port, [FIRST]) == ["databases"]


def test_a_controller_that_does_not_listen_is_not_ready():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert rest.ask(port, "/v1/healthz") is None
    assert rest.hindrances(port, []) == ["rest"]


def make_agent(monkeypatch, now_s):
    """Return an agent with one controller that runs, whose clock begins at now_s and moves by its sleep alone."""
    clock = [now_s]
    monkeypatch.setattr(agents.time, "clock_gettime", lambda which: clock[0])
    monkeypatch.setattr(agents.time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    made = Agent({"fabric": "openflow"}, Path())
    made.controllers = [SimpleNamespace(poll=lambda: None, returncode=3)]
    return made, clock


def test_what_is_wanting_is_waited_for_and_named_when_it_does_not_come(monkeypatch):
    made, clock = make_agent(monkeypatch, 11.0)
    wanting = iter([["a"], ["a"], []])
    made.await_controllers(lambda: next(wanting))
    assert clock[0] == pytest.approx(11.0 + 2 * agents.LOOK_S)
    with pytest.raises(Failure, match="not ready within 60 s, wanting are port 1: links"):
        made.await_controllers(lambda: ["port 1: links"])
    made.controllers[0].poll = lambda: 3
    with pytest.raises(Failure, match="a controller ended with 3"):
        made.await_controllers(lambda: ["port 1"])


@pytest.mark.parametrize("now_s, start_s", [(11.827, 12.5), (11.8999, 12.5), (11.9001, 12.6), (13.0, 13.7)])
def test_the_clock_starts_at_a_tenth_of_a_second_after_the_lead(monkeypatch, now_s, start_s):
    made, _ = make_agent(monkeypatch, now_s)
    made.set_start()
    assert made.start_s == start_s and made.lead_s == 0.6 > agents.HANDSHAKE_S


def test_a_batch_makes_devices_before_their_queues_and_this_namespace_first():
    batch, ran = Batch(), []
    for pid, program in ((1, "tc"), (70, "ip"), (1, "ip"), (70, "tc")):
        batch.add(pid, program, "first", "word")
        batch.add(pid, program, "second")
    batch.run(lambda argv, text: ran.append((argv, text)))
    assert [argv for argv, _ in ran] == [
        ["ip", "-batch", "-"], ["mnexec", "-a", "70", "ip", "-batch", "-"],
        ["tc", "-batch", "-"], ["mnexec", "-a", "70", "tc", "-batch", "-"]]
    assert {text for _, text in ran} == {"first word\nsecond\n"}
    batch.run(lambda argv, text: pytest.fail("nothing is left"))


def test_links_are_made_at_once_or_with_a_batch(monkeypatch):
    ran = []
    node = SimpleNamespace(name="tor1", inNamespace=False, pid=4711, addIntf=lambda *args, **params: None,
                           cmd=lambda *words: ran.append(" ".join(words)))
    vm = SimpleNamespace(name="vm1", inNamespace=True, pid=70, device_words=("gso_max_segs", "1"),
                         addIntf=lambda *args, **params: None)
    shape = Shape("delay", delay_us=100)
    ShapedIntf("tor1-hv1", node, shape=shape).config(shape=shape)
    assert ran == ["ip link set tor1-hv1 up",
                   "tc qdisc replace dev tor1-hv1 root handle 10: netem delay 100us limit 100000"]
    ran.clear()
    monkeypatch.setattr(ShapedLink, "batch", Batch())
    ShapedLink(vm, node, intfName1="vm1-eth0", intfName2="tor1-vm1", addr1="02::1", addr2="06::1", port1=1, port2=1,
               shape2=shape)
    ShapedLink.batch.run(lambda argv, text: ran.append(text))
    assert ran == ["link add name vm1-eth0 address 02::1 gso_max_segs 1 netns 70 type veth peer name tor1-vm1 "
                   "address 06::1 netns 1\nlink set tor1-vm1 up\n"]
