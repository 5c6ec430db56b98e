# SPDX-License-Identifier: Apache-2.0
"""A stand-in for sFlow-RT, which is proprietary and in no package registry.

Built from its public documentation (sflow-rt.com: "Reference" for the paths and their arguments, "Defining Flows" for
the attributes of a definition and the bounds n is 5 to 20, t is 0.2 to 600 s), and from the fields that public
programs read from its answers.  It has been compared with no real sFlow-RT.  Rates are what a test sets; nothing
is computed from samples.
"""

import http.server
import json
import threading
import time


class Server:
    """What the stand-in knows and how it behaves; ``rates`` are {agent: {key name: {ifIndex: frames/s}}}."""

    def __init__(self):
        self.flows = {}
        self.rates = {}
        self.names = {}  # agent -> {ifIndex: name}
        self.requests = []
        self.delay_s = 0.0
        self.answer = None  # (status, bytes) instead of the right ones
        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def end(self):
        self._http.shutdown()
        self._http.server_close()

    def restart(self):
        """Definitions put by REST are in memory and gone after a restart."""
        self.flows.clear()

    def get(self, path):
        parts = path.partition("?")[0].strip("/").split("/")
        if parts == ["flow", "json"]:
            return self.flows
        if len(parts) == 4 and parts[0] == "activeflows" and parts[2] in self.flows:
            rates = self.rates.get(parts[1], {}).get(self.flows[parts[2]]["keys"], {})
            ranked = sorted(rates.items(), key=lambda item: -item[1])[: self.flows[parts[2]]["n"]]
            return [
                {"agent": parts[1], "dataSource": str(index), "flowN": 1, "key": str(index), "value": rate}
                for index, rate in ranked
            ]
        if len(parts) == 4 and parts[0] == "dump" and parts[2:] == ["ifname", "json"]:
            return [
                {"agent": parts[1], "dataSource": str(index), "metricName": "ifname", "metricValue": name}
                for index, name in self.names.get(parts[1], {}).items()
            ]
        return None

    def put(self, path, definition):
        definition["n"] = min(max(definition.get("n", 5), 5), 20)
        definition["t"] = min(max(definition.get("t", 2), 0.2), 600)
        self.flows[path.strip("/").split("/")[1]] = definition

    def _handler(self):
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def _reply(self, status, body):
                time.sleep(server.delay_s)
                if server.answer is not None:
                    status, body = server.answer
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except ConnectionError:
                    self.close_connection = True  # the client did not wait

            def do_GET(self):
                server.requests.append(self.path)
                found = server.get(self.path)
                self._reply(404 if found is None else 200, json.dumps(found).encode())

            def do_PUT(self):
                server.requests.append(self.path)
                server.put(self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self._reply(200, b"")

        return Handler
