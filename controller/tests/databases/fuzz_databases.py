# SPDX-License-Identifier: Apache-2.0
"""Fuzzes what databases say: bytes of a connection, rows of hypervisors' databases and of OVN's, answers of Neutron.

The first byte of an input says which; rows and answers are made from what follows, most often as they should be.

``python -m sdngcc.controller.tests.databases.fuzz_databases [-runs=N] [libFuzzer's options] FOLDER`` ends with status 0
when nothing was refused but by name, nothing took too many steps, and what is handed on is bounded, printable, and read
by the controller as it was written.
"""

import json
import logging
import types

import atheris
import keystoneauth1.exceptions  # noqa: F401  # else its first use would take all the steps

with atheris.instrument_imports(include=["sdngcc.controller.databases", "sdngcc.controller.network.directory"]):
    from sdngcc.controller.databases import documents, introduction, neutron, ovn, ports, rows, stored
    from sdngcc.controller.databases.telling import Teller
    from sdngcc.controller.network import directory

from .. import fuzzing

LIMIT_BYTES = 512
TEXTS = (
    "", "web", "10.0.0.1", "10.0.0.0/24", "fe80::1", "fe80::1%eth0", "fa:16:3e:00:00:01",
    "fa:16:3e:00:00:01 10.0.0.1 10.0.0.2",
    "network:dhcp", "compute:nova", "flat", "vlan", "geneve", "\x1b[2J", "x" * 300, "a/b", "project-1", "1" * 5000,
    "unknown",
    'fa:16:3e:00:00:02 192.0.2.1 is_chassis_resident("p1")', "p1", "p2", "00000000000000a1", "xyz", "sdngcc",
    "default", "7", "-1",
    "\u0663", "\udc80", "9" * 21, "800000000000", "n1", "neutron-n1",
)  # fmt: skip
NUMBERS = (0, 1, 7, 100, 4095, 4096, -1, 1 << 24, 1 << 40, 1 << 70)
CONNECTION, PORTS, OVN, NEUTRON, LINES, DOCUMENT = range(6)


class Maker:
    """Makes values from bytes, most often of the kind that is asked for."""

    def __init__(self, data):
        self._data = atheris.FuzzedDataProvider(data)

    def flag(self):
        return self._data.ConsumeBool()

    def text(self):
        if self._data.ConsumeIntInRange(0, 15) == 0:
            return self._data.ConsumeUnicode(12)
        return self._data.PickValueInList(list(TEXTS))

    def number(self):
        return self._data.PickValueInList(list(NUMBERS))

    def some(self, make, most=3):
        return [make() for _ in range(self._data.ConsumeIntInRange(0, most))]

    def texts(self, *keys):
        return {key: self.text() for key in keys if self.flag()}

    def odd(self, value):
        """Return a value, or now and then one of another kind."""
        if self._data.ConsumeIntInRange(0, 31):
            return value
        return self._data.PickValueInList([None, True, 1.5, 7, "x", [], [1], ["a", None], {}, {"a": 1}, [[{}]], "\x1b"])


def take_connection(data):
    """Cut documents out of a connection, and read them as the answer which node it is."""
    one = documents.Documents(LIMIT_BYTES)
    with fuzzing.steps(len(data), 20_000):
        for start in range(0, len(data), 64):
            try:
                found = list(one.feed(data[start : start + 64]))
            except documents.DocumentError as error:
                assert str(error).isprintable()
                return
            for document in found:
                assert document.startswith(b"{") and len(document) <= LIMIT_BYTES
                try:
                    step = introduction.read(document)
                except introduction.IntroductionError as error:
                    assert str(error).isprintable()
                    continue
                assert step.name is None or (step.name.isprintable() and 0 < len(step.name) <= 128), ascii(step.name)
                assert not step.reply or isinstance(json.loads(step.reply), dict)


class Client:
    """A client of a database that is believed."""

    def __init__(self, idl):
        self.idl, self.version, self.whole = idl, (0, 1), True

    def speaks_for(self, dpid):
        return True


def take_ports(data):
    """Read rows of a hypervisor's database as policy."""
    maker = Maker(data)
    keys = (*stored.KEYS.values(), "iface-id", "shim-tenant")

    def interface():
        return types.SimpleNamespace(name=maker.text(), other_config=maker.texts(*keys),
                                     external_ids=maker.texts(*keys))

    def port():
        return types.SimpleNamespace(interfaces=[interface()] + maker.some(interface, 1),
                                     other_config=maker.texts(*keys))

    def bridge():
        dpid = ["00000000000000a1"] if maker.flag() else maker.some(maker.text, 1)
        made = {len(known) + number: one for number, one in enumerate([port()] + maker.some(port))}
        known.update(made)
        held = types.SimpleNamespace(values=[types.SimpleNamespace(value=one) for one in made])
        return types.SimpleNamespace(datapath_id=dpid, _idl=idl, _data={"ports": held})

    known = {}  # Port rows
    tables = {"Port": types.SimpleNamespace(rows=known)}
    idl = types.SimpleNamespace(tables=tables)
    tables |= {"Bridge": types.SimpleNamespace(rows=dict(enumerate([bridge()] + maker.some(bridge))))}
    client = Client(idl)
    found = rows.Rows(maker.flag())
    found.add(client)
    view = rows.View(found, lambda one: stored.stored(one.interface, one.port))
    values = [view.values()[place] for place in view.values()]
    found.reread(client)
    assert len(view.values()) == len(values)
    for one in values:
        for key, value in one.policy().items():
            assert value is None or key == "law" or 0 <= value < 1 << 64
        explained = one.explain(maker.text() if maker.flag() else None, None)
        assert set(explained.settings) == set(stored.KEYS)
        one.own("weight")
        assert one.number("shim-weight") >= 0
    client.version = 0, 2
    tables["Bridge"].rows = {}
    assert not len(view.values())
    found.remove(client)


def check_port(port):
    """Check what the controller is told of a port, and read it as the controller does."""
    assert 0 < len(port.id) <= directory.TEXT_MAX
    for text in (port.name, port.device, port.network, port.network_id, port.tenant, port.server):
        assert len(text) <= directory.TEXT_MAX and all(one.isprintable() or one in "\ufffd\xa0" or one.isspace()
                                                       for one in text)
    assert all(len(mac) == 6 for mac in port.macs) and len(port.macs) <= directory.MACS_MAX
    assert all(len(address) == 16 for address in port.addresses) and len(port.addresses) <= directory.ADDRESSES_MAX
    assert len(port.allowed) <= directory.ALLOWED_MAX and all(0 <= one.bits <= 128 for one in port.allowed)
    assert all(0 <= vlan < 4096 and 0 <= key < 1 << 32 for vlan, key in port.segments)
    assert port.trunk is None or (0 < port.trunk.vlan < 4096 and 0 < len(port.trunk.parent) <= directory.TEXT_MAX)


class Controller:
    """What the controller makes of lines."""

    def __init__(self):
        self.known = directory.Directory()
        self.refused = 0

    def write(self, data):
        for line in data.splitlines():
            assert len(line) <= ports.LINE_MAX_BYTES
            said = ports.parse(line)
            if isinstance(said, directory.CloudPort):
                check_port(said)
                self.known.take("ovn", said)
            elif isinstance(said, ports.Gone):
                self.known.drop("ovn", said.id)
            elif isinstance(said, ports.Report):
                assert said.fault is None or (said.fault.isprintable() and len(said.fault) <= ports.FAULT_MAX)
                self.refused += said.refused
            elif isinstance(said, ports.Begins):
                self.known.begin("ovn")
            else:
                for one in self.known.unmentioned("ovn"):
                    self.known.drop("ovn", one)
        for port_id in list(self.known._merged):
            self.known.behind(port_id)


def take_ovn(data):
    """Read rows of OVN's Southbound database."""
    maker, controller = Maker(data), Controller()
    networks = [
        types.SimpleNamespace(
            uuid=number, tunnel_key=maker.number() & 0xFFFFFF, external_ids=maker.texts("name", "name2")
        ) for number in range(2)
    ]  # fmt: skip

    def binding():
        return types.SimpleNamespace(
            uuid=maker.number(), logical_port=maker.text(), type=ovn.LOCALNET if maker.flag()
            and maker.flag() else ovn.VM_TYPE,
            mac=maker.some(maker.text), datapath=networks[maker.flag()], tag=[maker.number() % 4095 + 1]
            if maker.flag() else [],
            parent_port=maker.some(maker.text, 1), port_security=maker.some(maker.text),
            nat_addresses=maker.some(maker.text),
            external_ids=maker.texts("neutron:project_id", "neutron:port_name", "neutron:device_id", "name"),
            _table=types.SimpleNamespace(name="Port_Binding"),
        )  # fmt: skip

    reader = ovn.Reader.__new__(ovn.Reader)
    health = types.SimpleNamespace(state="connected", fault=None)
    tables = {"Port_Binding": types.SimpleNamespace(rows={})}
    reader._client = types.SimpleNamespace(ready=True, connection=1, idl=types.SimpleNamespace(tables=tables),
                                           health=health)
    reader._teller, reader._changed, reader._names, reader._all = Teller(controller.write), {}, {}, True
    reader._translated, reader._segments, reader._floating, reader._connection = False, {}, {}, None
    for _ in range(3):
        for row in maker.some(binding, 4):
            tables["Port_Binding"].rows[row.uuid] = row
            reader._notify("create", row)
        if maker.flag() and tables["Port_Binding"].rows:
            reader._notify("delete", tables["Port_Binding"].rows.popitem()[1])
        reader.give()
        reader._teller.turn(reader.report())
        reader._translated = maker.flag()


def take_neutron(data):
    """Read answers of Neutron and Nova."""
    maker, controller, now = Maker(data), Controller(), [0.0]

    def address():
        return maker.odd({"ip_address": maker.odd(maker.text()), "mac_address": maker.odd(maker.text())})

    def subport():
        return maker.odd({"port_id": maker.text(), "segmentation_id": maker.odd(maker.number())})

    def item():
        return maker.odd({
            "id": maker.odd(maker.text()), "name": maker.odd(maker.text()), "network_id": maker.odd(maker.text()),
            "provider:network_type": maker.odd(maker.text()), "provider:segmentation_id": maker.odd(maker.number()),
            "mac_address": maker.odd(maker.text()), "fixed_ips": maker.odd(maker.some(address)),
            "port_id": maker.text(),
            "project_id": maker.odd(maker.text()), "device_id": maker.odd(maker.text()),
            "device_owner": maker.odd(maker.text()),
            "binding:vif_details": maker.odd({"bound_drivers": maker.odd({"0": maker.text()})}),
            "allowed_address_pairs": maker.odd(maker.some(address)), "floating_ip_address": maker.odd(maker.text()),
            "trunk_details": maker.odd({"sub_ports": maker.odd(maker.some(subport))}),
        })  # fmt: skip

    def get(path, parameters):
        assert parameters["limit"] == neutron.PAGE
        if not data:
            raise neutron.Missing("no")
        if maker.odd(0):
            raise neutron.Missing("not here") if maker.flag() else OSError("\x1b[2J")
        links = maker.odd([{"rel": "next"}] if maker.odd(0) else [])
        return maker.odd({path[1:]: maker.odd(maker.some(item, 3)), f"{path[1:]}_links": links})

    teller = Teller(controller.write)
    reader = neutron.Reader(get, teller, 1.0, lambda: now[0], get if maker.flag() else None)
    for _ in range(3):
        now[0] += 400.0
        reader.run()
        teller.turn(reader.report())
        assert reader.report().state in ("connected", "unusable", "hung", "unreachable")


def take_lines(data):
    """Read lines as those of a reader."""
    for line in data.split(b"\n"):
        try:
            ports.parse(line)
        except ValueError as error:
            assert str(error)


def plain(text):
    """Return what Python's own parser says of a document, None if it refuses it."""
    try:
        return [json.loads(text, parse_constant=documents._no_number)]
    except ValueError:
        return None


def take_document(data):
    """Read a document by parts of a few characters; the values are those of Python's own parser, and no others."""
    text = data.decode("utf-8", "replace")
    if text.count("[") + text.count("{") > 64:  # as whoever cuts documents has it
        return
    window, documents._WINDOW = documents._WINDOW, 8
    try:
        found = [documents.parse(text, lambda: None)]
    except ValueError as error:
        assert str(error)
        found = None
    finally:
        documents._WINDOW = window
    if found is None:
        assert plain(text) is None or documents._ODD.search(text), text
    else:
        assert found == plain(text), text


KINDS = (take_connection, take_ports, take_ovn, take_neutron, take_lines, take_document)


def take(data):
    """Take an input."""
    if data:
        with fuzzing.steps(len(data), 500_000):
            KINDS[data[0] % len(KINDS)](data[1:])


def said(result, **more):
    """Return a document that answers which node it is."""
    return json.dumps({"id": "which node", "result": result, **more}).encode()


UUID = ["uuid", "5a1f0c52-9a3c-4a07-9e4e-0a3b6a2d7f11"]


def row(uuid, **ids):
    return [{"rows": [{"_uuid": uuid, "external_ids": ["map", [list(pair) for pair in ids.items()]]}]}]


def spread(seed, size):
    """Return bytes that look like chance, the same for the same seed."""
    return bytes((seed * 2654435761 + number * number * 40503 + number * 97) >> 7 & 0xFF for number in range(size))


SEEDS = (
    *(bytes([CONNECTION]) + one for one in (
        said(row(UUID, **{"system-id": "node-1"})), said(row(UUID)), said(row(["uuid", "\x1b[2J"])), said([]),
        said(row([1, 2])),
        b'{"method":"echo","params":["x"],"id":"echo"}{"method":"update","params":[]} {"id":7}', b"[1]",
        b'{"a":"\\"}"}' * 3,
        b'{"a":' + b"[" * 70, b'{"' + b"x" * 600, b'{"method":"echo"}', b'{"a":1' + b"1" * 400 + b"}", b"  {}\r\n{}",
        said(row(UUID, **{"system-id": "\x1b[2J"})))),
    *(bytes([kind]) + spread(seed, 900) for kind in (PORTS, OVN, NEUTRON) for seed in range(24)),
    bytes([NEUTRON]), bytes([PORTS]), bytes([OVN]),
    bytes([LINES]) + ports.begins_line() + ports.gone_line("a") + ports.whole_line()
    + b'{"report":["x",null,0]}\n[1]\n{"x":1}\n' + ports.port_line(directory.CloudPort("a", macs=(bytes(6),),
        trunk=directory.Trunk("p", 7))) + b"[" * 5000,
    *(bytes([DOCUMENT]) + one for one in (
        b' {"a" : [1, "two", {"three": null}], "b": {}, "c": [], "d": 123456789012} ', b'{"a":1}x', b'{"a" 1}',
        b"[1 2]",
        b'["\\u0000"]', b"[NaN, 1, 2, 3]", b'{"a": "' + b"x" * 40 + b'", 1: 2}', b'[1, 2, 3, 4, 5', b"")),
)  # fmt: skip


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    fuzzing.fuzz(take, SEEDS)
