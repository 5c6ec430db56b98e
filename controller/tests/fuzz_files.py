# SPDX-License-Identifier: Apache-2.0
"""Fuzzes the files that operators write, and what hosts hear by LLDP: the first byte of an input says which it is.

``python -m sdngcc.controller.tests.fuzz_files [-runs=N] [libFuzzer's options] FOLDER`` ends with status 0 when no file
was refused but by name, and what was taken is within its range. Steps are not counted: PyYAML's grow with the square of
how deep an operator nests a file.
"""

import atexit
import ipaddress
import json
import logging
import os
import pathlib
import shutil
import tempfile

import atheris

with atheris.instrument_imports(include=["sdngcc.configuration", "sdngcc.controller", "sdngcc.testbed.inventory"]):
    from sdngcc import configuration
    from sdngcc.controller import mappings, settings
    from sdngcc.controller.databases import tenants
    from sdngcc.controller.framework import allowlist, certificates
    from sdngcc.controller.network import lldp, underlay
    from sdngcc.testbed import inventory

from sdngcc.controller.network.topology import Topology
from sdngcc.controller.rest.audit import AuditLog
from sdngcc.tracker import settings as tracker

from . import fuzzing

os.umask(0o077)  # files with secrets are to be private
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="fuzz-files-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


def written(name, data):
    """Return the path of a file that holds data."""
    path = FOLDER / name
    path.write_bytes(data)
    return path


def of_settings(suffix):
    """Return what reads settings of the controller in a form."""

    def read(data):
        chosen = settings.load(written(f"settings.{suffix}", data), {})
        assert 1 <= chosen.period_us and chosen.rest_event_clients <= 1000

    return read


def of_environment(data):
    """Read settings of variables, a line each."""
    lines = data.decode("utf-8", "replace").replace("\0", "").split("\n")
    settings.load(None, dict(line.split("=", 1) for line in lines if "=" in line))


def of_tracker(data):
    """Read settings of the tracker."""
    chosen = tracker.load(written("tracker.yaml", data), {})
    assert all(1 <= one.weight for one in chosen.decisions().values())


def of_underlay(data):
    """Read the network beneath, make it, and let hosts come and go."""
    found = underlay.read(written("underlay.yaml", data))
    topology = Topology()
    graph = underlay.Graph(found, topology)
    for dpid in found.hosts:
        graph.add_host(dpid)
    assert all(0 <= dpid < 1 << 64 for dpid in topology.ports) and all(rate > 0 for rate in graph.rates.values())
    for other in (OTHER, found):
        try:
            graph.check(other, {0xF1}, set(found.hosts))
        except ValueError as error:
            assert str(error)
        for _ in graph.replace(other, underlay.Change()):
            pass
    for dpid in found.hosts:
        graph.remove_host(dpid)


OTHER = underlay.read(written("other.yaml", b"""
switches: {leaf1: {}, spine1: {datapath: 'f1'}, spine2: {}}
hosts: {c1: {datapath: ['a00001', '0000525400a00001']}}
links:
- {ends: [c1, leaf1], mbps: 100}
- {ends: ['leaf1:Ethernet48', 'spine2:3']}
"""))


def of_tenants(data):
    """Read the policy of tenants."""
    for name, policy in tenants.TenantFile(written("tenants.json", data)).read().items():
        assert name.isprintable() and 1 <= policy.get("weight", 1) <= tenants.WEIGHT_MAX
        assert not policy.get("max") or policy.get("min", 0) <= policy["max"] <= tenants.RATE_MAX_BPS


def of_allowed(data):
    """Read whom certificates may speak for."""
    found = allowlist.AllowList(allowlist.read(written("admit", data)))
    for who in (certificates.identity({"subject": [[("commonName", "host1 id:0000-0000")]]}), None):
        found.refuses(who)
        if who is not None:
            found.refuses_switch(who, 1)


def of_tokens(data):
    """Read tokens."""
    for name, token in settings.Settings(rest_token_file=written("tokens", data), notify=False).read_tokens().items():
        assert name.isprintable() and 32 <= len(token.secret) <= 256


def of_key(data):
    """Read a key, and a password."""
    path = written("key", data)
    try:
        settings.values.read_secret("sonic_password_file", path)
    except settings.SettingsError as error:
        assert str(error)
    assert len(settings.Settings(key_file=path).read_key()) == 16


def of_inventory(data):
    """Read an inventory of machines."""
    found = inventory.read_inventory(written("racks.yaml", data))
    assert found.senders and found.receivers and ipaddress.ip_interface(found.address_of(1))


def of_audit(data):
    """Read the end of an audit log."""
    AuditLog(written("audit", data), {})


def of_neighbors(data):
    """Read what a host hears, and join it to the file of a network."""
    heard = lldp.read_neighbors(data, ["eth*"])
    known = {"hosts": {"h1": {"datapath": ["a"]}, "h2": {}}, "links": [{"ends": ["h2:eth1", "leaf:1"]}]}
    joined, left = lldp.join(known, {"h1": heard, "h2": []}, 100.0)
    assert all(end.isprintable() and end.count(":") == 1 for link in joined["links"] for end in link["ends"])
    assert all(line.isprintable() for line in left)


def of_mappings(data):
    """Read what settings say of switches, ports and agents, a line each."""
    for line in data.decode("utf-8", "replace").split("\n"):
        for read in (mappings.read_switch, mappings.read_port, mappings.read_agent, mappings.read_sender,
                     mappings.read_capacity, settings.values.split_address):  # fmt: skip
            try:
                read(line)
            except ValueError as error:
                assert str(error)


KINDS = (
    of_settings("yaml"), of_settings("toml"), of_settings("json"), of_environment, of_tracker, of_underlay, of_tenants,
    of_allowed, of_tokens, of_key, of_inventory, of_audit, of_neighbors, of_mappings,
)  # fmt: skip
(
    YAML, TOML, JSON, ENVIRONMENT, TRACKER, UNDERLAY, TENANTS, ALLOWED, TOKENS, KEY, RACKS, AUDIT, LLDP, MAPPINGS,
) = range(14)  # fmt: skip
REFUSALS = (configuration.SettingsError, inventory.InventoryError, lldp.LldpError)


def take(data):
    """Read a file."""
    if not data:
        return
    try:
        KINDS[data[0] % len(KINDS)](data[1:])
    except REFUSALS as error:
        assert str(error)


def file(kind, text):
    """Return an input: a file of a kind."""
    return bytes([kind]) + (text if isinstance(text, bytes) else text.encode() if isinstance(text, str) else
                            json.dumps(text).encode())  # fmt: skip


DUMPED = '? [a, b]\n: 1\n'
SETTINGS = (
    "notify: false\nperiod_us: 5000\nrest: 127.0.0.1:8080\n", "period_us: 0\n", "a: 1\na: 2\n", DUMPED, "[1]", "",
    "a: *b\n",
    "? {a: 1}\n: 1\n", "a: !!int x\n", "a: !!timestamp x\n", "a: !!float ''\n", "a: !!bool x\n", "a: !!binary x\n",
    "period_us: 1e400\n", "{" * 3000, "a: &a [*a]\n",
    "notify: false\nsonic_redis: ['127.0.0.1:6379=1001']\nmark_source: sonic\n",
    "mark_source: sonic\n", "multipath: flow\nmark_source: openflow-ce\n", "mark_source: shim\n", "by_path: true\n",
    "hypervisors: ['1']\nfabric: ['1']\nnotify: false\n",
    "by_path: true\ndivision: bytes\nmessage_version: v0\nnotify: false\n",
    "decision: maxmin\nmessage_version: v0\nnotify: false\n", "rest: 0.0.0.0:8080\nnotify: false\n",
    "cluster: ['tcp:1.2.3.4:1']\n",
    "rest_tls_cert: x\nnotify: false\n", "openflow_tls_key: x\nnotify: false\n",
    "ovsdb_listen: 0.0.0.0:6640\nnotify: false\n",
    "admit_file: x\nnotify: false\n", "openflow_tls_crl: x\nnotify: false\n",
    "ovsdb: ['ssl:1.2.3.4:1']\nnotify: false\n",
    "neutron_cloud: x\nneutron_endpoint: http://a\nnotify: false\n", "nova_names: true\nnotify: false\n",
    "tenant_file: x\ncluster: ['tcp:1.2.3.4:1']\nnotify: false\n", "cluster: ['tcp:1.2.3.4:1']\nnotify: false\n",
    "forwarding: none\nmark_source: openflow-ce\nnotify: false\n",
    "forwarding: none\nmessage_version: v0\nnotify: false\n",
    "otlp_tls_key: x\nnotify: false\n", "otlp_tls_crl: x\nnotify: false\n", "notify: false\nneutron_endpoint: x\n",
    "ovsdb: [x]\n",
    "notify: false\nmark_source: otlp\notlp_switches: ['a=1']\notlp_listen: 0.0.0.0:4317\n", "sflow_rt_url: x\n",
    "notify: false\nmark_source: sflow\nsflow_agents: ['10.0.0.1/3=1']\n", "sflow_ports: ['1/x=1']\n",
    "sflow_senders: ['10.0.0.1=192.0.2.0/24', '10.0.0.1=::1/x', '10.0.0.1']\n",
    "capacities: [x]\n",
    "rest: '[::1]:1'\nnotify: false\n", "rest: 'host:1'\nnotify: false\n", "hypervisors: [{a: 1}]\n",
    "sonic_redis: ['a:1=1', 'a:1=1']\n",
    "hypervisors: [1001]\n", "notify: false\nhypervisors: ['1001', 'x']\n", "!!set {a, b}", "!!omap [a: 1]",
    "<<: [1]\n", "<<: 1\n",
    "notify: false\nunderlay_file: x\n", "a: !!python/object:os.system x\n", "\x00", "a: " + "1" * 5000 + "\n",
)  # fmt: skip
NET = ("switches: {leaf1: {}, spine1: {datapath: '00000000000000f1'}}\nhosts: {c1: {datapath: ['0000525400a00001']}}\n"
       "links:\n- {ends: [c1, leaf1], mbps: 25000}\n- {ends: ['leaf1:Ethernet48', 'spine1:3'], mbps: 100000}\n"
       "- {ends: ['leaf1', 'spine1']}\n- {ends: ['leaf1', 'spine1']}\n")  # fmt: skip
NETS = (
    NET, NET.replace("c1, leaf1", "c1, nobody"), NET.replace("c1, leaf1", "c1, c1"),
    NET + "- {ends: ['spine1:3', leaf1]}\n",
    NET.replace("hosts: {c1", "hosts: {leaf1"), NET.replace("'0000525400a00001'", "1"), NET.replace("25000", ".nan"),
    NET.replace("0000525400a00001", "00000000000000f1"), NET.replace("'00000000000000f1'", "'x'"),
    NET.replace("25000", "-1"),
    NET.replace("hosts: {c1", "hosts: {c2: {datapath: ['0000525400a00001']}, c1"), "links: 1", "", DUMPED,
    NET.replace("spine1: {datapath: '00000000000000f1'}", "spine1: {datapath: 'f1'}, other: {datapath: ['f1']}"),
)  # fmt: skip
RACK = {"link_mbps": 100, "switch": {"address": "sw", "device": "swp1"}, "senders": ["a", "b"], "receivers": ["c"],
        "hosts": {name: {"address": f"192.0.2.{number}", "uplink": "eth1"} for number,
                  name in enumerate("abc", 1)}}  # fmt: skip
RACKS_CHANGES = (
    {}, {"network": "10.0.0.0/30"}, {"network": "x"}, {"senders": ["z"]}, {"senders": ["a", "a"]}, {"receivers": ["a"]},
    {"switch": {"address": "-x", "device": "a/b"}}, {"reach": ["{name}", "{x}"]}, {"database": "/{name}/{x}"},
    {"hosts": {}},
    {"hosts": {**RACK["hosts"], "switch": {"address": "x", "uplink": "e"}}}, {"folder": "x"}, {"link_mbps": 10**400},
    {"hosts": {**RACK["hosts"], "-": {"address": "192.0.2.1", "uplink": "e"}}}, {"reach": ["{name"]},
    {"reach": ["{0}"]},
    {"hosts": {**RACK["hosts"], "d": {"address": "192.0.2.1", "uplink": "e"}}}, {"reach": ["{address.x}"]},
)  # fmt: skip
HEARD = {"lldp": [{"interface": [{"name": "eth0", "chassis": [{"name": [{"value": "leaf 1"}]}],
                                  "port": [{"id": [{"type": "ifname", "value": "Ethernet0:1"}]}]}]}]}  # fmt: skip
NEIGHBORS = ({}, HEARD, {"lldp": [{"interface": [{"name": "eth0"}]}]},
             {"lldp": [{"interface": [{"name": "eth0", "chassis": [{"id": [{"value": "x"}]}]}]}]},
             json.loads(json.dumps(HEARD).replace("leaf 1", "h2")),
             json.loads(json.dumps(HEARD).replace("leaf 1", "leaf") .replace("Ethernet0:1", "1")))  # fmt: skip
SEEDS = (
    *(file(YAML, text) for text in SETTINGS),
    file(TOML, "notify = false\nperiod_us = 5000\n"), file(TOML, "a = [[" * 400), file(TOML, "a = 1979-05-27\n"),
    file(JSON, '{"notify": false}'), file(JSON, '{"a": 1, "a": 2}'), file(JSON, "[" * 5000), file(JSON, "1"),
    file(JSON, b"\xff"),
    file(JSON, {"notify": False, "hypervisors": [1001]}),
    file(ENVIRONMENT, "SDNGCC_CONTROLLER_NOTIFY=false\nSDNGCC_CONTROLLER_HYPERVISORS=1001, 1002\n"),
    file(ENVIRONMENT, "SDNGCC_CONTROLLER_NOTIFY=false\nSDNGCC_CONTROLLER_CAPACITIES={\nSDNGCC_CONTROLLER_X=1\n"),
    file(TRACKER, "divisions: {ds: {objective: ds, weight: 2}}\n"), file(TRACKER, "divisions: {ds: {weight: 0}}\n"),
    *(file(TRACKER, f"divisions: {{ds: {{objective: ds}}}}\n{more}") for more in (
        "trackers: ['10.0.0.1:7700']\n", "trackers: ['x']\n", "trackers: ['127.0.0.1:0']\n", "trackers: ['h:1']\n",
        "period_ms: 100\ntakeover_ms: 100\n", "vms: {tap0: {division: cs}}\n", "trackers: ['127.0.0.1:7700']\n")),
    file(TRACKER, "trackers: ['10.0.0.1:7700']\nperiod_ms: 100\n"), file(TRACKER, "listen: x\n"),
    *(file(UNDERLAY, text) for text in NETS),
    file(TENANTS, {"tenants": {"gold": {"weight": 3, "min": 8000, "max": 9000}}}),
    file(TENANTS, {"tenants": {"a b": {}}}),
    file(TENANTS, {"tenants": {"gold": {"min": 9, "max": 8}}}), file(TENANTS, "{"), file(TENANTS, b"\xff"),
    file(ALLOWED, "host1 1001 00:00:00:00:00:00:10:02 # here\n* any\n\n"), file(ALLOWED, "host1\n"),
    file(ALLOWED, "a 1x\n"),
    file(ALLOWED, "host* 1 2 3 4 5 6 7 8 9 a\nb 7\n"), file(ALLOWED, b"\xff"), file(ALLOWED, "b any\n" * 10),
    file(TOKENS, f"alice {'x' * 32} admin\n# no\n\nbob {'y' * 32}\n"), file(TOKENS, f"alice {'x' * 31}\n"),
    file(TOKENS, ""),
    file(TOKENS, b"\xff"), file(KEY, "0" * 32), file(KEY, "x"), file(KEY, b"\xff"), file(KEY, "a\nb"),
    *(file(RACKS, {**RACK, **change}) for change in RACKS_CHANGES), file(RACKS, "[1]"), file(RACKS, DUMPED),
    file(RACKS, "1: 2"), file(RACKS, "a: !!timestamp x\n"), file(RACKS, "a: !!bool x\n"), file(RACKS, "a: [\n"),
    file(AUDIT, '{"time":"t","who":"w","address":null,"result":"stored"}\n{"x":1}\n\xff'),
    *(file(LLDP, one) for one in NEIGHBORS), file(LLDP, "["),
    file(MAPPINGS,
         "10.0.0.1:6379=1001\n1001/Ethernet0=1\n10.0.0.1/3\n1001/1=2.5\n[::1]:80\nx\n=1\n1/a=99999999999\n10.0.0.1/x\n"
                   "10.0.0.1=192.0.2.0/24\n10.0.0.1=192.0.2.1/24\nx=::/0\n"
                   f"a/b\n1/1=0\n0x1/1=1\n:{'9' * 5000}\nx:{'9' * 5000}\n"),
)  # fmt: skip


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    fuzzing.fuzz(take, SEEDS)
