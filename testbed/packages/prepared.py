# SPDX-License-Identifier: Apache-2.0
"""What setup.sh does to a machine: in a root of a release that runs systemd's tools, with each of its lists.

Nothing may be started, enabled, or added to the accounts; what is unpacked runs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple, Set, Tuple

from sdngcc.testbed.build import ROOT, cache_root
from sdngcc.testbed.packages.check import require
from sdngcc.testbed.packages.roots import Release, Root, root, trust_outside

# What README.md asks for, and an init with which packages enable their services.
_BASE = ("ca-certificates", "git", "make", "systemd-sysv")

# Programs of each list that must run when they are asked for their version, by a command of each.
PROGRAMS: Dict[str, Tuple[str, ...]] = {
    "demo": ("ip -V", "tc -V", "ethtool --version", "ps --version", "insmod --version", "mn --version", "mnexec -v",
             "/root/sdn-gcc/.venv/bin/python -c 'import ovs._json, ovs.db.idl, mininet.net'"),
    "test": ("iperf --version", "ovs-vswitchd --version", "ovsdb-server --version", "ovs-pki --version",
             "ovn-northd --version", "ovn-controller --version", "redis-server --version", "promtool --version",
             "prometheus --version", "memcached -V", "nginx -v", "tcpdump --version", "socat -V", "rsync --version",
             "chromium --version", "chromedriver --version"),
}

# What a program says that does not run.
BROKEN = ("error while loading", "cannot open shared object", "not found", "Traceback")

# Tests that run what is unpacked: Redis, Prometheus' checker, OVN, Open vSwitch with its certificates, the browser.
TESTS = ("controller/tests/sources/test_sources_sonic.py", "controller/tests/rest/test_rest_metrics.py",
         "controller/tests/databases/test_ovn.py", "controller/tests/framework/test_openvswitch.py",
         "controller/tests/databases/test_ovsdb.py", "controller/tests/rest/test_rest_page.py")

Say = Callable[[str], None]


class Cost(NamedTuple):
    """What a list costs a machine with nothing but README.md's git and make."""

    installed: int  # packages of Debian
    unpacked: int  # packages of Debian that were unpacked into the cache
    megabytes: float  # fetched for both


class State(NamedTuple):
    """What must not change."""

    enabled: Set[str]  # units, as systemctl tells them
    links: Set[str]  # of init.d's run levels
    accounts: str
    processes: Set[str]


def state(one: Root) -> State:
    """Return what of services and accounts a root has."""
    units = one.run(["systemctl", "list-unit-files", "--no-legend", "--no-pager", "--state=enabled"]).stdout
    return State({line.split()[0] for line in units.splitlines() if line.strip()},
                 {str(path.relative_to(one.folder)) for path in one.path("/etc").glob("rc*.d/S*")},
                 one.path("/etc/passwd").read_text(encoding="utf-8"), _processes(one))


def _processes(one: Root) -> Set[str]:
    """Return the names of processes whose root is this one."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "root").samefile(one.folder):
                found.add((process / "comm").read_text(encoding="ascii").strip())
        except OSError:
            continue
    return found


def prepare(one: Root, name: str) -> Cost:
    """Run setup.sh with a list in a clone inside, and return what it fetched. Raises RootError."""
    environment = {**trust_outside(one), "SDNGCC_CACHE": "/cache"}
    before = _installed(one)
    if not one.path("/root/sdn-gcc").exists():
        bundle = one.path("/tmp/project.bundle")
        subprocess.run(["git", "-C", str(ROOT), "bundle", "create", "--quiet", str(bundle), "HEAD"], check=True)
        one.run(["git", "clone", "--quiet", "/tmp/project.bundle", "/root/sdn-gcc"])
    # What is fetched is counted by what is kept.
    one.path("/etc/apt/apt.conf.d/keep").write_text("APT::Keep-Downloaded-Packages \"true\";\n", encoding="ascii")
    said = one.run(["/root/sdn-gcc/testbed/setup.sh", name], environment=environment, timeout_s=3600).stdout
    fetched = sum(float(size) * {"k": 0.001, "M": 1.0}[unit]
                  for size, unit in re.findall(r"^Need to get (?:[\d.]+ k?M?B/)?([\d.]+) ([kM])B", said, re.MULTILINE))
    unpacked = re.findall(r"^setup: unpacking (\d+) Debian packages \((\d+) MB\)", said, re.MULTILINE)
    return Cost(len(_installed(one) - before), sum(int(count) for count, _ in unpacked),
                fetched + sum(int(size) for _, size in unpacked))


def _installed(one: Root) -> Set[str]:
    return set(one.run(["dpkg-query", "-W", "-f", "${Package}\\n"]).stdout.split())


def failures(one: Root, name: str) -> List[str]:
    """Return the programs of a list that do not run, each with what it said."""
    wrong = []
    for command in PROGRAMS[name]:
        done = one.run(["sh", "-c", f'PATH="$PATH:/cache/programs/links"; exec {command}'], check=False)
        if done.returncode not in (0, 1) or any(sign in done.stdout for sign in BROKEN):
            wrong.append(f"{command}: {done.stdout[-300:]}")
    return wrong


# What the short demonstration says at its end; of seconds as these its bounds do not hold, which is another status.
_SHORT = ("testbed", "run", "share", "--set", "phases=1,1,1", "--out", "/tmp/plain")


def _lend_builds(one: Root) -> None:
    """Link the builds that this machine has into the cache of a root: they are used if compilers are the same."""
    for part in cache_root().glob("*-*"):
        target = one.path(f"/cache/{part.name}")
        if part.is_dir() and (part / ".complete").exists() and not target.exists():
            shutil.copytree(part, target, symlinks=True, copy_function=os.link)


def plain(one: Root, say: Say) -> None:
    """Run an experiment in a root that setup.sh prepared for the demo, confined as a container. Raises CheckError."""
    _lend_builds(one)
    done = one.run(["/root/sdn-gcc/.venv/bin/sdngcc", *_SHORT], check=False, contained=True,
                   environment={"SDNGCC_CACHE": "/cache"}, timeout_s=7200)
    require(done.returncode in (0, 1) and one.path("/tmp/plain/result.json").exists(),
            f"in a container's confines ended with {done.returncode}:\n{done.stdout[-4000:]}")
    full = one.run(["/root/sdn-gcc/.venv/bin/sdngcc", *_SHORT], check=False, contained=True,
                   environment={"SDNGCC_CACHE": "/dev/shm/cache"}, timeout_s=600)
    require(full.returncode == 2 and "could not be run from there" in full.stdout and "compiling" not in full.stdout,
            f"with a cache that nothing runs from it said:\n{full.stdout[-4000:]}")
    say("64 MB of /dev/shm, a container's capabilities and filter of system calls: an experiment runs")


def daemons(one: Root, say: Say) -> None:
    """Run tests against what is unpacked in a root that setup.sh prepared for tests. Raises CheckError."""
    one.path("/etc/hosts").write_text("127.0.0.1 localhost\n", encoding="ascii")  # as every machine has it
    done = one.run(["sh", "-c", f"cd /root/sdn-gcc && exec .venv/bin/python -m pytest -q -rsfE {' '.join(TESTS)}"],
                   environment={"SDNGCC_CACHE": "/cache"}, alone=True, check=False, timeout_s=3600)
    require(done.returncode == 0 and "not installed" not in done.stdout and " passed" in done.stdout,
            f"tests against unpacked daemons ended with {done.returncode}:\n{done.stdout[-4000:]}")
    say(f"tests against unpacked daemons: {done.stdout.strip().splitlines()[-1].strip('= ')}")


def check(release: Release, say: Say) -> None:
    """Prepare a root with both lists, the short one first. Raises CheckError and RootError."""
    with root(release, _BASE) as one:
        one.path("/usr/sbin/policy-rc.d").unlink()  # a machine has none
        before = state(one)
        for name in ("demo", "test"):
            cost = prepare(one, name)
            wrong = failures(one, name)
            require(not wrong, f"setup.sh {name}: of what it brought does not run:\n" + "\n".join(wrong))
            require(not one.path("/usr/sbin/policy-rc.d").exists(), f"setup.sh {name} left a policy-rc.d")
            after = state(one)
            require(after.enabled <= before.enabled, f"setup.sh {name} enabled {after.enabled - before.enabled}")
            require(after.links <= before.links, f"setup.sh {name} enabled {after.links - before.links}")
            require(after.processes <= before.processes, f"setup.sh {name} started {after.processes}")
            require(after.accounts == before.accounts, f"setup.sh {name} made accounts:\n{after.accounts}")
            say(f"setup.sh {name}: {cost.installed} packages installed, {cost.unpacked} unpacked, "
                f"{cost.megabytes:.0f} MB fetched; no service, no account")
            if name == "demo":
                plain(one, say)
        daemons(one, say)
