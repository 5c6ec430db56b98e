# SPDX-License-Identifier: Apache-2.0
"""A switch's connection as the framework sees it, in a process of its own: eventlet changes the standard library."""

import os
import subprocess
import sys

from ..processes import PATIENCE_S

_HEAD = """
from sdngcc.controller.framework import launcher
launcher.prepare()
import errno, os, socket, struct, time, eventlet
from eventlet.event import Event
from sdngcc.controller import settings
from sdngcc.controller.framework import connections, names
from sdngcc.controller.framework.admission import Admission, Reason
near, far = socket.socketpair()
near.settimeout(0.5)
def message(kind, body=b""):
    return bytes([4, kind, 0, 8 + len(body)]) + bytes(4) + body
hello, echo = message(0), message(2)
features = message(6, struct.pack("!QIBB2xII", 0xA1, 0, 1, 0, 0x47, 0))
ports = message(19, struct.pack("!HH4x", 13, 0))
reply = message(19, b"\\xff\\xff" + bytes(6))
admission, taken = Admission(), []
channel = admission.enter("10.0.0.1", 1).channel
one = connections.Connection(near, channel, admission)
one.sink = lambda got: taken.append(got.data) or True
def shake():
    far.sendall(hello + features + ports)
    assert one.recv(1000) == hello + features + ports
    assert channel.ready
"""


def run(body):
    environment = {**os.environ, "SDNGCC_CONTROLLER_NOTIFY": "false"}
    done = subprocess.run(
        [sys.executable, "-c", _HEAD + body], env=environment, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_replies_go_to_the_sink_and_the_rest_to_the_framework_in_order():
    run("""
shake()
far.sendall(reply + echo[:3])
eventlet.spawn_after(0.05, far.sendall, echo[3:] + reply + echo)
assert one.recv(100) == echo + echo and taken == [reply, reply]
eventlet.spawn_after(0.05, far.close)
assert one.recv(100) == b"" and one.ended
""")


def test_silence_for_the_framework_ends_in_its_timeout_and_later_messages_are_read():
    run("""
shake()
eventlet.spawn_after(0.05, far.sendall, reply)
try:
    assert not one.recv(100)
except socket.timeout:
    assert taken == [reply]
else:
    raise AssertionError("no timeout")
far.sendall(echo)
assert one.recv(100) == echo
""")


def test_a_reader_that_waits_in_the_sink_is_not_woken_by_what_arrives_meanwhile():
    run("""
shake()
go, woken = Event(), []
def sink(got):
    taken.append(got.data)
    if len(taken) == 1:
        woken.append(go.wait())
    return True
one.sink = sink
far.sendall(reply)
reader = eventlet.spawn(one.recv, 100)
eventlet.sleep(0.05)
far.sendall(reply + echo)
eventlet.sleep(0.05)
assert taken == [reply] and not woken
go.send("by the event")
assert reader.wait() == echo and taken == [reply, reply] and woken == ["by the event"]
""")


def test_what_cannot_be_read_ends_it_after_what_could_and_is_logged_once():
    told = run("""
shake()
far.sendall(echo + message(99) + echo)
assert one.recv(100) == echo and one.recv(100) == b""
assert admission.refused == {Reason.MALFORMED: 1} and far.recv(1) == b""
""")
    assert told.count("closed the connection of 10.0.0.1:1: it sent a message of type 99") == 1


def test_who_speaks_another_version_gets_an_answer():
    run("""
far.sendall(b"\\x01" + hello[1:])
assert one.recv(100) == b""
answer = far.recv(1000)
assert answer[:2] == b"\\x04\\x01" and b"4 (1.3) is needed" in answer
""")


def test_a_flood_of_messages_leaves_others_their_turns():
    run("""
shake()
packet_in = message(10, bytes(16) + struct.pack("!HHII", 1, 12, 0x80000004, 3) + bytes(6) + bytes(14))
turns = []
one.sink = lambda got: taken.append(got) or True
def others():
    while len(taken) < 500:
        turns.append(len(taken))
        eventlet.sleep(0)
eventlet.spawn(others)
far.sendall(packet_in * 500 + echo)
assert one.recv(100) == echo and len(taken) == 500
assert max(after - before for before, after in zip(turns, turns[1:])) <= 32, turns
""")


def test_an_echo_request_is_answered_or_not():
    run("""
shake()
class Datapath:
    socket, send_q = one, names.hub.Queue(16)
one.datapath = Datapath
asked = one.ask()
request = far.recv(100)
assert request[:4] == b"\\x04\\x02\\x00\\x08" and not one.answered(asked)
far.sendall(b"\\x04\\x03\\x00\\x08" + request[4:] + echo)
assert one.recv(100) == echo and one.answered(asked)
assert not one.answered(one.ask())
""")


# accept() that fails in all ways before it gives a connection; the process neither ends nor spins.
def test_accept_that_fails_is_tried_again_and_counted():
    told = run("""
settings.adopt(settings.load(chosen={"openflow": "127.0.0.1:0", "notify": False}))
listener = connections.Listener(settings.current())
faults = [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ECONNABORTED, errno.EPERM]
served, slept, accepted = Event(), [], []
class FailingSocket:
    def accept(self):
        accepted.append(1)
        if len(accepted) <= len(faults):
            raise OSError(faults[len(accepted) - 1], "it failed")
        if len(accepted) == len(faults) + 1:
            return near, ("10.0.0.9", 1)
        Event().wait()
names.controller.datapath_connection_factory = lambda connection, address: served.send(address)
sleep = names.hub.sleep
names.hub.sleep = lambda seconds: slept.append(seconds) or sleep(seconds)
listener._socket = FailingSocket()
eventlet.spawn(listener.serve)
assert served.wait() == ("10.0.0.9", 1)
assert listener.admission.refused == {Reason.ACCEPT: len(faults)}
assert sum(seconds == connections._ACCEPT_AGAIN_S for seconds in slept) == len(faults) - 1
""")
    assert told.count("accept() failed") == 1


def test_the_hub_serves_any_number_of_connections():
    run("""
import resource
from eventlet.hubs import get_hub
from sdngcc.controller.framework import hub
assert type(get_hub()) is hub.Hub
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
pairs = [socket.socketpair() for _ in range(700)]
assert pairs[-1][1].fileno() > 1024
readers = [eventlet.spawn(right.recv, 1) for _, right in pairs]
eventlet.sleep(0)
for left, _ in pairs:
    left.send(b"x")
assert all(reader.wait() == b"x" for reader in readers)
""")


def test_the_hub_leaves_only_whole_milliseconds_to_epoll():
    run("""
from sdngcc.controller.framework import hub
called, one = [], hub.Hub()
class Poll:
    def poll(self, seconds):
        called.append(("epoll", round(seconds, 6)))
        return []
one.poll = Poll()
hub._select = lambda *arguments: called.append(("select", arguments[3]))
for seconds in (0, 0.0002, 0.001, 0.0057, 0.005):
    one.do_poll(seconds)
# epoll_wait() rounds up to milliseconds: to 1, 5 and 5.
assert called == [
    ("epoll", 0), ("select", 0.0002), ("epoll", 0), ("epoll", 0.0005), ("epoll", 0.0045), ("epoll", 0.0045)
], called
""")
