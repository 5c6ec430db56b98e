# SPDX-License-Identifier: Apache-2.0
"""Calls that gRPC refuses by itself, by how far they come."""

from sdngcc.controller.otlp.calls import Calls, Core, parse_core


class Server:
    """gRPC's core as a test says; ``during`` is called while it is asked."""

    def __init__(self):
        self.core = Core(0, 0)
        self.during = lambda: None
        self.calls = Calls(self.read)

    def read(self):
        self.during()
        return self.core

    def serve(self, message=True):
        self.calls.begin()
        if message:
            self.calls.known()


def test_calls_that_get_no_handler_or_no_message_are_told_apart_and_once():
    server = Server()
    for message in (True, True, False):
        server.serve(message)
    server.core = Core(started=7, ended=7)
    assert server.calls.refused() == {"calls_too_many": 4, "message_refused": 1}
    assert server.calls.refused() == {}
    server.serve(False)
    server.core = Core(8, 8)
    assert server.calls.refused() == {"message_refused": 1}


def test_a_call_under_way_is_not_refused():
    server = Server()
    server.serve(False)  # its message is still coming
    server.core = Core(2, 0)  # and another one has just begun
    assert server.calls.refused() == {}
    server.calls.known()
    server.serve()
    server.core = Core(2, 2)
    assert server.calls.refused() == {}


def test_a_call_that_comes_or_ends_meanwhile_is_not_refused():
    server = Server()

    def come_and_end():
        server.serve()
        server.core = Core(server.core.started + 1, server.core.ended + 1)

    server.during = come_and_end
    for _ in range(3):
        assert server.calls.refused() == {}
    server.calls.begin()
    server.during = lambda: (server.calls.known(), setattr(server, "core", Core(4, 4)))
    assert server.calls.refused() == {}


def test_channelz_document():
    counts = b'{"callsStarted": "5", "callsSucceeded": "3", "callsFailed": "1"}'
    text = b'{"server": [{"ref": {"serverId": "1"}, "data": %b}]}' % counts
    assert parse_core(text) == Core(5, 4)
    assert parse_core(b"{}") == parse_core(b'{"server": [{}]}') == Core(0, 0)
