# SPDX-License-Identifier: Apache-2.0
"""DevStack's plugin, with stand-ins for the functions of DevStack that it calls."""

import configparser
import pathlib
import shutil
import subprocess

import pytest

DEVSTACK = pathlib.Path(__file__).resolve().parents[2] / "devstack"

# DevStack's functions: what they are asked is written down, but for those that read and write configuration files.
FUNCTIONS = """
set -eu
note() { echo "$*" >>"$FOLDER/calls"; }
echo_summary() { :; }
pip_install() { note pip_install "$@"; }
sudo() { note "$@"; }
is_service_enabled() {
    local one
    for one in "$@"; do [[ " $SERVICES " != *" $one "* ]] || return 0; done
    return 1
}
iniget() { git config --file "$1" --get "$2.${3//_/-}" || true; }
iniset() { git config --file "$1" "$2.${3//_/-}" "$4"; }
"""


@pytest.fixture
def run(tmp_path):
    if shutil.which("git") is None:
        pytest.skip("git is not installed")

    def run(services, agent, phases=("stack install", "stack post-config", "stack extra", "unstack"), **before):
        conf = tmp_path / "ml2.ini"
        conf.write_text(before.get("ml2", ""))
        ovn = tmp_path / "ovn.ini"
        ovn.write_text(before.get("ovn", ""))
        lines = [f"FOLDER={tmp_path} SERVICES='{services}' NEUTRON_AGENT={agent} NEUTRON_CORE_PLUGIN_CONF={conf}",
                 f"OVN_AGENT_CONF={ovn}", FUNCTIONS, f"source {DEVSTACK}/settings",
                 *(f"source {DEVSTACK}/plugin.sh {phase}" for phase in phases)]
        subprocess.run(["bash", "-c", "\n".join(lines)], check=True, timeout=60)
        calls = (tmp_path / "calls").read_text().splitlines() if (tmp_path / "calls").exists() else []
        return read(conf), read(ovn), calls

    return run


def read(path):
    parser = configparser.ConfigParser()
    parser.read_string("\n".join(line.strip() for line in path.read_text().splitlines()))
    return {section: dict(parser[section]) for section in parser.sections()}


def test_the_ovs_agent_loads_it_in_place_of_qos(run):
    ml2, _, calls = run("q-svc q-agt", "openvswitch", ml2="[agent]\nextensions = qos,log\n")
    assert ml2 == {"agent": {"extensions": "log,sdngcc"}, "sdngcc": {"weight-unit-kbps": "100000"}}
    assert calls == [f"pip_install {DEVSTACK.parent}/openstack",
                     "ovs-vsctl --no-wait set Open_vSwitch . other_config:shim-law=static",
                     "ovs-vsctl --no-wait remove Open_vSwitch . other_config shim-law"]


def test_with_ovn_server_and_agent_load_it(run):
    ml2, ovn, _ = run("q-svc q-ovn-agent", "ovn", ml2="[ml2]\nextension-drivers = port_security,qos\n",
                      ovn="[agent]\nextensions = metadata\n")
    assert ml2 == {"ml2": {"extension-drivers": "port_security,qos,sdngcc"}}
    assert ovn == {"agent": {"extensions": "metadata,sdngcc"}, "sdngcc": {"weight-unit-kbps": "100000"}}


def test_a_node_without_agent_is_not_touched(run):
    ml2, ovn, calls = run("q-svc", "openvswitch", phases=("stack post-config", "stack extra"))
    assert (ml2, ovn, calls) == ({}, {}, [])


def test_stacking_again_changes_nothing(run):
    ml2, _, _ = run("q-agt", "openvswitch", phases=["stack post-config"] * 2)
    assert ml2["agent"] == {"extensions": "sdngcc"}
