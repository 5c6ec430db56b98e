# SPDX-License-Identifier: Apache-2.0
"""Fuzzes REST: requests one after another, each as HTTP has it, to the WSGI application on the fabric in memory.

The first byte of an input says what does not work: the database, its answer, the audit log, and whether tokens are
needed. Requests follow, with a line of one zero byte between two.

``python -m sdngcc.controller.tests.rest.fuzz_rest [-runs=N] [libFuzzer's options] FOLDER`` ends with status 0 when no
request was answered with an internal error or took too many steps, none moved what it was refused to move or what its
bearer may not, and all that was stored is in its range and in the audit log.
"""

import atexit
import copy
import io
import itertools
import json
import logging
import os
import pathlib
import shutil
import tempfile
import types
import urllib.parse

import atheris

with atheris.instrument_imports(include=["sdngcc.controller.rest"]):
    from sdngcc.controller.rest import models
    from sdngcc.controller.rest.connections import Phase
    from sdngcc.controller.rest.resource import CONNECTION

from sdngcc import reload
from sdngcc.controller.databases.client import OutcomeUnknown
from sdngcc.controller.databases.tenants import RATE_MAX_BPS, WEIGHT_MAX, TenantFile
from sdngcc.controller.framework.admission import Admission
from sdngcc.controller.network.directory import CloudPort, Trunk, address_of
from sdngcc.controller.rest.audit import AuditLog
from sdngcc.controller.settings.rest import Role, Token

from .. import fuzzing
from ..fabric import vm_reading
from ..test_engine import H1, H2, H3, talk
from .rest_bench import Bench

TOKENS = {role.value: Token(role.value.ljust(32, "x"), role) for role in Role}
SECRETS = {token.secret: token.role for token in TOKENS.values()}
DATABASE_FAILS, NO_ANSWER, NO_AUDIT, TOKENS_NEEDED, STORED_ALL_THE_SAME, BROKEN_OFF, NEVER_TOLD = (
    1 << bit for bit in range(7)
)
# Statuses from 500 on that say what cannot be done now; others say that something is broken.
NOT_NOW = (503, 504)
PORTS = {(H1, "vm1a"): {"weight": 2, "max": 10_000_000}, (H1, "vm1b"): {}, (H2, "vm2a"): {"law": "eyeq"}}
UUID = "5a1f0c52-9a3c-4a07-9e4e-0a3b6a2d7f11"
# Beside what its length allows an answer takes this many lines, as all that there is may be listed in it.
LINES = 60_000


class Unsettled:
    """A change of which nobody knows; ``stored`` tells what comes out later, None: nothing."""

    def __init__(self, stored):
        self._stored = stored

    def resolve(self):
        return self._stored

    def is_of(self, client):
        return False


class Reloader:
    """Stands in for the reader of settings; every other time they cannot be used."""

    def __init__(self):
        self.counts, self.last, self.restart_needed = {"done": 0, "failed": 0}, None, ["rest"]

    def run(self, by):
        failed = self.counts["done"] > self.counts["failed"]
        self.counts["failed" if failed else "done"] += 1
        self.last = reload.Outcome("2026-11-25T00:00:00Z", by, "failed" if failed else "done", (),
                                   "period_us: out of range" if failed else None)  # fmt: skip
        return self.last


class Tenants(TenantFile):
    """Keeps the policy of tenants; ``doubt`` is raised by a change, if it is not None."""

    doubt = None

    def write(self, name, changes, check):
        if self.doubt is not None:
            check(self.read().get(name))
            raise self.doubt
        super().write(name, changes, check)


class Nodes:
    """Stands in for the nodes whose databases connect: one that is there, and one that is gone."""

    def __init__(self, health):
        self.admission, self.nodes, self.conflicts = Admission(), self, 0
        there = {"dpids": {H1, 99}, "refused": {7: "it is another's"}, "identity": None, "address": "192.0.2.9"}
        self.by_name = {
            name: types.SimpleNamespace(
                name=name, client=types.SimpleNamespace(health=health, is_connected=connected), connections=1, **there
            )
            for name, connected in (("here", True), ("gone", False))
        }

    def __len__(self):
        return len(self.by_name)

    def listed(self):
        return list(self.by_name.values())

    def forget(self, node):
        pass


class Asking:
    """Stands in for the connection of a request."""

    peer = "127.0.0.1"

    def enter(self, phase):
        assert isinstance(phase, Phase)

    def close_afterwards(self):
        pass

    def cut(self):
        pass


class World:
    """The controller and its REST, which begin anew with each input."""

    def __init__(self, folder, tokens):
        self.bench = Bench(folder, tokens=tokens, decision="marks" if tokens else "maxmin")
        self.bench.context.tenants = Tenants(folder / "tenants.json")
        self.bench.context.managers = Nodes(self.bench.policy.databases[0])
        self.bench.context.reloader = Reloader()
        engine = self.bench.engine
        engine.set_interfaces({(H1, "vm1a"): "neutron-1", (H1, "vm1b"): UUID, (H3, "vm3a"): "neutron-3"})
        engine.tenants.set_names({(H1, "vm1a"): "gold", (H1, "vm1b"): "gold", (H2, "vm2a"): "tin/1"})
        own, other = address_of("192.0.2.1"), address_of("2001:db8::1")
        trunk = Trunk("neutron-1", 7)
        engine.directory.take("ovn", CloudPort("neutron-1", "web", "server-1", "blue", "n1", floating=(((0, 7), own),)))
        engine.directory.take("neutron", CloudPort("sub-1", "inner", network="red", trunk=trunk, associated=(other,)))
        engine.directory.take("ovn", CloudPort("neutron-3", "web-3", "server-1"))
        for source, target in ((11, 31), (21, 12)):
            talk(self.bench.fabric, source, target)
        self.bench.fabric.switches[H1].vms[2] = vm_reading(2, 1_000_000, weight=2)
        self.bench.fabric.run(1.0)
        self.full = AuditLog(None, engine.counters)
        self.unwritable = AuditLog(None, engine.counters)
        self.unwritable._path = folder / "there is no such folder" / "audit"
        self.begin(0)

    def begin(self, faults):
        """Take back what the inputs before changed; let things fail as a byte says."""
        bench, context = self.bench, self.bench.context
        bench.policy.stored = copy.deepcopy(PORTS)
        bench.policy.fault = "the database does not answer" if faults & DATABASE_FAILS else ""
        stored = None if faults & NEVER_TOLD else bool(faults & STORED_ALL_THE_SAME)
        unknown = OutcomeUnknown("sent, and not answered", Unsettled(stored))
        bench.policy.doubt = unknown if faults & NO_ANSWER else None
        context.audit = self.unwritable if faults & NO_AUDIT else self.full
        bench.reporter.records._audit = context.audit
        context.audit.records.clear()
        context.pending.clear()
        bench.reporter.pending_tenants.clear()
        bench.reporter._stored.clear()
        context.tenants._policies = {}
        context.tenants.doubt = bench.policy.doubt
        context.drain.set(False, "the fuzzer")
        bench.broker.close()
        for client in list(bench.broker.clients):
            client.close()

    def state(self):
        """Return what requests may change."""
        context = self.bench.context
        return copy.deepcopy((self.bench.policy.stored, dict(context.tenants.read()), context.drain.state().draining))


class Body(io.BytesIO):
    """A request's body, which may break off as a connection does."""

    def __init__(self, data, broken):
        super().__init__(data)
        self._broken = broken

    def read(self, size=-1):
        if self._broken:
            raise OSError("it broke off")
        return super().read(size)


def environment(data, broken):
    """Return a request as eventlet's server gives it to an application; None when it would refuse it itself."""
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 2 or not words[0].isalpha() or not words[1].startswith("/"):
        return None
    path, _, query = words[1].partition("?")
    found = {
        "REQUEST_METHOD": words[0], "SCRIPT_NAME": "", "RAW_PATH_INFO": path, "QUERY_STRING": query,
        "PATH_INFO": urllib.parse.unquote(path, "latin-1"), "SERVER_NAME": "localhost", "SERVER_PORT": "8080",
        "SERVER_PROTOCOL": "HTTP/1.1", "REMOTE_ADDR": "127.0.0.1", "wsgi.url_scheme": "http", "wsgi.version": (1, 0),
        "wsgi.input": Body(body, broken), "wsgi.errors": io.StringIO(), "wsgi.multithread": True,
        "wsgi.multiprocess": False, "wsgi.run_once": False, CONNECTION: Asking(),
    }  # fmt: skip
    for line in lines:
        name, colon, value = line.partition(":")
        if colon and name.replace("-", "").isalnum():
            key = name.upper().replace("-", "_")
            found[key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"] = value.strip()
    if body:
        found.setdefault("CONTENT_LENGTH", str(len(body)))
        found.setdefault("CONTENT_TYPE", "application/json")
    return found


def call(app, asked):
    """Return status, headers and the first of the body of an answer, and what is left of it as an iterator."""
    told = []
    answer = app(asked, lambda status, headers, _=None: told.append((int(status.split()[0]), dict(headers))))
    (status, headers), pieces = told[0], iter(answer)
    if headers.get("content-type") == "text/event-stream":
        return status, headers, b"".join(itertools.islice(pieces, len(answer._ready)))
    return status, headers, b"".join(pieces)


def check_range(changed):
    """Check that what is stored may be stored."""
    (ports, tenants, _) = changed
    for weights, highest, policies in (
        (models.WEIGHT_MAX, models.RATE_MAX_BPS, ports.values()),
        (WEIGHT_MAX, RATE_MAX_BPS, tenants.values()),
    ):
        for policy in policies:
            low, high = policy.get("min", 0), policy.get("max", 0)
            assert 1 <= policy.get("weight", 1) <= weights and 0 <= low <= highest and 0 <= high <= highest
            assert not high or low <= high
            assert policy.get("law", "none") in models.LAWS


def role_of(asked, tokens):
    """Return the role that a request's token gives, None without a valid one."""
    if not tokens:
        return Role.ADMIN
    scheme, _, secret = asked.get("HTTP_AUTHORIZATION", "").partition(" ")
    return SECRETS.get(secret.strip()) if scheme.lower() == "bearer" else None


def check_answer(status, headers, body, method):
    """Check that an answer is what was promised."""
    assert status < 500 or status in NOT_NOW, (status, body)
    assert headers.get("x-content-type-options") == "nosniff" and headers.get("cache-control") == "no-store"
    kind = headers.get("content-type", "")
    if kind.startswith("application/json") and method != "HEAD":
        document = json.loads(body)
        assert status < 400 or document["error"], document


def ask(world, data, tokens, broken):
    """Send one request, and check the answer and what it moved."""
    asked = environment(data, broken)
    if asked is None:
        return
    bench = world.bench
    before, faults, recorded = world.state(), bench.engine.counters["internal_errors"], len(bench.context.audit.records)
    with fuzzing.steps(len(data), LINES):
        status, headers, body = call(bench.app, asked)
    check_answer(status, headers, body, asked["REQUEST_METHOD"])
    assert bench.engine.counters["internal_errors"] == faults
    after, role = world.state(), role_of(asked, tokens)
    if status < 400 and asked["PATH_INFO"].startswith("/v1/") and asked["PATH_INFO"] not in OPEN:
        assert role is not None, "answered without a token"
    if after == before:
        return
    assert status in (200, 207) and asked["REQUEST_METHOD"] in ("PUT", "PATCH", "DELETE"), "a refusal moved something"
    assert role in ((Role.ADMIN,) if after[2] != before[2] else (Role.OPERATE, Role.ADMIN)), "moved by who may not"
    assert len(bench.context.audit.records) > recorded, "it was moved without a record"
    check_range(after)


OPEN = ("/v1/healthz", "/v1/readyz")
os.umask(0o077)  # keys are to be private
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="fuzz-rest-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
WORLDS = {}
for needed, chosen in ((0, None), (TOKENS_NEEDED, TOKENS)):
    (FOLDER / str(needed)).mkdir()
    WORLDS[needed] = World(FOLDER / str(needed), chosen)


def take(data):
    """Send an input's requests; raises AssertionError for what should not have come of them."""
    if not data:
        return
    faults = data[0]
    world = WORLDS[faults & TOKENS_NEEDED]
    world.begin(faults)
    for one in data[1:].split(b"\n\0\n")[:6]:
        ask(world, one, faults & TOKENS_NEEDED, faults & BROKEN_OFF)
    world.bench.reporter.tick()


def request(line, body=b"", **headers):
    """Return a request; headers have _ for -."""
    given = {"Host": "localhost", **{name.replace("_", "-"): value for name, value in headers.items()}}
    head = "\r\n".join([line, *(f"{name}: {value}" for name, value in given.items())])
    return head.encode("latin-1") + b"\r\n\r\n" + (body if isinstance(body, bytes) else json.dumps(body).encode())


def requests(*some, faults=0):
    """Return an input."""
    return bytes([faults]) + b"\n\0\n".join(some)


def bearing(role):
    """Return the header that has a role's token."""
    return {"Authorization": f"Bearer {TOKENS[role].secret}"}


VM, GOLD, BULK = "/v1/vms/neutron-1", "/v1/tenants/gold", [{"vm": "neutron-1", "weight": 3}, {"vm": UUID, "min": 8000}]
WANTED = {"weight": 4, "min": 9_000, "max": 5_000_000, "law": "eyeq"}
QUERIES = (
    "/v1/vms?limit=2&after=0000000000000001:2", "/v1/vms?name=web&state=active&tenant=gold", "/v1/vms?limit=1_0",
    "/v1/vms?mac=02:00:00:00:00:0b&ip=10.0.0.11&port=vm1a&iface_id=neutron-1&network=blue&switch=0000000000000001",
    "/v1/vms?ip=fe80::1%25eth0", "/v1/vms?name=a&name=b", "/v1/vms?nonsense=1", "/v1/ports?congested=false&limit=3",
    "/v1/ports?switch=0000000000000011&name=t1-h1&congested=maybe", "/v1/tenants?limit=1", "/v1/tenants?after=gold",
    "/v1/audit?n=3", "/v1/audit?n=0", "/v1/status", "/v1/settings", "/v1/switches", "/v1/topology", "/v1/nodes",
    "/v1/openapi.json",
    "/v1/drain", "/v1/reload", "/v1/healthz", "/v1/readyz", "/metrics", "/", "/page/page.js", "/v2/x",
    "/v1/tenants/gold",
    "/v1/tenants/tin%2F1", "/v1/tenants/none", "/v1/tenants/%25", "/v1/vms/0000000000000001:vm1a", "/v1/vms/10.0.0.11",
    "/v1/vms/02:00:00:00:00:0b", "/v1/vms/5A1F0c52", "/v1/vms/vm1a", "/v1/vms/192.0.2.1", "/v1/vms/2001:db8::1",
    "/v1/vms/inner", "/v1/vms/server-1", "/v1/vms/%ff%00%0a", "/v1/vms/1:vm1a",
)  # fmt: skip
SEEDS = (
    *(requests(request(f"GET {query}")) for query in QUERIES),
    requests(request(f"PUT {VM}", WANTED), request(f"GET {VM}"), request(f"DELETE {VM}"), request("GET /v1/audit")),
    requests(request(f"PUT {VM}", {"min": 9_000_000, "max": 8_000}), request(f"PUT {VM}", {"weight": 0})),
    requests(request(f"PUT {VM}", {"weight": 1.0, "max": None}), request(f"PUT {VM}", {"burst": 1})),
    requests(request(f"PUT {VM}", b'{"weight":'), request(f"PUT {VM}", b"[1]"), request(f"PUT {VM}", {"min": True})),
    requests(request(f"PUT {VM}", {"min": 500_000_000, "max": 0}), request("PUT /v1/vms/neutron-3", {"weight": 1})),
    requests(request(f"PUT {VM}", WANTED, Content_Type="text/plain"),
             request(f"PUT {VM}", WANTED, Content_Length=9999)),
    requests(request(f"PUT {VM}", b"", Content_Length="x"), request(f"PUT {VM}", WANTED, Transfer_Encoding="chunked")),
    requests(request("PATCH /v1/vms", {"changes": BULK}), request("PATCH /v1/vms", {"changes": BULK * 2})),
    requests(request("PATCH /v1/vms", {"changes": [{"vm": "none"}]}), request("PATCH /v1/vms", {"changes": [{}, 3]})),
    requests(request("PATCH /v1/vms", {"changes": [{"vm": "vm1a", "min": -1}]}), request("PATCH /v1/vms", {})),
    requests(request("PATCH /v1/vms", {"changes": [{"vm": "vm1a", "x": 1}]}), request("POST /v1/vms", b"{}")),
    requests(request(f"PUT {GOLD}", {"weight": 3, "min": 8000}), request(f"GET {GOLD}"), request(f"DELETE {GOLD}")),
    requests(request(f"PUT {GOLD}", {"min": 9000, "max": 8000}), request("PUT /v1/tenants/a%25", {"weight": 1})),
    requests(request(f"DELETE {GOLD}"), request(f"PUT {GOLD}", {"weight": None}), request(f"PUT {GOLD}", b"{")),
    requests(request("PUT /v1/drain", {"draining": True}), request("PUT /v1/drain", {"draining": False})),
    requests(request("POST /v1/reload"), request("POST /v1/reload"), request("GET /v1/status")),
    requests(request("GET /v1/events", Last_Event_ID="7-1"), request("GET /v1/events", Last_Event_ID="x-1")),
    requests(request("GET /v1/events?x=1"), *[request("GET /v1/events", Last_Event_ID="8-0")] * 3),
    requests(*[request("GET /v1/events")] * 4, request("GET /v1/events")),
    requests(request("DELETE /v1/nodes/here"), request("GET /v1/nodes?x=1"), request("HEAD /v1/vms")),
    requests(request(f"PUT {VM}", WANTED, Origin="http://evil.example"),
             request("GET /v1/vms", Sec_Fetch_Site="cross-site")),
    requests(request("GET /v1/vms", Host="evil.example"), request("GET /v1/vms", Host="[::1]:8080")),
    requests(request("GET /v1/vms", Host="cloud.example"), request(f"PUT {VM}", WANTED, Origin="http://localhost")),
    *(requests(request(f"PUT {VM}", WANTED), request(f"PUT {VM}", WANTED), request("PATCH /v1/vms", {"changes": BULK}),
               request(f"PUT {GOLD}", {"weight": 1}), faults=faults)
      for faults in (DATABASE_FAILS, NO_ANSWER, NO_ANSWER | STORED_ALL_THE_SAME, NO_ANSWER | NEVER_TOLD, NO_AUDIT,
                     BROKEN_OFF)),
    *(requests(request(f"PUT {GOLD}", {"weight": 1}), request(f"PUT {GOLD}", {"weight": 1}),
               request(f"PUT {VM}", WANTED),
               request("DELETE /v1/nodes/gone"), faults=faults) for faults in (NO_ANSWER | NEVER_TOLD, NO_ANSWER)),
    requests(request(f"PUT {GOLD}", {"weight": 1}, **bearing("admin")), faults=TOKENS_NEEDED),
    requests(request("PUT /v1/vms/vm3b", WANTED), request("PATCH /v1/vms", {"changes": [{"vm": "vm3b", "weight": 1}]})),
    requests(request("PATCH /v1/vms", {"changes": [{"vm": "0000000000000001:vm1a", "weight": 7}]})),
    *(requests(request(f"PUT {VM}", WANTED, **bearing(role)),
               request("PUT /v1/drain", {"draining": True}, **bearing(role)),
               request("POST /v1/reload", **bearing(role)), request("GET /v1/vms", **bearing(role)),
               faults=TOKENS_NEEDED)
      for role in TOKENS),
    requests(request(f"PUT {VM}", WANTED), request("GET /v1/vms", Authorization="Bearer x"), request("GET /v1/healthz"),
             request("GET /v1/vms", Authorization="Basic eDp5"), faults=TOKENS_NEEDED),
)  # fmt: skip


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    fuzzing.fuzz(take, SEEDS)
