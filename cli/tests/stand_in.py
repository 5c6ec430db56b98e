# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the controller's REST interface, and the program that asks it."""

import contextlib
import http.server
import json
import sys
import threading
import unittest.mock

import click.testing

from sdngcc.main import main


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with JSON; what it keeps is in attributes of ``server``."""

    def answer(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    """Says nothing of a client that leaves early: its words would be among those of the program under test."""

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


@contextlib.contextmanager
def serving(handler, **kept):
    """Serve by a handler, with attributes of the server, until the block ends."""
    with Server(("127.0.0.1", 0), handler) as running:
        vars(running).update(kept)
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def run(server, *words, columns=120, terminal=True):
    """Run `sdngcc` with words against a server, in a terminal of so many columns, or in a pipe."""
    url = f"http://127.0.0.1:{server.server_address[1]}"
    with unittest.mock.patch("sdngcc.tables.is_terminal", lambda: terminal), unittest.mock.patch(
        "sdngcc.commands.top.is_terminal", lambda: terminal
    ):
        return click.testing.CliRunner().invoke(main, [*words], env={"SDNGCC_URL": url, "COLUMNS": str(columns)})
