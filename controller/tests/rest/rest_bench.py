# SPDX-License-Identifier: Apache-2.0
"""REST on the two-rack fabric in memory: policy in a dictionary, requests by falcon's own WSGI client."""

import falcon.testing

from sdngcc.controller.cluster.drain import Drain
from sdngcc.controller.databases.client import PolicyError
from sdngcc.controller.databases.health import Health
from sdngcc.controller.databases.stored import KEYS, Stored
from sdngcc.controller.rest.application import make_app
from sdngcc.controller.rest.audit import AuditLog
from sdngcc.controller.rest.auth import Guard
from sdngcc.controller.rest.events import Broker
from sdngcc.controller.rest.live import Live
from sdngcc.controller.rest.reporter import Reporter
from sdngcc.controller.rest.resource import RestContext
from sdngcc.controller.settings.rest import Role, Token

from ..test_engine import H1, connected


class FakePolicy:
    """Policy kept in a dictionary."""

    remotes: tuple[str, ...] = ("unix:/none",)

    def __init__(self):
        self.stored: dict = {}
        self.external: dict = {}  # Interface:external_ids of each port
        self.complaint = None
        self.fault = ""
        self.doubt = None  # an OutcomeUnknown to be raised
        self.databases = [Health("unix:/none", "hypervisor", 0, "", "connected")]

    def health(self):
        return self.databases

    def read(self, dpid, name):
        stored = self.stored.get((dpid, name))
        return None if stored is None else dict(stored)

    def explain(self, dpid, name):
        if (dpid, name) not in self.stored:
            return None
        columns = ({KEYS[key]: str(value) for key, value in self.stored[dpid, name].items()}, self.external, {})
        return Stored(columns).explain("sdngcc", self.complaint)

    def guarantees(self, dpid, names):
        return 600_000_000, 1_000_000_000

    def write(self, dpid, changes, check):
        check()
        if self.fault:
            raise PolicyError(self.fault)
        if self.doubt:
            raise self.doubt
        for name, wanted in changes.items():
            for key, value in wanted.items():
                if value is None:
                    self.stored[dpid, name].pop(key, None)
                else:
                    self.stored[dpid, name][key] = value


class Bench:
    """One controller and its REST; ``tokens`` are secrets, or tokens, by name, ``settings`` the controller's."""

    def __init__(self, tmp_path, tokens=None, audit_file=None, clients_max=4, **settings):
        self.fabric = connected(tmp_path, **settings)
        self.engine = self.fabric.engine
        self.engine.set_interfaces({(H1, "vm1a"): "neutron-1"})
        self.policy = FakePolicy()
        self.policy.stored[H1, "vm1a"] = {"weight": 2, "max": 10_000_000}
        counters = self.engine.counters
        tokens = {
            name: Token(one, Role.OPERATE) if isinstance(one, str) else one for name, one in (tokens or {}).items()
        }
        self.pauses = []
        self.context = RestContext(
            self.engine, self.policy, Live(self.engine), AuditLog(audit_file, counters), lambda: self.pauses.append(1)
        )
        self.context.drain = Drain(None, self.engine.steer, self.engine.clock)
        self.broker = Broker(7, clients_max, counters)
        self.reporter = Reporter(self.context, self.broker)
        guard = Guard(tokens, ("cloud.example",), counters)
        self.app = make_app(self.context, self.reporter, guard, bool(tokens))
        self.client = falcon.testing.TestClient(self.app, headers={"Host": "localhost"})

    def get(self, path, **headers):
        return self.client.simulate_get(path, headers=headers)

    def put(self, body, vm="neutron-1"):
        if isinstance(body, dict):
            return self.client.simulate_put(f"/v1/vms/{vm}", json=body)
        return self.client.simulate_put(f"/v1/vms/{vm}", body=body, headers={"Content-Type": "application/json"})
