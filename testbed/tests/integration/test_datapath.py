# SPDX-License-Identifier: Apache-2.0
"""Runs the datapath's own tests (shim/tests/datapath) inside the virtual machine, each file in a fresh one.

On the patched datapath all of them run; on sdngcc.ko beside an unmodified one those that lean on its hooks most, or all
with ``SDNGCC_RELEASE=1``; on ovs-vswitchd's own datapath those that need nothing of the kernel's.
"""

import os

import pytest

from sdngcc.testbed.inside import run_inside
from sdngcc.testbed.sanitizers import BESIDE_ONLY, FOLDER, arguments_of

pytestmark = pytest.mark.uml


# What runs on the module of its own each time.
BESIDE = ("check_attack_addresses.py", "check_attack_announcements.py", "check_attack_ecn.py", "check_attack_grants.py",
          "check_attack_peers.py", "check_attack_reports.py", "check_attack_sizes.py", "check_attack_sources.py",
          "check_ecn.py", "check_lifetime.py", "check_messages.py", "check_tunnels.py")


# What needs neither netlink nor anything else of a kernel's shim.
USERSPACE = ("check_attack_announcements.py", "check_attack_grants.py", "check_attack_reports.py", "check_ecn.py",
             "check_messages.py", "check_tcp.py")


# What needs a newer kernel than the testbed's for most of it: make check-kernels runs it there, releases here.
NEWER = ("check_l4s.py",)


# What runs on the build that is packaged, too: what that refuses, and, of releases, what both are to do alike.
PRODUCT = ("check_product.py",)
PRODUCT_ALIKE = ("check_limits.py", "check_ecn.py", "check_peers.py", "check_netlink.py")


def run(artifacts, script, modules):
    arguments = arguments_of(artifacts, modules) if modules else [str(artifacts.generator), "netdev"]
    ended = run_inside(["python3", str(script), *arguments], modules, artifacts.ovs)
    print(ended.output)
    assert ended.status == 0, ended.output
    assert "not ok" not in ended.output and "\nok " in ended.output, ended.output


def scripts(wanted):
    return pytest.mark.parametrize("script", [path for path in sorted(FOLDER.glob("check_*.py")) if wanted(path.name)],
                                   ids=lambda path: path.stem)


@scripts(lambda name: name not in BESIDE_ONLY + PRODUCT and (name not in NEWER or "SDNGCC_RELEASE" in os.environ))
def test_datapath(artifacts, script):
    run(artifacts, script, artifacts.modules)


@scripts(lambda name: name in PRODUCT or (name in PRODUCT_ALIKE and "SDNGCC_RELEASE" in os.environ))
def test_product(artifacts, script):
    run(artifacts, script, artifacts.product)


@scripts(lambda name: name in BESIDE + BESIDE_ONLY or ("SDNGCC_RELEASE" in os.environ and name not in PRODUCT))
def test_beside(artifacts, script):
    run(artifacts, script, artifacts.beside)


@scripts(lambda name: name in USERSPACE)
def test_userspace(artifacts, script):
    run(artifacts, script, [])
