# SPDX-License-Identifier: Apache-2.0
"""A server that is no controller: nothing but a refusal in printable words, and the token for nobody else."""

import http.server

import pytest

from sdngcc import rest

from .stand_in import serving

DEEP = b"[" * 100_000


class Hostile(http.server.BaseHTTPRequestHandler):
    """Answers every request as the server is told; keeps who was asked with which token."""

    def do_GET(self):
        self.server.tokens.append(self.headers["Authorization"])
        self.send_response_only(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(self.server.length or len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_):
        pass


def hostile(body, status=200, length=None, **headers):
    return serving(Hostile, body=body, status=status, length=length, headers=headers, tokens=[])


def client(server):
    return rest.RestClient(f"http://127.0.0.1:{server.server_address[1]}", "a token")


@pytest.mark.parametrize(
    "body, words",
    [
        (DEEP, "broke off its answer"), (b"7" * 5000, "broke off its answer"), (b"[1]", "no JSON object"),
        (b"{}", "no list of vms"), (b'{"vms":[1],"next":null}', "no list of vms"),
        (b'{"vms":[],"next":"a"}', "lead nowhere"), (b'{"vms":[{}],"next":"a"}', "lead nowhere"),
        (b'{"vms":[{}],"next":7}', "lead nowhere"),
    ],
)  # fmt: skip
def test_an_answer_that_no_controller_gives_is_refused(body, words):
    with hostile(body) as server, pytest.raises(rest.RestError, match=words):
        client(server).vms()


def test_an_answer_that_ends_too_soon_is_refused():
    with hostile(b"{}", length=99) as server, pytest.raises(rest.RestError, match="broke off its answer"):
        client(server).vm("web")


def test_an_answer_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(rest, "ANSWER_MAX_BYTES", 1000)
    with hostile(b" " * 2000 + b"{}") as server, pytest.raises(rest.RestError, match="more than 1000 bytes"):
        client(server).vm("web")


def test_a_list_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(rest, "ITEMS_MAX", 1)
    with hostile(b'{"vms":[{},{}],"next":"a"}') as server, pytest.raises(rest.RestError, match="more than 1 vms"):
        client(server).vms()


@pytest.mark.parametrize("body", [b'{"error":"\\u001b[2J\\n"}', b"\x1b[2J\r\n", DEEP], ids=["JSON", "text", "deep"])
def test_a_refusal_writes_nothing_that_a_terminal_obeys(body):
    with hostile(body, 422) as server, pytest.raises(rest.RestError) as refused:
        client(server).vm("web")
    assert refused.value.message.isprintable()


def test_the_token_goes_to_no_other_server():
    with hostile(b"{}") as other:
        there = f"http://127.0.0.1:{other.server_address[1]}/"
        with hostile(b"", 302, Location=there) as server, pytest.raises(rest.RestError, match="status 302"):
            client(server).vm("web")
        assert server.tokens == ["Bearer a token"] and other.tokens == []


@pytest.mark.parametrize("line, words", [(b"data: [1]", "without a JSON object"), (b"data: " + DEEP, "broke off")])
def test_an_event_that_no_controller_sends_ends_the_stream(line, words):
    with hostile(b"event: vms\n" + line + b"\n\n") as server, pytest.raises(rest.RestError, match=words):
        list(client(server).events())
