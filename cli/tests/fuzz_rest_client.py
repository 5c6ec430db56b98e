# SPDX-License-Identifier: Apache-2.0
"""Fuzzes what a server answers to `sdngcc`: documents, or whole HTTP answers, one for each request of a client.

The first byte of an input says what is asked; a line of one zero byte stands between two answers.

``python -m sdngcc.tests.fuzz_rest_client [-runs=N] [libFuzzer's options] FOLDER`` ends with status 0 when whatever came
was an answer of the kind that was asked for or was refused in printable words, the token went nowhere else, and nothing
was asked without end.
"""

import http.client
import json

import atheris

with atheris.instrument_imports(include=["sdngcc.rest"]):
    from sdngcc import rest

from sdngcc.controller.tests import fuzzing

HOST, TOKEN = "controller.example", "a token"
CALLS = (
    (list, lambda client: client.vms({"state": "active"})), (dict, lambda client: client.vm("web")),
    (dict, lambda client: client.vm_change("web", {"weight": 3})), (dict, lambda client: client.vm_reset("web")),
    (dict, lambda client: client.vms_change([{"vm": "web", "weight": 3}])), (dict, lambda client: client.drain(True)),
    (dict, lambda client: client.drain_state()), (list, lambda client: client.tenants()),
    (dict, lambda client: client.tenant("gold")), (dict, lambda client: client.tenant_change("gold", {"min": None})),
    (dict, lambda client: client.tenant_reset("gold")), (list, lambda client: client.nodes()),
    (None, lambda client: client.node_forget("here")), (list, lambda client: [data for _, data in client.events()]),
)  # fmt: skip
REQUESTS_MAX = 64


class Connection(http.client.HTTPConnection):
    """A connection whose one request is answered by the next of ``answers``."""

    answers = []
    asked = 0

    def connect(self):
        assert self.host == HOST, "somebody else was asked, and got the token"
        Connection.asked += 1
        assert Connection.asked <= REQUESTS_MAX, "asked without end"
        self.sock = fuzzing.answering(self.answers.pop(0) if self.answers else b"")


def as_http(piece):
    """Return an answer; a document alone gets a head."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(piece)
    return piece if piece.startswith(b"HTTP/") else head + piece


def take(data):
    """Ask, and get what an input says."""
    if not data:
        return
    kind, call = CALLS[data[0] % len(CALLS)]
    Connection.answers, Connection.asked = [as_http(one)[:65536] for one in data[1:].split(b"\n\0\n")], 0
    before, http.client.HTTPConnection = http.client.HTTPConnection, Connection
    try:
        with fuzzing.steps(len(data), 100_000):
            answer = call(rest.RestClient(f"http://{HOST}", TOKEN))
    except rest.RestError as error:
        assert error.message and error.message.isprintable() and len(error.message) < rest.WORDS_MAX + 500
        return
    finally:
        http.client.HTTPConnection = before
    assert kind is None or isinstance(answer, kind)
    assert kind is not list or all(isinstance(one, dict) for one in answer)


def asking(number, *answers):
    """Return an input."""
    return bytes([number]) + b"\n\0\n".join(
        one if isinstance(one, bytes) else json.dumps(one).encode() for one in answers)


REFUSAL = b'{"error":"no \\u001b[2J","allowed":"1 to 3","in_force":{"weight":null,"min":3}}'
EVENTS = b'HTTP/1.1 200 OK\r\n\r\n: hello\nevent: vms\ndata: {"vms":[]}\n\n'
DEEP = b"[" * 20_000


def status(number, body=b""):
    """Return an answer of a status."""
    return b"HTTP/1.1 %d no\r\nContent-Length: %d\r\n\r\n" % (number, len(body)) + body


SEEDS = (
    asking(0, {"vms": [{"id": "a"}], "next": "b"}, {"vms": [], "next": None}), asking(0, {"vms": [1], "next": None}),
    asking(0, *[{"vms": [{}], "next": "b"}] * 3), asking(0, {"vms": [], "next": "b"}), asking(0, {"next": None}),
    asking(7, {"tenants": [{}], "next": 7}), asking(7, {"tenants": [{}], "next": None}), asking(11, {"nodes": [{}]}),
    asking(1, {"id": "a"}), asking(1, [1]), asking(1, DEEP), asking(1, b"{"), asking(1, b"1" * 5000), asking(1, b""),
    asking(2, status(422, REFUSAL)), asking(3, status(401, REFUSAL)), asking(4, status(500, DEEP)),
    asking(5, status(404)),
    asking(8, b"HTTP/1.1 302 Found\r\nLocation: http://evil.example/\r\nContent-Length: 0\r\n\r\n"),
    asking(8, b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n"),
    asking(6, b"HTTP/9 what"), asking(6, b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}"),
    asking(9, b"HTTP/1.1 200 \x1b[2J"),
    asking(10, b"HTTP/1.1 400 no\r\nContent-Length: 99\r\n\r\n{}"), asking(12, {}),
    asking(12, status(404, b'{"error":7}')),
    asking(10, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
    asking(1, b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 150),
    asking(13, EVENTS), asking(13, EVENTS + b"event: x\ndata: [1]\n\n"), asking(13, EVENTS + b"\xff\n"),
    asking(13, EVENTS + b"event: x\ndata: " + DEEP + b"\n\n"), asking(13, EVENTS + b"event: x\n\n"),
    asking(4, {"results": []}),
)  # fmt: skip


if __name__ == "__main__":
    fuzzing.fuzz(take, SEEDS)
