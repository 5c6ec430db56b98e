# SPDX-License-Identifier: Apache-2.0
"""The topologies by themselves: in Debian's own mn, and with more hosts than a byte can number."""

import ipaddress
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sdngcc.testbed.build import ROOT
from sdngcc.testbed.programs import folder, python_path
from sdngcc.topologies import TOPOLOGIES
from sdngcc.topologies.fabric import VMS_MAX, link_address, vm_addresses

FOLDER = ROOT / "mininet" / "topologies"
FILES = {path.stem: re.search(r"mn --custom \S+ --topo (\S+)", path.read_text())[1]
         for path in FOLDER.glob("*.py") if "mn --custom" in path.read_text() and path.stem != "standalone"}

# What mn does with --custom and --topo, up to the topology.
MN = """
import importlib.machinery, importlib.util, json, sys
sys.path.append(sys.argv[4])
loader = importlib.machinery.SourceFileLoader("mn", sys.argv[3])
mn = importlib.util.module_from_spec(importlib.util.spec_from_loader("mn", loader))
loader.exec_module(mn)
runner = mn.MininetRunner.__new__(mn.MininetRunner)
runner.options = None
runner.custom("--custom", "--custom", sys.argv[1], None)
topo = mn.buildTopo(mn.TOPOS, sys.argv[2])
print(json.dumps([len(topo.hosts()), len(topo.switches()), "sdngcc.testbed" in sys.modules]))
"""


def test_each_topology_says_how_mn_runs_it():
    assert {topo.partition(",")[0] for topo in FILES.values()} == set(TOPOLOGIES)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("where", ["relative", "absolute", "folder"])
def test_debians_mn_runs_it(name, where):
    file, cwd = {"relative": (f"mininet/topologies/{name}.py", ROOT), "folder": (f"{name}.py", FOLDER),
                 "absolute": (str(FOLDER / f"{name}.py"), Path("/"))}[where]
    mn = next(path for path in (Path("/usr/bin/mn"), folder() / "usr/bin/mn") if path.exists())
    done = subprocess.run(["/usr/bin/python3", "-I", "-B", "-c", MN, file, FILES[name], str(mn), str(python_path())],
                          cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    hosts, switches, more = json.loads(done.stdout)
    assert hosts >= 5 and switches >= 3 and not more


def test_a_python_that_has_the_package_uses_it():
    code = "import runpy, sys; exec(compile(open(sys.argv[1]).read(), sys.argv[1], 'exec'), d := {}); print(d['topos'])"
    done = subprocess.run([sys.executable, "-c", code, str(FOLDER / "star.py")], capture_output=True, text=True)
    assert done.returncode == 0 and "sdngcc.topologies.fabric" not in done.stderr, done.stderr


@pytest.mark.parametrize("name,own", [
    ("dumbbell", {}), ("dumbbell", {"receivers": 300}), ("dumbbell", {"vms_per_hypervisor": 100}), ("star", {}),
    ("racks", {"racks": 4}), ("spines", {}), ("parking-lot", {"receivers": 3})])
@pytest.mark.parametrize("senders", [1, 127, 128, 129, 255, 256, 300, 5000])
def test_many_hosts_have_addresses_of_their_own(name, own, senders):
    topo = TOPOLOGIES[name](senders=senders, **own)
    assert len(topo.vms) == senders
    ips = [topo.nodeInfo(host)["ip"] for host in topo.hosts()]
    networks = {ipaddress.ip_interface(one).network for one in ips}
    assert networks == {ipaddress.ip_network("10.0.0.0/16")} and len(set(ips)) == len(ips)
    assert all(ipaddress.ip_interface(one).ip not in (network[0], network[-1]) for network in networks for one in ips)
    macs = [info[key] for _, _, info in topo.links(withInfo=True) for key in ("addr1", "addr2")]
    assert len(set(macs)) == len(macs) and all(re.fullmatch(r"0[26](:[0-9a-f]{2}){5}", one) for one in macs)
    dpids = [topo.nodeInfo(switch)["dpid"] for switch in topo.switches()]
    assert len(set(dpids)) == len(dpids) and all(re.fullmatch("[0-9a-f]{16}", one) for one in dpids)
    assert all(len(info[key]) <= 15 for _, _, info in topo.links(withInfo=True) for key in ("intfName1", "intfName2"))


def test_what_has_no_address_or_name_is_refused_by_name():
    assert vm_addresses(1, False) == ("10.0.0.1", "02:00:00:00:00:01")
    assert vm_addresses(255, True) == ("10.0.1.255", "02:00:00:00:01:ff")
    assert vm_addresses(VMS_MAX, True) == ("10.0.255.254", "02:00:00:7f:01:fe")
    every = {vm_addresses(number, receiver) for number in range(1, VMS_MAX + 1) for receiver in (False, True)}
    assert len(every) == 2 * VMS_MAX
    assert link_address(1, 2) == "06:00:00:00:01:02"
    for number in (0, VMS_MAX + 1):
        with pytest.raises(ValueError, match=f"senders={number}: .* allowed are 1 to {VMS_MAX}"):
            vm_addresses(number, False)
    with pytest.raises(ValueError, match=r"receivers=32767: their addresses are in 10\.0\.0\.0/16"):
        TOPOLOGIES["dumbbell"](senders=1, receivers=VMS_MAX + 1)
    with pytest.raises(ValueError, match="device hv1[0-9]+-vm[0-9]+: names of devices have at most 15"):
        TOPOLOGIES["racks"](senders=30000)
