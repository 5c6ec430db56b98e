# SPDX-License-Identifier: Apache-2.0
"""A switch's connection under the tap, in a process of its own: eventlet changes the standard library."""

import os
import subprocess
import sys

_HEAD = """
from sdngcc.controller.framework import launcher
launcher.prepare()
import socket, eventlet
from eventlet.event import Event
from sdngcc.controller.framework import compat
near, far = socket.socketpair()
near.settimeout(0.5)
def message(kind, body=b""):
    return bytes([4, kind, 0, 8 + len(body)]) + bytes(4) + body
reply, hello, echo = message(19, b"\\xff\\xff" + bytes(6)), message(0), message(2)
tap, taken = compat.Tap(near), []
tap.sink = lambda data: taken.append(data) or True
"""


def run(body):
    environment = {**os.environ, "SDNGCC_CONTROLLER_NOTIFY": "false"}
    done = subprocess.run(
        [sys.executable, "-c", _HEAD + body], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_replies_go_to_the_sink_and_the_rest_to_the_framework_in_order():
    run("""
far.sendall(reply + hello[:3])
eventlet.spawn_after(0.05, far.sendall, hello[3:] + reply + echo)
assert tap.recv(100) == hello + echo and taken == [reply, reply]
eventlet.spawn_after(0.05, far.close)
assert tap.recv(100) == b""
""")


def test_silence_for_the_framework_ends_in_its_timeout_and_later_messages_are_read():
    run("""
eventlet.spawn_after(0.05, far.sendall, reply)
try:
    assert not tap.recv(100)
except socket.timeout:
    assert taken == [reply]
else:
    raise AssertionError("no timeout")
far.sendall(hello)
assert tap.recv(100) == hello
""")


def test_a_reader_that_waits_in_the_sink_is_not_woken_by_what_arrives_meanwhile():
    run("""
go, woken = Event(), []
def sink(data):
    taken.append(data)
    if len(taken) == 1:
        woken.append(go.wait())
    return True
tap.sink = sink
far.sendall(reply)
reader = eventlet.spawn(tap.recv, 100)
eventlet.sleep(0.05)
far.sendall(reply + hello)
eventlet.sleep(0.05)
assert taken == [reply] and not woken
go.send("by the event")
assert reader.wait() == hello and taken == [reply, reply] and woken == ["by the event"]
""")
