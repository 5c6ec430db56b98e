# SPDX-License-Identifier: Apache-2.0
"""Inside the virtual machine: runs one of the suites as its own makefile would, and leaves its logs outside."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

from sdngcc.testbed.virtual.openvswitch import VSWITCHD_UPTIME_S
from sdngcc.testbed.virtual.processes import run, sleep_until

# What ovs-vswitchd complains of once where the kernel has no nfnetlink, as the testbed's; check_logs is told to pass
# it, as it passes others.
MARK, PASSED = "\n/reset by peer/d\n", "/netlink_socket|ERR|fcntl: Protocol not supported/d\n"
# What ovs-dpctl.py gives pyroute2 for an array, which since 0.9 wants a list.
SCALAR, LIST = '"OVS_DP_ATTR_UPCALL_PID", 0]', '"OVS_DP_ATTR_UPCALL_PID", [0]]'
# Where programs are found before all others: modprobe of this folder.
STUBS = Path("/run/stubs")
WORK = Path("/run/suite")


def writable(folder: str, name: str) -> None:
    """Let a folder be written to, in memory."""
    upper, work = WORK / f"{name}-upper", WORK / f"{name}-work"
    upper.mkdir(parents=True)
    work.mkdir()
    run(["mount", "-t", "overlay", "overlay", folder, "-o", f"lowerdir={folder},upperdir={upper},workdir={work}"])


def kmod(job: Dict[str, Any], out: Path, environment: Dict[str, str]) -> int:
    """Run the tests of Open vSwitch's check-kernel that the job names; return the suite's exit status."""
    tests = Path(job["ovs_tree"]) / "tests"
    writable(str(tests), "tests")
    script = tests / "system-kmod-testsuite"
    text = script.read_text(encoding="utf-8", errors="surrogateescape")
    script.write_text(text.replace(MARK, MARK + PASSED, 1), encoding="utf-8", errors="surrogateescape")
    # ovs-vswitchd 3.1 finds no processor before.
    sleep_until(VSWITCHD_UPTIME_S)
    path = "utilities:vswitchd:ovsdb:vtep:tests:ipsec"
    with open(out / "suite.txt", "wb") as log:
        done = subprocess.run(["sh", str(script), "-C", str(tests), f"AUTOTEST_PATH={path}",
                               "-j1", *job["tests"]], stdin=subprocess.DEVNULL, stdout=log,
                              stderr=subprocess.STDOUT, cwd=job["ovs_tree"], env=environment, check=False)
    kept = tests / "system-kmod-testsuite.log"
    if kept.exists():
        shutil.copy(kept, out / "suite.log")
    return done.returncode


def selftests(job: Dict[str, Any], out: Path, environment: Dict[str, str]) -> int:
    """Run openvswitch.sh of the kernel's selftests; return its exit status."""
    folder = f"{job['kernel_source']}/tools/testing/selftests/net/openvswitch"
    writable(folder, "selftests")
    tool = Path(folder) / "ovs-dpctl.py"
    tool.write_text(tool.read_text().replace(SCALAR, LIST))
    run([str(STUBS / "modprobe"), "openvswitch"])
    with open(out / "suite.txt", "wb") as log:
        return subprocess.run(["sh", "openvswitch.sh", "-v"], stdin=subprocess.DEVNULL, stdout=log,
                              stderr=subprocess.STDOUT, cwd=folder, env=environment, check=False).returncode


def main(path: Path) -> int:
    """Run the suite that the job names; 0 when it came to its end."""
    job, out = json.loads(path.read_text()), path.parent
    STUBS.mkdir()
    shutil.copy(Path(__file__).with_name("modprobe"), STUBS / "modprobe")
    os.environ.update(job["environment"])
    os.environ["PATH"] = f"{STUBS}:{os.environ['PATH']}"
    status = {"kmod": kmod, "selftests": selftests}[job["suite"]](job, out, dict(os.environ))
    (out / "status.json").write_text(json.dumps(status))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
