# SPDX-License-Identifier: Apache-2.0
"""What the program does with names from outside, with an output that cannot be written, with pipes and proxies."""

import http.server
import json
import os
import pty
import subprocess
import sys
import threading

import pytest

from sdngcc.main import available
from sdngcc.text import shown

from . import stand_in

ODD = ["x[/y]", "[prod]web1", "a\x1b[31mb", "nul\0tap", "line\nbreak", "tab\there", "\u202eright", "[red]", "a\x9bb",
       "emoji:smile:", "back\\", "\ud800", "[link=x]y[/link]", "täp0", "\x07bell", "[/]"]  # fmt: skip


def vm(number, name):
    return {
        "id": f"00000000000000b1:{name}", "place": f"b1:{number}", "name": name, "state": "congested",
        "rate_bps": 1_000_000, "share_bps": 2_000_000, "sent_bps": 3_000_000, "weight": 1, "min_bps": 0, "max_bps": 0,
        "drops": 3, "marks": 4,
        "marks_accepted": 5, "cloud": {"name": name, "network": name}, "cloud_name": name, "tenant": name,
    }  # fmt: skip


VMS = [vm(number, name) for number, name in enumerate(ODD)]


class Handler(stand_in.Handler):
    """A controller whose names are odd, and which keeps what it is asked."""

    def do_GET(self):
        self.server.asked.append((self.path, dict(self.headers)))
        path = self.path.partition("?")[0]
        if path == "/v1/events":
            self.send_response(200)
            self.end_headers()
            ports = [{"place": f"b1:{number}", "name": name, "up": True, "congested": True, "marks_per_s": 1.0,
                      "tx_bps": 1.0} for number, name in enumerate(ODD)]  # fmt: skip
            for kind, rows in (("vms", VMS), ("ports", ports)):
                data = json.dumps({"full": True, kind: rows, "gone": []})
                self.wfile.write(f"event: {kind}\ndata: {data}\n\n".encode())
        elif path.startswith("/v1/vms/"):
            self.answer(200, VMS[2])
        elif path == "/v1/tenants":
            rows = [{"name": name, "vms": 1, "active": 1, "hypervisors": 1, "weight": 1, "sent_bps": 1, "rate_bps": 1,
                     "min_bps": 0, "max_bps": 0} for name in ODD]  # fmt: skip
            self.answer(200, {"tenants": rows, "next": None})
        elif path == "/v1/nodes":
            rows = [{"node": name, "state": "connected", "since_s": 1, "vms": 1, "switches": [], "certificate": name,
                     "address": "10.0.0.1:1", "refused": [{"switch": "b1", "why": name}]} for name in ODD]  # fmt: skip
            self.answer(200, {"nodes": rows})
        else:
            self.answer(200, {"vms": VMS, "next": None})

    def do_PUT(self):
        self.body()
        self.server.asked.append((self.path, dict(self.headers)))
        self.answer(200, VMS[2])


@pytest.fixture
def server():
    with stand_in.serving(Handler, asked=[]) as running:
        yield running


def safe(text):
    return all(one.isprintable() or one in "\n" for one in text)


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])
@pytest.mark.parametrize("words", [["vm", "list"], ["vm", "list", "--wide"], ["vm", "show", "x"], ["top", "--once"],
                                   ["tenant", "list"], ["node", "list"], ["vm", "set", "x", "--weight", "2"]],
                         ids=" ".join)  # fmt: skip
def test_names_from_outside_are_shown_as_they_are_and_obeyed_by_nobody(server, words, terminal):
    result = stand_in.run(server, *words, columns=300, terminal=terminal)
    assert result.exit_code == 0, result.output
    assert safe(result.output), ascii(result.output)
    if "list" in words or "top" in words:
        for name in ODD:
            assert shown(name) in result.output, name


def test_names_are_told_apart_and_printable_ones_stay():
    assert len({shown(name) for name in ODD}) == len(ODD)
    assert shown("täp [x]") == "täp [x]" and shown("a\x1b[31mb") == "a\\x1b[31mb" and shown("\u202e") == "\\u202e"


def sdngcc(server, *words, **options):
    environment = {**os.environ, "SDNGCC_URL": f"http://127.0.0.1:{server.server_address[1]}", **options.pop("env", {})}
    command = [sys.executable, "-m", "sdngcc.main", *words]
    return subprocess.run(command, env=environment, timeout=120, text=True, **options)


COMMANDS = [["vm", "list"], ["vm", "list", "--json"], ["vm", "show", "x"], ["top", "--once"],
            ["top", "--once", "--json"], ["tenant", "list"], ["vm", "set", "x", "--weight", "2"], ["--help"],
            ["vm", "--help"], ["--version"], ["testbed", "list"], ["simulate", "list"]]  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_full_output_ends_a_command_in_one_line(server, words):
    with open("/dev/full", "w") as full:
        result = sdngcc(server, *words, stdout=full, stderr=subprocess.PIPE)
    assert (result.returncode, result.stderr) == (1, "Error: cannot write: No space left on device\n")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_reader_that_leaves_ends_a_command_without_a_word(server, words):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        result = sdngcc(server, *words, stdout=writing, stderr=subprocess.PIPE)
    finally:
        os.close(writing)
    assert (result.returncode, result.stderr) == (141, "")


@pytest.mark.parametrize("name", available())
def test_help_of_each_command_ends_so_too(server, name):
    with open("/dev/full", "w") as full:
        result = sdngcc(server, name, "--help", stdout=full, stderr=subprocess.PIPE)
    assert (result.returncode, result.stderr) == (1, "Error: cannot write: No space left on device\n")


def test_in_a_pipe_a_table_is_lines_of_all_columns(server):
    result = sdngcc(server, "vm", "list", stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={"COLUMNS": "20"})
    assert result.returncode == 0 and not result.stderr
    head, *rows = result.stdout.splitlines()
    assert head.split() == ["VM", "name", "network", "state", "rate", "share", "sent", "weight", "max", "min", "drops",
                            "marks"]  # fmt: skip
    assert len(rows) == len(ODD) and not set("│┃━┏┓└┘─") & set(result.stdout)


def test_top_is_readable_in_a_terminal_of_80_columns(server):
    result = stand_in.run(server, "top", "--once", columns=80)
    assert result.exit_code == 0, result.output
    assert max(map(len, result.output.splitlines())) <= 80
    table = result.output[result.output.index("VMs, Mb/s") :]
    assert "may send" in table and "…" not in table.splitlines()[2]
    assert "no room for" in table and "weight" in table


def test_a_real_terminal_gets_a_table(server):
    master, slave = pty.openpty()
    result = sdngcc(server, "vm", "list", stdout=slave, stderr=subprocess.PIPE, env={"COLUMNS": "100", "TERM": "dumb"})
    os.close(slave)
    text = os.read(master, 1 << 16).decode()
    os.close(master)
    assert result.returncode == 0 and "┃" in text


class Proxy(http.server.BaseHTTPRequestHandler):
    """Keeps what it is asked for."""

    def do_GET(self):
        self.server.asked.append((self.path, dict(self.headers)))
        body = json.dumps({"vms": [], "next": None}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_CONNECT = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture
def proxy():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as running:
        running.asked = []
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        running.url = f"http://127.0.0.1:{running.server_address[1]}"
        yield running
        running.shutdown()
        thread.join()


@pytest.mark.parametrize("words", [["vm", "list"], ["vm", "set", "x", "--weight", "2"], ["top", "--once"],
                                   ["tenant", "list"], ["node", "list"]], ids=" ".join)  # fmt: skip
def test_no_request_goes_through_a_proxy_of_the_environment(server, proxy, tmp_path, monkeypatch, words):
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.url)
    monkeypatch.delenv("no_proxy", raising=False)
    token = tmp_path / "token"
    token.write_text("secret\n")
    result = stand_in.run(server, *words[:1], "--token-file", str(token), *words[1:])
    assert result.exit_code == 0, result.output
    assert not proxy.asked
    assert all(headers["Authorization"] == "Bearer secret" for _, headers in server.asked)


def test_a_proxy_that_is_named_is_used_for_a_remote_controller_only(server, proxy, tmp_path):
    result = stand_in.run(server, "vm", "--url", "http://controller.example:8080", "--proxy", proxy.url, "list")
    assert result.exit_code == 0, result.output
    assert [path.partition("?")[0] for path, _ in proxy.asked] == ["http://controller.example:8080/v1/vms"]
    result = stand_in.run(server, "vm", "--proxy", proxy.url, "list")
    assert result.exit_code == 1 and "is this machine; leave --proxy out" in result.output
    token = tmp_path / "token"
    token.write_text("secret\n")
    words = ["vm", "--url", "http://controller.example:8080", "--token-file", str(token), "--proxy", proxy.url, "list"]
    result = stand_in.run(server, *words)
    assert result.exit_code == 1 and "it would read the token" in result.output
    assert len(proxy.asked) == 1


@pytest.mark.parametrize("words", [["vm", "list"], ["vm", "show", "x"], ["tenant", "list"], ["node", "list"]],
                         ids=" ".join)  # fmt: skip
def test_the_controller_may_be_named_before_and_after_the_sub_command(server, words, monkeypatch):
    url = f"http://127.0.0.1:{server.server_address[1]}"
    for given in ([words[0], "--url", url, *words[1:]], [*words, "--url", url],
                  [words[0], "--url", "http://127.0.0.1:9", *words[1:], "--url", url]):  # fmt: skip
        before = len(server.asked)
        with monkeypatch.context() as patch:
            patch.setenv("SDNGCC_URL", "http://127.0.0.1:9")
            import click.testing

            from sdngcc.main import main

            result = click.testing.CliRunner().invoke(main, given)
        assert result.exit_code == 0, result.output
        assert len(server.asked) == before + 1
