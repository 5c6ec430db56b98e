# SPDX-License-Identifier: Apache-2.0
"""The kernel's own Open vSwitch selftests: the patched module must pass what the unpatched one passes."""

import re

import pytest

from sdngcc.testbed.inside import run_inside

# A release only: two runs of some minutes, which say again what the datapath checks say on every change.
pytestmark = [pytest.mark.uml, pytest.mark.release]

FOLDER = "tools/testing/selftests/net/openvswitch"

# ovs-dpctl.py of Linux 6.1 declares one attribute with a type that pyroute2 refuses since 0.7.3, and the test
# does not look at its exit status. The type the kernel wants is put in, and a datapath is made and seen after
# the tests, so that "OK" means that the module was really asked.
SCRIPT = """
cp -r {folder}/. .
sed -i 's/("OVS_DP_ATTR_UPCALL_PID", "array(uint32)")/("OVS_DP_ATTR_UPCALL_PID", "uint32")/' ovs-dpctl.py
bash openvswitch.sh -v
echo "STATUS: $?"
python3 ovs-dpctl.py add-dp probe
python3 ovs-dpctl.py show probe | head -n 1
python3 ovs-dpctl.py del-dp probe
ip link show probe 2>/dev/null && echo "probe is still there"
rmmod openvswitch && echo "module unloaded"
"""


def run(artifacts, modules):
    """Run the selftests with the given modules; return (what counts of the outcome, all output)."""
    script = SCRIPT.format(folder=artifacts.kernel_source / FOLDER)
    output = run_inside(["bash", "-c", script], modules).output
    counted = re.findall(r"^(?:TEST: .*\[.*\]|STATUS: .*|DP '.*' added|probe.*|module unloaded)$", output, re.MULTILINE)
    return counted, output


def test_patched_module_passes_the_kernels_selftests_as_the_unpatched_one(artifacts, stock_modules):
    stock, output = run(artifacts, stock_modules)
    assert "STATUS: 0" in stock and "DP 'probe' added" in stock and "module unloaded" in stock, output
    assert any(line.endswith("[ OK ]") for line in stock), output
    patched, output = run(artifacts, artifacts.modules)
    assert patched == stock, output
