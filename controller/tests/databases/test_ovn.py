# SPDX-License-Identifier: Apache-2.0
"""Ports out of OVN's Southbound database, as a real ovn-northd writes them."""

import shutil
import signal
import subprocess

import pytest

from sdngcc.controller.network.directory import CloudPort, Trunk, address_of, allowed_of, mac_of

from ..processes import free_port
from ..real_ovs import make_certificates, make_list
from .cloud import OVN, SCHEMAS, Central, Followed, Server

pytestmark = [
    pytest.mark.filterwarnings(r"ignore:\s*Eventlet is deprecated"),
    pytest.mark.skipif(not OVN, reason="OVN is not installed"),
]
SOON = {"tables_ns": 3_000_000_000}  # for tests that wait until a database counts as hung that never has tables
WEB = "11111111-0000-4000-8000-000000000001"
DB = "11111111-0000-4000-8000-000000000002"
MACS = [f"fa:16:3e:00:00:{number:02x}" for number in range(4)]


@pytest.fixture
def central(tmp_path):
    made = Central(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def follow():
    made = []

    def start(*remotes, **more):
        made.append(Followed(ovn_sb=remotes, **more))
        return made[-1]

    yield start
    for one in made:
        one.close()


def test_a_port_is_known_as_northd_copies_it(central, follow):
    central.network("n1", shown="blue")
    central.port("n1", WEB, f"{MACS[1]} 10.0.0.1 fd00::1")
    followed = follow(central.south.remote)
    port = followed.until_port(WEB)
    assert port == CloudPort(
        WEB, "web", "server-web", "blue", "n1", ((0, central.key("n1")),), (mac_of(MACS[1]),),
        (address_of("10.0.0.1"), address_of("fd00::1")), "p1",
    )  # fmt: skip
    followed.until(lambda: followed.database.health.state == "connected")


def test_changes_are_followed_and_only_they_are_told(central, follow):
    central.network("n1")
    central.port("n1", WEB, f"{MACS[1]} 10.0.0.1")
    central.port("n1", DB, f"{MACS[2]} 10.0.0.2", name="db")
    followed = follow(central.south.remote)
    followed.until_whole()
    told = followed.said["CloudPort"]
    central.nb("lsp-set-addresses", WEB, f"{MACS[1]} 10.0.0.9")
    followed.until_port(WEB, addresses=(address_of("10.0.0.9"),))
    assert followed.said["CloudPort"] == told + 1
    central.nb("lsp-del", DB)
    followed.until(lambda: followed.directory.find(DB) is None)
    assert followed.directory.find(WEB) is not None


def test_networks_with_the_same_addresses_have_segments_of_their_own(central, follow):
    for network, port in (("n1", WEB), ("n2", DB)):
        central.network(network, shown=network)
        central.port(network, port, f"{MACS[1]} 10.0.0.1")
    followed = follow(central.south.remote)
    one, other = followed.until_port(WEB), followed.until_port(DB)
    assert one.addresses == other.addresses and not set(one.segments) & set(other.segments)


def test_a_provider_network_is_reached_by_its_vlan(central, follow):
    central.network("n1")
    central.port("n1", WEB, f"{MACS[1]} 10.0.0.1")
    followed = follow(central.south.remote)
    followed.until_port(WEB)
    key = central.key("n1")
    central.nb("lsp-add", "neutron-n1", "provnet-1", "--", "lsp-set-type", "provnet-1", "localnet", "--",
               "lsp-set-addresses", "provnet-1", "unknown", "--", "set", "Logical_Switch_Port", "provnet-1", "tag=100",
               "--", "lsp-set-options", "provnet-1", "network_name=physnet")  # fmt: skip
    followed.until_port(WEB, segments=((0, key), (100, 0)))
    assert followed.directory.find("provnet-1") is None
    central.nb("lsp-del", "provnet-1")
    followed.until_port(WEB, segments=((0, key),))


def test_ports_of_routers_are_not_asked_for(central, follow):
    central.network("n1")
    central.port("n1", WEB, f"{MACS[1]} 10.0.0.1")
    central.nb("lr-add", "r", "--", "lrp-add", "r", "r-n1", MACS[3], "10.0.0.254/24", "--", "lsp-add", "neutron-n1",
               "n1-r", "--", "lsp-set-type", "n1-r", "router", "--", "lsp-set-addresses", "n1-r", "router", "--",
               "lsp-set-options", "n1-r", "router-port=r-n1")  # fmt: skip
    assert central.sb("--bare", "--columns=type", "find", "Port_Binding", "logical_port=n1-r") == "patch"
    followed = follow(central.south.remote)
    followed.until_whole()
    assert followed.directory.count("ovn") == 1


def test_a_subport_of_a_trunk_is_its_parents(central, follow):
    central.network("n1")
    central.network("n2", shown="red")
    central.port("n1", WEB, f"{MACS[1]} 10.0.0.1")
    central.port("n2", DB, f"{MACS[2]} 10.2.0.2", name="db")
    central.nb("set", "Logical_Switch_Port", DB, f"parent_name={WEB}", "tag=30")
    followed = follow(central.south.remote)
    followed.until_port(WEB)
    port = followed.until_port(DB, trunk=Trunk(WEB, 30))
    assert port.segments == ((0, central.key("n2")),) and port.addresses == (address_of("10.2.0.2"),)
    assert [one.id for one in followed.directory.behind(WEB)] == [WEB, DB]
    central.nb("clear", "Logical_Switch_Port", DB, "parent_name", "--", "clear", "Logical_Switch_Port", DB, "tag",
               "tag_request")  # fmt: skip
    followed.until_port(DB, trunk=None)


def test_a_port_whose_row_is_made_anew_stays_known(tmp_path, follow):
    """As ovn-northd does when its parent becomes another one; both rows come in one update, in any order."""
    south = Server(tmp_path, "sb", SCHEMAS / "ovn-sb.ovsschema")
    try:
        def change(*words):
            subprocess.run(["ovn-sbctl", f"--db={south.remote}", *words], check=True, capture_output=True)

        change("--", "--id=@d", "create", "Datapath_Binding", "tunnel_key=7", "--", "create", "Port_Binding",
               f"logical_port={WEB}", "datapath=@d", "tunnel_key=1")  # fmt: skip
        followed = follow(south.remote)
        followed.until_port(WEB)
        for number in range(10):
            network, old = (
                subprocess.run(["ovn-sbctl", f"--db={south.remote}", "--bare", "--columns=_uuid", "list", table],
                               check=True, capture_output=True, text=True).stdout.strip()
                for table in ("Datapath_Binding", "Port_Binding")
            )  # fmt: skip
            change("--", "destroy", "Port_Binding", old, "--", "create", "Port_Binding", f"logical_port={WEB}",
                   f"datapath={network}", "tunnel_key=1", f"external_ids:name=web-{number}")  # fmt: skip
            followed.until_port(WEB, name=f"web-{number}")
    finally:
        south.stop()


def test_what_port_security_allows_beside_is_told_apart_from_a_ports_own(central, follow):
    """As ML2/OVN writes allowed_address_pairs: with the port's own MAC, and with one of VRRP."""
    virtual = "00:00:5e:00:01:07"
    central.network("n1")
    central.port("n1", WEB, f"{MACS[1]} 10.0.0.1")
    central.nb("lsp-set-addresses", WEB, f"{MACS[1]} 10.0.0.1", virtual, "--", "lsp-set-port-security", WEB,
               f"{MACS[1]} 10.0.0.1 10.0.0.100 10.1.0.0/24", f"{virtual} 10.0.0.200",
               f"VRRPv3 {MACS[1]} {virtual} 10.0.0.200")  # fmt: skip
    followed = follow(central.south.remote)
    port = followed.until_port(WEB)
    assert port.macs == (mac_of(MACS[1]), mac_of(virtual)) and port.addresses == (address_of("10.0.0.1"),)
    assert set(port.allowed) == {allowed_of("10.0.0.100"), allowed_of("10.1.0.0/24"),
                                 allowed_of("10.0.0.200", mac_of(virtual))}  # fmt: skip


def test_a_floating_address_that_the_vms_own_host_translates_is_the_vms(central, follow):
    central.network("n1")
    central.port("n1", WEB, f"{MACS[1]} 10.0.0.1")
    central.port("n1", DB, f"{MACS[2]} 10.0.0.2", name="db")
    central.network("ext", shown="public")
    central.nb("lsp-add", "neutron-ext", "provnet-1", "--", "lsp-set-type", "provnet-1", "localnet", "--",
               "lsp-set-addresses", "provnet-1", "unknown", "--", "set", "Logical_Switch_Port", "provnet-1", "tag=200",
               "--", "lsp-set-options", "provnet-1", "network_name=physnet")  # fmt: skip
    central.nb("lr-add", "r", "--", "lrp-add", "r", "r-n1", MACS[3], "10.0.0.254/24", "--",
               "lrp-add", "r", "r-ext", MACS[0], "192.0.2.1/24", "--", "lrp-set-gateway-chassis", "r-ext", "gateway")
    for network in ("n1", "ext"):
        port = f"{network}-r"
        central.nb("lsp-add", f"neutron-{network}", port, "--", "lsp-set-type", port, "router", "--",
                   "lsp-set-addresses", port, "router", "--", "lsp-set-options", port, f"router-port=r-{network}")
    # As ML2/OVN has it at gateways of routers.
    central.nb("set", "Logical_Switch_Port", "ext-r", "options:nat-addresses=router")
    followed = follow(central.south.remote)
    followed.until_port(WEB, floating=())
    mac = "fa:16:3e:00:01:01"
    central.nb("lr-nat-add", "r", "dnat_and_snat", "192.0.2.77", "10.0.0.1", WEB, mac)
    central.nb("lr-nat-add", "r", "dnat_and_snat", "192.0.2.78", "10.0.0.2")  # by the router's gateway
    segments = ((0, central.key("ext")), (200, 0))
    followed.until_port(WEB, floating=tuple((segment, address_of("192.0.2.77")) for segment in segments))
    central.nb("lr-nat-del", "r", "dnat_and_snat", "192.0.2.77")
    central.nb("lr-nat-add", "r", "dnat_and_snat", "192.0.2.77", "10.0.0.2", DB, mac)
    followed.until_port(DB, floating=tuple((segment, address_of("192.0.2.77")) for segment in segments))
    followed.until_port(WEB, floating=())
    assert followed.directory.count("ovn") == 2


def test_what_is_known_stays_while_the_database_is_away_and_what_is_gone_meanwhile_goes(central, follow):
    central.network("n1")
    central.port("n1", WEB, f"{MACS[1]} 10.0.0.1")
    central.port("n1", DB, f"{MACS[2]} 10.0.0.2", name="db")
    followed = follow(central.south.remote)
    followed.until_whole()
    central.south.stop()
    followed.until(lambda: followed.database.health.state == "unreachable")
    assert followed.directory.count("ovn") == 2
    central.south.start()
    central.nb("lsp-del", DB)
    followed.until(lambda: followed.database.health.state == "connected" and followed.directory.find(DB) is None)
    assert followed.directory.find(WEB).name == "web"


def test_a_database_that_answers_nothing_is_hung(central, follow):
    followed = follow(central.south.remote)
    followed.until(lambda: followed.database.health.state == "connected")
    central.south.process.send_signal(signal.SIGSTOP)
    try:
        followed.until(lambda: followed.database.health.state == "hung")
    finally:
        central.south.process.send_signal(signal.SIGCONT)
    followed.until(lambda: followed.database.health.state == "connected")


def test_a_reader_that_dies_takes_nothing_away_and_the_next_one_tells_what_is_gone(central, follow):
    central.network("n1")
    central.port("n1", WEB, f"{MACS[1]} 10.0.0.1")
    central.port("n1", DB, f"{MACS[2]} 10.0.0.2", name="db")
    followed = follow(central.south.remote)
    followed.until_whole()
    followed.kill()
    central.nb("lsp-del", DB)
    assert followed.directory.count("ovn") == 2
    followed.start()
    followed.until(lambda: followed.said["Whole"] == 2)
    assert followed.directory.find(DB) is None and followed.directory.find(WEB) is not None


def test_any_server_of_a_cluster_will_do(tmp_path, follow):
    files, sockets = [], []
    for number in range(3):
        file, peer = tmp_path / f"s{number}.db", f"unix:{tmp_path}/r{number}"
        if number:
            subprocess.run(["ovsdb-tool", "join-cluster", file, "OVN_Southbound", peer, sockets[0]], check=True)
        else:
            subprocess.run(["ovsdb-tool", "create-cluster", file, SCHEMAS / "ovn-sb.ovsschema", peer], check=True)
        sockets.append(peer)
        files.append(Server(tmp_path, f"s{number}", None))
    try:
        followed = follow(*(one.remote for one in files))
        followed.until(lambda: followed.database.health.state == "connected")
        command = ["ovn-sbctl", f"--db={','.join(one.remote for one in files)}", "--", "--id=@d", "create",
                   "Datapath_Binding", "tunnel_key=7", "external_ids:name=neutron-n1", "--", "create", "Port_Binding",
                   f"logical_port={WEB}", "datapath=@d", "tunnel_key=1"]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)
        followed.until_port(WEB, segments=((0, 7),))
        for gone in (0, 2):
            files[gone].stop()
            followed.until(lambda: followed.said["Report"])
        # One of three is left: no quorum, and what it has can still be read.
        followed.until(lambda: followed.database.health.state in ("connected", "unreachable", "hung"))
        assert followed.directory.find(WEB).network_id == "n1"
    finally:
        for one in files:
            one.stop()


def test_rows_that_no_port_can_have_are_refused_and_counted(tmp_path, follow):
    south = Server(tmp_path, "sb", SCHEMAS / "ovn-sb.ovsschema")
    try:
        words = ["--", "--id=@d", "create", "Datapath_Binding", "tunnel_key=7"]
        long, hostile = "x" * 300, "evil\\u001b[2J" + "y" * 5000
        addresses = " ".join(f"10.1.{number // 256}.{number % 256}" for number in range(1000))
        for number, (name, more) in enumerate(
            [(long, []), (WEB, [f'external_ids:name="{hostile}"', f'mac="{MACS[1]} {addresses}"',
                                f'external_ids:neutron\\:project_id="{long}"']),
             (DB, ['mac=["unknown","no:mac 999.1.1.1"]'])], 1
        ):  # fmt: skip
            words += ["--", "create", "Port_Binding", f"logical_port={name}", "datapath=@d", f"tunnel_key={number}",
                      *more]  # fmt: skip
        subprocess.run(["ovn-sbctl", f"--db={south.remote}", *words], check=True, capture_output=True)
        followed = follow(south.remote)
        followed.until_whole()
        followed.until(lambda: followed.counters["cloud_ports_refused"] == 1)
        port = followed.directory.find(WEB)
        assert len(port.name) == 255 and "\x1b" not in port.name and port.name.startswith("evil\ufffd[2J")
        assert len(port.addresses) == 32 and port.tenant == ""
        assert followed.directory.find(DB) == CloudPort(DB, segments=((0, 7),))
    finally:
        south.stop()


def test_another_database_is_never_connected_to(tmp_path, follow):
    other = Server(tmp_path, "nb", SCHEMAS / "ovn-nb.ovsschema")
    try:
        followed = follow(other.remote, orders=SOON)
        followed.until(lambda: followed.database.health.state in ("hung", "unreachable", "unusable"))
        assert not followed.said["Whole"]
    finally:
        other.stop()


# By TLS


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    return make_certificates(tmp_path_factory.mktemp("keys") / "pki", "sb")


@pytest.fixture(scope="module")
def foreign(tmp_path_factory, keys):
    return make_certificates(tmp_path_factory.mktemp("foreign") / "pki", "sb")


def tls_of(keys):
    return {"openflow_tls_key": keys["ctl_key"], "openflow_tls_cert": keys["ctl_cert"],
            "openflow_tls_ca": keys["switch_ca"]}  # fmt: skip


class TlsCentral(Central):
    """A Southbound database that is listened at by TLS too, at ``secure``; it shows the certificate ``sb``."""

    def __init__(self, folder, keys, authority=None):
        port = free_port()
        super().__init__(
            folder, f"--remote=pssl:{port}:127.0.0.1", f"--private-key={keys['sb_key']}",
            f"--certificate={keys['sb_cert']}", f"--ca-cert={authority or keys['controller_ca']}",
        )  # fmt: skip
        self.secure = f"ssl:127.0.0.1:{port}"


@pytest.fixture
def secure(tmp_path):
    made = []

    def start(*words):
        made.append(TlsCentral(tmp_path, *words))
        return made[-1]

    yield start
    for one in made:
        one.stop()


def test_a_southbound_database_is_read_by_tls(secure, keys, follow):
    central = secure(keys)
    central.network("n1")
    central.port("n1", WEB, f"{MACS[1]} 10.0.0.1")
    followed = follow(central.secure, **tls_of(keys))
    followed.until_port(WEB, name="web")
    central.nb("lsp-set-addresses", WEB, f"{MACS[1]} 10.0.0.9")
    followed.until_port(WEB, addresses=(address_of("10.0.0.9"),))
    followed.until(lambda: followed.database.health.state == "connected")


def test_a_server_whose_certificate_is_revoked_is_not_spoken_to(secure, keys, follow, tmp_path, capfd):
    """Until a list says otherwise: they are read at each connection."""
    crl = tmp_path / "lists.pem"
    folder = keys["switch_ca"].parent
    shutil.copy(make_list(folder, keys["sb_cert"]), crl)
    followed = follow(secure(keys).secure, **tls_of(keys), openflow_tls_crl=crl, orders=SOON)
    followed.until(lambda: followed.database.health.state in ("unreachable", "hung"))
    assert "certificate revoked" in capfd.readouterr().err
    shutil.copy(make_list(folder), crl)
    followed.until(lambda: followed.database.health.state == "connected")


@pytest.mark.parametrize("server", ["foreign", "refuses"])
def test_who_is_signed_by_another_authority_is_not_spoken_to(secure, keys, foreign, follow, capfd, server):
    """Neither a server whose authority is another one, nor one that does not take the controller's certificate."""
    central = secure(foreign, keys["controller_ca"]) if server == "foreign" else secure(keys, foreign["controller_ca"])
    followed = follow(central.secure, **tls_of(keys), orders=SOON)
    followed.until(lambda: followed.database.health.state in ("unreachable", "hung"))
    assert not followed.said["Whole"]
    assert server == "refuses" or "TLS failed" in capfd.readouterr().err
