# SPDX-License-Identifier: Apache-2.0
"""``make check-openstack``: the extensions in Debian's own Neutron, with that release's own OVN and Open vSwitch.

Each release is a root whose services run: RabbitMQ, MariaDB, Neutron's server and agents, OVN, and Open vSwitch with a
datapath that needs no kernel module. The tests of openstack/tests/live run inside. The last release has another root,
where the same services run the Neutron of PyPI that openstack/constraints.txt names.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Callable, Iterable

from sdngcc.testbed.build import ROOT
from sdngcc.testbed.packages.build import build
from sdngcc.testbed.packages.check import require
from sdngcc.testbed.packages.machine import booted
from sdngcc.testbed.packages.roots import Release, Root, root, trust_outside
from sdngcc.testbed.packages.version import tree_version

TESTS = ROOT / "openstack" / "tests" / "live"
PACKAGE = "python3-sdn-gcc-neutron"

_BASE = ("ca-certificates", "iproute2", "mariadb-server", "neutron-api", "neutron-openvswitch-agent",
         "neutron-rpc-server", "openvswitch-switch", "ovn-central", "ovn-host", "procps", "python3-pymysql",
         "python3-pytest", "rabbitmq-server", "sudo", "systemd-sysv")

# What later releases have beside: by release.
_MORE = {"trixie": ("neutron-ovn-agent", "neutron-ovn-maintenance-worker", "neutron-periodic-workers")}

_SERVICES = ("neutron-api", "neutron-rpc-server", "neutron-openvswitch-agent", "neutron-ovn-agent",
             "neutron-ovn-maintenance-worker", "neutron-periodic-workers")

_NAME = "compute-1"

NEWEST_ON = "trixie"
"""The release whose services run PyPI's Neutron, too."""

_VENV = "/opt/neutron"

# Makes a virtual environment of Neutron and our extensions as docs/openstack.md has it, and Debian's services run it.
_INSTALL = f"""set -eu
python3 -m venv {_VENV}
pip="{_VENV}/bin/pip install --quiet --constraint /tmp/openstack/constraints.txt"
$pip neutron PyMySQL
$pip /tmp/openstack
ln -sf {_VENV}/bin/neutron-* {_VENV}/bin/privsep-helper /usr/bin/
cp -r {_VENV}/etc/neutron/api-paste.ini {_VENV}/etc/neutron/rootwrap.d /etc/neutron/
echo 'from neutron.wsgi.api import application' > /usr/bin/neutron-api
echo 'virtualenv = {_VENV}' >> /etc/neutron/neutron-api-uwsgi.ini
{_VENV}/bin/pip freeze
"""

# Neutron's services may take a minute to end by themselves.
_QUICK = "[Service]\nTimeoutStopSec=5\n"

_DUMMY_DATAPATH = """[Service]
ExecStart=
ExecStart=/usr/sbin/ovs-vswitchd unix:/run/openvswitch/db.sock --enable-dummy=override --disable-system --pidfile \\
	--detach --no-chdir --log-file=/var/log/openvswitch/ovs-vswitchd.log
ExecStop=
ExecReload=
"""

_TESTS_S = 3 * 3600

Say = Callable[[str], None]


def check(release: Release, out: Path, say: Say) -> None:
    """Run the tests in roots of a release. Raises CheckError, RootError and VersionError.

    out: folder for the packages.
    """
    packages = build(release, tree_version(ROOT), out)
    _check(release, "/usr/bin/python3", lambda one: _install_package(one, packages, say), say)
    if release.suite == NEWEST_ON:
        _check(release, f"{_VENV}/bin/python3", lambda one: _install_newest(one, say), say)


def _check(release: Release, python: str, install: Callable[[Root], None], say: Say) -> None:
    """Run the tests in a root, where Neutron runs with an interpreter once it is installed with our extensions."""
    with root(release, (*_BASE, *_MORE.get(release.suite, ()))) as one:
        _configure(one)
        one.apt("update")
        install(one)
        shutil.copytree(TESTS, one.path("/opt/tests/live"))
        one.path("/opt/tests/__init__.py").touch()
        _say_versions(one, say, "ovn-common", "openvswitch-common")
        with booted(one) as machine:
            began = time.monotonic()
            said = machine.run(["sh", "-c", f"cd /opt && SDNGCC_LIVE={python} python3 -m pytest -v --tb=short "
                                "-p no:cacheprovider tests/live; echo exit $?"], timeout_s=_TESTS_S)
            print(said, flush=True)
            require(said.endswith("exit 0\n"), f"{release.suite}: tests have failed")
            say(f"the tests passed with {python} in {time.monotonic() - began:.0f} s")


def _install_package(one: Root, packages: Iterable[Path], say: Say) -> None:
    (package,) = [path for path in packages if path.name.startswith(f"{PACKAGE}_")]
    shutil.copy(package, one.path("/tmp"))
    one.apt("install", "--no-install-recommends", f"/tmp/{package.name}")
    _say_versions(one, say, "neutron-api", PACKAGE)


def _say_versions(one: Root, say: Say, *packages: str) -> None:
    for line in one.run(["dpkg-query", "--show", *packages]).stdout.splitlines():
        say(line.replace("\t", " "))


def _install_newest(one: Root, say: Say) -> None:
    one.apt("install", "--no-install-recommends", "python3-venv")
    shutil.copytree(ROOT / "openstack", one.path("/tmp/openstack"),
                    ignore=shutil.ignore_patterns("tests", "build", "*.egg-info", "__pycache__"))
    installed = one.run(["sh", "-c", _INSTALL], environment=trust_outside(one)).stdout
    say(", ".join(line for line in installed.splitlines() if line.startswith(("neutron==", "ovsdbapp==", "sdn-gcc"))))


def _configure(one: Root) -> None:
    """Give a root a name, Open vSwitch's datapath without a kernel module, and services that start when asked."""
    one.path("/etc/hostname").write_text(f"{_NAME}\n", encoding="ascii")
    one.path("/etc/hosts").write_text(f"127.0.0.1 localhost {_NAME}\n", encoding="ascii")
    one.path("/etc/rabbitmq/rabbitmq-env.conf").write_text("NODENAME=rabbit@localhost\n", encoding="ascii")
    _drop_in(one, "ovs-vswitchd", "dummy", _DUMMY_DATAPATH)
    for name in (*_SERVICES, "ovn-central", "ovn-host"):
        if one.path(f"/lib/systemd/system/{name}.service").exists():
            one.run(["systemctl", "disable", "--quiet", name])
            _drop_in(one, name, "quick", _QUICK)


def _drop_in(one: Root, service: str, name: str, text: str) -> None:
    folder = one.path(f"/etc/systemd/system/{service}.service.d")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.conf").write_text(text, encoding="utf-8")
