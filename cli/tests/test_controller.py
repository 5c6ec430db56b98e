# SPDX-License-Identifier: Apache-2.0
"""sdngcc controller --drain against a small stand-in for the controller's REST interface."""

import http.server
import json
import threading

import click.testing
import pytest

from sdngcc.commands import controller as command
from sdngcc.main import main


class Handler(http.server.BaseHTTPRequestHandler):
    """Hands over a switch at each look."""

    def answer(self):
        server = self.server
        held = server.held[0] if len(server.held) == 1 else server.held.pop(0)
        unclaimed = [one for one in held if one in server.unclaimed]
        body = json.dumps({
            "draining": server.draining, "alone": server.alone, "held": held, "unclaimed": unclaimed,
            "done": held == unclaimed,
        }).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self):
        self.server.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.answer()

    do_GET = answer

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(command, "LOOK_S", 0)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.asked, running.held, running.unclaimed, running.alone, running.draining = [], [[]], [], False, True
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


def run(server, *args):
    url = f"http://127.0.0.1:{server.server_port}"
    return click.testing.CliRunner().invoke(main, ["controller", "--url", url, *args])


def test_it_waits_and_tells_how_many_are_left(server):
    server.held = [["1", "2"], ["1", "2"], ["2"], []]
    result = run(server, "--drain")
    assert result.exit_code == 0 and server.asked == [{"draining": True}]
    assert result.output.splitlines() == [
        "2 switches to be handed over", "1 switches to be handed over",
        "drained: other controllers act for all switches",
    ]


def test_what_nobody_else_is_connected_to_is_named(server):
    server.held, server.unclaimed = [["00a1", "00a2"], ["00a2"]], ["00a2"]
    result = run(server, "--drain")
    assert result.exit_code == 1
    assert "1 switches stay, no other controller is connected to them: 00a2" in result.output


def test_it_gives_up_after_the_timeout(server):
    server.held = [["00a1"]]
    result = run(server, "--drain", "--timeout", "0")
    assert result.exit_code == 1 and "not handed over within 0 s: 00a1" in result.output


def test_one_that_is_alone_says_what_follows(server):
    server.alone = True
    result = run(server, "--drain")
    assert result.exit_code == 0 and "return to their share" in result.output


def test_resuming_meanwhile_is_told(server):
    server.held, server.draining = [["00a1"]], False
    result = run(server, "--drain")
    assert result.exit_code == 1 and "take switches again" in result.output
    assert run(server, "--resume").exit_code == 0 and server.asked[-1] == {"draining": False}


def test_both_at_once_are_refused(server):
    assert run(server, "--drain", "--resume").exit_code == 2


def test_a_refusal_is_told(server):
    result = click.testing.CliRunner().invoke(main, ["controller", "--drain", "--url", "http://127.0.0.1:9"])
    assert result.exit_code == 1 and "no controller answers" in result.output
