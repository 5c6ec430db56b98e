# SPDX-License-Identifier: Apache-2.0
"""The controller's reader of Neutron before a real Neutron API: noauth, sqlite, ML2."""

import json
import subprocess
import urllib.request

import pytest

from .hosts import PATIENCE_S, TESTS, free_port, wait_for, write_settings

pytest.importorskip("keystoneauth1")
pytestmark = [
    pytest.mark.release,
    pytest.mark.xdist_group("neutron"),
    pytest.mark.filterwarnings(r"ignore:\s*Eventlet is deprecated"),
]
PROJECT = "0123456789abcdef0123456789abcdef"


class Neutron:
    """A real Neutron API."""

    def __init__(self, folder, python):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        database = folder / "neutron.sqlite"
        self.log = folder / "neutron.err"
        settings = folder / "neutron.conf"
        write_settings(settings, {
            "DEFAULT": {"auth_strategy": "noauth", "core_plugin": "ml2", "service_plugins": "trunk",
                        "state_path": folder, "transport_url": "fake://", "rpc_workers": 0,
                        "notify_nova_on_port_status_changes": "false",
                        "notify_nova_on_port_data_changes": "false", "dhcp_agent_notification": "false",
                        "api_paste_config": python.parent.parent / "etc/neutron/api-paste.ini"},
            "database": {"connection": f"sqlite:///{database}"},
            "oslo_concurrency": {"lock_path": folder / "locks"},
            "ml2": {"type_drivers": "flat,vlan,vxlan,geneve", "tenant_network_types": "geneve",
                    "mechanism_drivers": "openvswitch", "extension_drivers": "port_security"},
            "ml2_type_vlan": {"network_vlan_ranges": "physnet:100:199"},
            "ml2_type_geneve": {"vni_ranges": "70:79", "max_header_size": 38},
            "ml2_type_vxlan": {"vni_ranges": "80:89"},
        })
        with open(self.log, "ab") as output:
            self.process = subprocess.Popen([python, TESTS / "neutron_api.py", settings, database, str(port)],
                                            stdout=output, stderr=output, cwd=folder)
        wait_for(self._answers, lambda: self.log.read_text()[-4000:])

    def _answers(self):
        assert self.process.poll() is None, self.log.read_text()[-4000:]
        try:
            return self.call("GET", "/v2.0/networks")
        except OSError:
            return False

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.url + path, None if body is None else json.dumps(body).encode(),
                                         {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return json.loads(answer.read() or b"{}")

    def network(self, name, subnet="10.0.0.0/24", **provider):
        values = {"name": name, "project_id": PROJECT, **{f"provider:{key}": value for key, value in provider.items()}}
        network = self.call("POST", "/v2.0/networks", {"network": values})["network"]
        self.call("POST", "/v2.0/subnets", {"subnet": {"network_id": network["id"], "cidr": subnet, "ip_version": 4,
                                                       "project_id": PROJECT, "enable_dhcp": False}})
        return network

    def port(self, network, name, address, owner="compute:nova", **more):
        return self.call("POST", "/v2.0/ports", {"port": {
            "network_id": network["id"], "name": name, "project_id": PROJECT, "device_owner": owner,
            "device_id": f"server-{name}", "fixed_ips": [{"ip_address": address}], **more}})["port"]

    def stop(self):
        self.process.kill()
        self.process.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def neutron(tmp_path_factory):
    from sdngcc.testbed.neutron import neutron_environment

    made = Neutron(tmp_path_factory.mktemp("neutron"), neutron_environment()[0])
    yield made
    made.stop()


@pytest.fixture
def followed(neutron):
    from sdngcc.controller.tests.databases.cloud import Followed

    made = Followed(neutron_endpoint=neutron.url, neutron_period_s=5)
    yield made
    made.close()


def test_what_neutron_has_is_read_page_by_page_and_followed(neutron, followed):
    vlan = neutron.network("blue", network_type="vlan", physical_network="physnet", segmentation_id=123)
    geneve = neutron.network("red")
    web, db = neutron.port(vlan, "web", "10.0.0.11"), neutron.port(geneve, "db", "10.0.0.11")
    router = neutron.port(vlan, "gate", "10.0.0.1", owner="network:router_interface")
    known = followed.until_port(web["id"])
    assert known._asdict() == {
        "id": web["id"], "name": "web", "device": "server-web", "network": "blue", "network_id": vlan["id"],
        "segments": ((123, 0),), "macs": (bytes.fromhex(web["mac_address"].replace(":", "")),),
        "addresses": (bytes(10) + b"\xff\xff" + bytes([10, 0, 0, 11]),), "tenant": PROJECT, "trunk": None,
        "allowed": (), "floating": (), "server": "", "associated": (),
    }
    # Not bound by anybody yet: whose tunnel that is cannot be told.
    assert followed.until_port(db["id"], network="red").segments == ()
    followed.until(lambda: followed.database.health.state == "connected")
    assert followed.directory.find(router["id"]) is None
    neutron.call("PUT", f"/v2.0/ports/{web['id']}", {"port": {"name": "web-2"}})
    neutron.call("DELETE", f"/v2.0/ports/{db['id']}")
    followed.until_port(web["id"], name="web-2")
    followed.until(lambda: followed.directory.find(db["id"]) is None)


def test_trunks_and_allowed_addresses_are_read(neutron, followed):
    from sdngcc.controller.network.directory import Trunk, allowed_of

    network = neutron.network("green", subnet="10.8.0.0/24")
    virtual = "00:00:5e:00:01:07"
    pairs = [{"ip_address": "10.8.0.100"}, {"ip_address": "10.9.0.0/24", "mac_address": virtual}]
    parent = neutron.port(network, "parent", "10.8.0.11", allowed_address_pairs=pairs)
    first, second = (neutron.port(network, f"sub-{number}", f"10.8.0.{number}", owner="", device_id="")
                     for number in (21, 22))
    trunk = neutron.call("POST", "/v2.0/trunks", {"trunk": {
        "port_id": parent["id"], "project_id": PROJECT, "sub_ports": [
            {"port_id": first["id"], "segmentation_type": "vlan", "segmentation_id": 30}]}})["trunk"]
    allowed = {allowed_of("10.8.0.100"), allowed_of("10.9.0.0/24", bytes.fromhex(virtual.replace(":", "")))}
    assert set(followed.until_port(parent["id"]).allowed) == allowed
    followed.until_port(first["id"], trunk=Trunk(parent["id"], 30))
    assert [one.id for one in followed.directory.behind(parent["id"])] == [parent["id"], first["id"]]
    neutron.call("PUT", f"/v2.0/trunks/{trunk['id']}/add_subports", {"sub_ports": [
        {"port_id": second["id"], "segmentation_type": "vlan", "segmentation_id": 31}]})
    neutron.call("PUT", f"/v2.0/trunks/{trunk['id']}/remove_subports", {"sub_ports": [{"port_id": first["id"]}]})
    followed.until_port(second["id"], trunk=Trunk(parent["id"], 31))
    followed.until_port(first["id"], trunk=None)
