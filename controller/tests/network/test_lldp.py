# SPDX-License-Identifier: Apache-2.0
"""Links of hosts by what they hear: documents as lldpd 1.0.16 writes them."""

import copy
import json

import click.testing
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sdngcc.controller.network import underlay
from sdngcc.controller.network.lldp import LldpError, Neighbor, join, read_neighbors
from sdngcc.main import main

# Written by lldpcli 1.0.16 beside a lldpd at the other end of a veth, but for the addresses.
HEARD = {"lldp": [{"interface": [{
    "name": "eth0", "via": "LLDP", "rid": "1", "age": "0 day, 00:00:02",
    "chassis": [{
        "id": [{"type": "mac", "value": "02:00:00:00:71:b1"}],
        "name": [{"value": "leaf1"}],
        "descr": [{"value": "Debian GNU/Linux 12 (bookworm) Linux 6.18.44 #1 SMP PREEMPT_DYNAMIC @0 x86_64"}],
        "mgmt-ip": [{"value": "fe80::fc84:85ff:fe44:71b1"}],
        "mgmt-iface": [{"value": "2"}],
        "capability": [{"type": "Bridge", "enabled": False}, {"type": "Station", "enabled": True}],
    }],
    "port": [{
        "id": [{"type": "mac", "value": "02:00:00:00:71:b1"}],
        "descr": [{"value": "Ethernet48"}],
        "ttl": [{"value": "120"}],
    }],
}]}]}  # fmt: skip
NOTHING = b'{"lldp": [{}]}'  # what it writes when nothing is heard
HOSTS = {"hosts": {"compute1": {"datapath": ["a1"]}, "compute2": {"datapath": ["a2"]}}}


def document(**changes):
    """Return the document with parts of its one interface changed; a part that is None is left out."""
    made = copy.deepcopy(HEARD)
    interface = made["lldp"][0]["interface"][0]
    interface.update(changes)
    for name in [name for name, value in interface.items() if value is None]:
        del interface[name]
    return json.dumps(made).encode()


def test_what_lldpd_writes_is_read():
    assert read_neighbors(document(), ["eth*"]) == [Neighbor("eth0", "leaf1", "Ethernet48")]
    assert read_neighbors(NOTHING, ["*"]) == []


@pytest.mark.parametrize(
    "changes, system, port",
    [
        ({"port": [{"id": [{"type": "ifname", "value": "swp1"}], "descr": [{"value": "up"}]}]}, "leaf1", "swp1"),
        ({"port": [{"id": [{"type": "mac", "value": "02:00:00:00:00:01"}]}]}, "leaf1", "02-00-00-00-00-01"),
        ({"chassis": [{"id": [{"type": "mac", "value": "02:00:00:00:00:01"}]}]}, "02-00-00-00-00-01", "Ethernet48"),
        ({"chassis": [{"name": [{"value": "leaf 1\n"}]}]}, "leaf_1", "Ethernet48"),
    ],
)
def test_names_of_switches_and_ports(changes, system, port):
    assert read_neighbors(document(**changes), ["*"]) == [Neighbor("eth0", system, port)]


def test_only_the_operators_interfaces_and_only_lldp_count():
    assert read_neighbors(document(name="tap0"), ["en*", "eth*"]) == []
    assert read_neighbors(document(via="CDPv2"), ["*"]) == []


@pytest.mark.parametrize(
    "data, what",
    [
        (b"{", "the document: Invalid JSON"),
        (b"[]", "the document: Input should be an object"),
        (b"{}", "lldp: Field required"),
        (b'{"lldp": ' + b"[" * 100_000, "Invalid JSON"),
        (b'{"lldp": [{"interface": {"name": 1}}]}', "lldp.0.interface"),
        (document(chassis=None), "neither a system name nor a chassis id"),
        (document(port=[]), "neither an id nor a description"),
    ],
)
def test_what_is_no_such_document_is_refused(data, what):
    with pytest.raises(LldpError) as caught:
        read_neighbors(data, ["*"])
    assert what in str(caught.value)


@given(st.binary(max_size=200) | st.recursive(
    st.none() | st.booleans() | st.text(max_size=5) | st.integers(),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["lldp", "interface", "name", "chassis", "port", "id", "value"]), inner),
    max_leaves=20,
).map(lambda one: json.dumps(one).encode()))  # fmt: skip
def test_no_document_makes_it_fail_but_with_a_named_error(data):
    try:
        read_neighbors(data, ["*"])
    except LldpError as error:
        assert str(error)


def test_hosts_are_joined_and_what_the_file_says_stays():
    base = {**HOSTS, "links": [{"ends": ["compute1:eth0", "leaf1:Ethernet48"], "mbps": 10_000}], "comment": "x"}
    heard = {
        "compute1": [Neighbor("eth0", "leaf1", "Ethernet48"), Neighbor("eth1", "leaf2", "Ethernet1")],
        "compute2": [Neighbor("eth0", "leaf1", "Ethernet52"), Neighbor("eth3", "compute1", "eth9")],
    }
    made, left = join(base, heard, 25_000)
    assert made["links"] == [
        {"ends": ["compute1:eth0", "leaf1:Ethernet48"], "mbps": 10_000},
        {"ends": ["compute1:eth1", "leaf2:Ethernet1"], "mbps": 25_000},
        {"ends": ["compute2:eth0", "leaf1:Ethernet52"], "mbps": 25_000},
    ]
    assert made["switches"] == {"leaf2": {}, "leaf1": {}} and made["hosts"] == HOSTS["hosts"]
    assert left == ["compute2:eth3 hears compute1:eth9, which is a host: it is no link to a switch"]
    assert join(made, heard, 25_000)[0] == made  # again is no harm
    assert join(HOSTS, {"compute1": []})[1] == ["compute1 has no link", "compute2 has no link"]


@pytest.mark.parametrize(
    "heard, what",
    [
        ({"compute9": []}, '"compute9" is no host of the file; allowed: compute1, compute2'),
        (
            {"compute1": [Neighbor("eth0", "leaf1", "e1")], "compute2": [Neighbor("eth0", "leaf1", "e1")]},
            "compute2:eth0 hears leaf1:e1, but there is a link compute1:eth0 - leaf1:e1, too",
        ),
        (
            {"compute1": [Neighbor("eth0", "leaf1", "e1"), Neighbor("eth0", "leaf1", "e2")]},
            "compute1:eth0 hears leaf1:e2, but there is a link compute1:eth0 - leaf1:e1, too",
        ),
    ],
)
def test_contradictions_are_named(heard, what):
    with pytest.raises(LldpError) as caught:
        join(HOSTS, heard)
    assert str(caught.value) == what


def run(*args):
    return click.testing.CliRunner().invoke(main, ["underlay", "from-lldp", *[str(one) for one in args]])


def test_the_command_prints_a_file(tmp_path):
    base, one = tmp_path / "hosts.yaml", tmp_path / "one.json"
    base.write_text(yaml.safe_dump(HOSTS))
    one.write_bytes(document())
    result = run("--underlay", base, "--mbps", "25000", f"compute1={one}")
    assert result.exit_code == 0, result.output
    assert yaml.safe_load(result.stdout) == {
        **HOSTS, "switches": {"leaf1": {}},
        "links": [{"ends": ["compute1:eth0", "leaf1:Ethernet48"], "mbps": 25_000}],
    }  # fmt: skip
    assert result.stderr == "compute2 has no link\n"
    made = tmp_path / "underlay.yaml"  # the controller takes it
    made.write_text(result.stdout)
    [link] = underlay.read(made).links
    assert [(end.node, end.name) for end in link.ends] == [("compute1", "eth0"), ("leaf1", "Ethernet48")]
    assert link.rate == 25_000 * underlay.MBPS


def test_the_command_names_the_document_at_fault(tmp_path):
    base, one = tmp_path / "hosts.yaml", tmp_path / "one.json"
    base.write_text(yaml.safe_dump(HOSTS))
    one.write_text("nonsense")
    assert f"{one}: the document: Invalid JSON" in run("--underlay", base, f"compute1={one}").output
    assert run("--underlay", base, "compute1").exit_code == 2
    base.write_text("links: 5\n")
    one.write_bytes(document())
    assert str(base) in run("--underlay", base, f"compute1={one}").output


def test_the_command_reads_a_folder_and_replaces_a_file_when_it_changes(tmp_path):
    base, folder, target = tmp_path / "hosts.yaml", tmp_path / "lldp", tmp_path / "underlay.yaml"
    base.write_text(yaml.safe_dump(HOSTS))
    folder.mkdir()
    args = ("--underlay", base, "--folder", folder, "--write", target)
    assert run(*args).exit_code == 2 and not target.exists()
    (folder / "compute1.json").write_bytes(document())
    result = run(*args)
    assert result.exit_code == 0 and result.stdout == "" and result.stderr == "compute2 has no link\n"
    assert len(underlay.read(target).links) == 1
    before = target.stat()
    assert run(*args).exit_code == 0 and target.stat().st_ino == before.st_ino  # as it was
    run(*args, "--mbps", "100")
    assert target.stat().st_ino != before.st_ino and underlay.read(target).links[0].rate == 100 * underlay.MBPS
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hosts.yaml", "lldp", "underlay.yaml"]
    (folder / "compute1.json").write_text("nonsense")
    assert run(*args).exit_code == 1 and underlay.read(target).links
