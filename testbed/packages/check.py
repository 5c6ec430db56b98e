# SPDX-License-Identifier: Apache-2.0
"""Tries the packages in a root that runs: install, start, upgrade, remove, purge; what is left then is told."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Callable, Dict, Iterable, Iterator, List, Tuple

from sdngcc.node import boot
from sdngcc.node.record import FILE as NODE
from sdngcc.testbed.packages.machine import Machine, booted
from sdngcc.testbed.packages.roots import Release, Root, root

# What the root has of a real machine beside the smallest Debian.
_BASE = ("ca-certificates", "logrotate", "systemd-sysv")

SERVICES = ("sdngcc-controller", "sdngcc-tracker")
PROGRAM = "sdngcc-common"

# Packages that a controller's machine must not get.
UNWANTED = re.compile(r"apache2|build-essential|chromium|(gcc|g\+\+|cpp)(-\d+)?$|iperf|linux-source|memcached|mininet|"
                      r"nginx|openvswitch-switch|prometheus|redis")

# Python modules that the controller imports only when settings ask for it.
_MODULES = ("grpc", "opentelemetry.proto.metrics.v1.metrics_pb2", "openstack", "redis", "ovs.db.idl",
            "sdngcc.controller.otlp.revocation")

_CONFIG = "/etc/sdn-gcc/controller.yaml"
_KEY = "/etc/sdn-gcc/key"

# What packages may leave: their account, and what apt, dpkg and systemd write down.
_NOT_OURS = ("dev/", "packages/", "proc/", "run/", "sys/", "tmp/", "root/", "etc/group", "etc/gshadow", "etc/passwd",
             "etc/shadow", "etc/subgid", "etc/subuid", "etc/.pwd.lock", "etc/machine-id", "var/cache/", "var/lib/apt/",
             "var/lib/dpkg/", "var/lib/logrotate/", "var/lib/systemd/", "var/log/apt/", "var/log/dpkg.log",
             "var/log/journal", "var/log/lastlog", "var/log/wtmp", "var/log/btmp", "var/tmp/")

Say = Callable[[str], None]


class CheckError(Exception):
    """A package does not do what it should; the text says what."""


def require(holds: bool, otherwise: str) -> None:
    """Raise CheckError unless something holds."""
    if not holds:
        raise CheckError(otherwise)


def check(release: Release, packages: Iterable[Path], say: Say) -> None:
    """Try a release's packages, and say what was done. Raises CheckError and RootError."""
    ours = {path.name.split("_")[0]: path for path in packages}
    require({PROGRAM, *SERVICES} <= set(ours), f"there are no packages for {release.suite}: build them first")
    with root(release, _BASE) as one:
        names = [PROGRAM, *SERVICES]
        first = _bring(one, [ours[name] for name in names], "first")
        with tempfile.TemporaryDirectory() as folder:
            second = _bring(one, [later(ours[name], Path(folder)) for name in names], "second")
        one.apt("update")
        one.apt("install", "--no-install-recommends", "--download-only", *first)
        with booted(one) as machine:
            _Check(machine, names, first, second, say).all()


def _bring(one: Root, packages: Iterable[Path], kind: str) -> List[str]:
    """Copy packages into a root and return their paths there."""
    folder = one.path(f"/packages/{kind}")
    folder.mkdir(parents=True)
    return [f"/packages/{kind}/{Path(shutil.copy(path, folder)).name}" for path in packages]


def later(package: Path, folder: Path, more: Iterable[Tuple[Path, str]] = ()) -> Path:
    """Return the same package with a later version, also to DKMS, and with something else in its files of settings.

    more are files that it has besides, with the folders that they come into.
    """
    tree = folder / "tree"
    subprocess.run(["dpkg-deb", "--raw-extract", str(package), str(tree)], check=True)
    (tree / "DEBIAN").chmod(0o755)
    version = package.name.split("_")[1]
    texts = [tree / "DEBIAN" / "control"]
    for source in tree.glob("usr/src/*"):
        texts += [tree / "DEBIAN" / "postinst", tree / "DEBIAN" / "prerm", source / "dkms.conf"]
    for text in texts:
        text.write_text(newer(text.read_text(encoding="utf-8"), version), encoding="utf-8")
    for source in tree.glob("usr/src/*"):
        source.rename(source.parent / newer(source.name, version))
    for settings in tree.glob("etc/sdn-gcc/*.yaml"):
        settings.write_text(settings.read_text(encoding="utf-8") + "# Later.\n", encoding="utf-8")
    for path, target in more:
        (tree / target).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, tree / target)
    made = folder / newer(package.name, version)
    subprocess.run(["dpkg-deb", "--build", "-Znone", str(tree), str(made)], check=True, capture_output=True)
    shutil.rmtree(tree)
    return made


def newer(text: str, version: str) -> str:
    """Return a text with a later version, above all before it and below what a later release of Debian has, in it."""
    upstream = version.rsplit("+", 1)[0]
    return text.replace(upstream, f"{upstream}.later")


def snapshot(top: Path, beside: Tuple[str, ...] = ()) -> Dict[str, Tuple[str, str]]:
    """Return all paths below a root that a package could have made: kind, mode and owner, then content.

    beside names more that is no package's, folders with a slash at their end.
    """
    not_ours = (*_NOT_OURS, *beside)
    found = {}
    for path in sorted(top.rglob("*")):
        name = path.relative_to(top).as_posix()
        if name.startswith(not_ours) or f"{name}/" in not_ours:
            continue
        stat = path.lstat()
        content = ""
        if path.is_symlink():
            content = str(path.readlink())
        elif path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        found[name] = f"{stat.st_mode:o} {stat.st_uid}:{stat.st_gid}", content
    return found


def differences(before: Dict[str, Tuple[str, str]], after: Dict[str, Tuple[str, str]]) -> List[str]:
    """Return a line for each path that came, went or changed."""
    return [*(f"left behind: /{name}" for name in sorted(set(after) - set(before))),
            *(f"gone: /{name}" for name in sorted(set(before) - set(after))),
            *(f"changed: /{name}" for name in sorted(set(before) & set(after)) if before[name] != after[name])]


class _Check:
    """The steps, in their order; ``first`` and ``second`` are the packages' paths in the machine."""

    def __init__(self, machine: Machine, names: List[str], first: List[str], second: List[str], say: Say) -> None:
        self.machine = machine
        self.names = names
        self.first = first
        self.second = second
        self.say = say

    def all(self) -> None:
        """Run every step."""
        self.machine.apt("satisfy", "--no-install-recommends", ", ".join(self._others_packages()))
        self.machine.root.path(boot.RULES_FILE).parent.mkdir(parents=True, exist_ok=True)  # as udev brings it
        before = snapshot(self.machine.root.folder)
        self.program()
        self.install()
        self.controller()
        self.upgrade()
        self.remove()
        self.purge(before)

    def _others_packages(self) -> List[str]:
        """Return what our packages depend on that is not ours."""
        fields = [self.machine.run(["dpkg-deb", "--field", path, "Depends"]).strip() for path in self.first]
        return sorted({one for field in fields for one in field.split(", ") if one.split(" ")[0] not in self.names})

    def program(self) -> None:
        """Install the program alone: it runs, and its help, manual pages and completion name what is there."""
        self.machine.apt("install", "--no-install-recommends", self.first[0])
        text = self.machine.run(["sdngcc", "--help"])
        require("testbed" not in text and "controller" in text, f"`sdngcc --help` says\n{text}")
        for name in ("shim", "vm", "node", "tenant", "top", "tracker", "controller", "underlay"):
            self.machine.run(["sdngcc", name, "--help"])
            require(self.machine.root.path(f"/usr/share/man/man1/sdngcc-{name}.1.gz").exists(), f"no page of {name}")
        words = self.machine.run(["bash", "-c", ". /usr/share/bash-completion/completions/sdngcc; COMP_CWORD=1; "
                                  "COMP_WORDS=(sdngcc te); _sdngcc_completion sdngcc; echo ${COMPREPLY[*]}"])
        require(words.strip() == "tenant", f"`sdngcc te` is completed to {words}")
        version = self.machine.run(["sdngcc", "--version"]).strip()
        self.say(f"{self.names[0]}: {version} runs alone, with pages and completion")

    def install(self) -> None:
        """Install the services: they start, as their own user, and bring nothing that nobody asked for."""
        self.machine.apt("install", "--no-install-recommends", *self.first[1:])
        installed = self.machine.run(["dpkg-query", "-W", "-f", "${Package}\\n"]).split()
        wrong = [name for name in installed if UNWANTED.match(name)]
        require(not wrong, f"the services brought {', '.join(wrong)}")
        for service in SERVICES:
            self._active(service)
        modes = self.machine.run(["stat", "-c", "%U:%G %a", "/etc/sdn-gcc", _KEY, _CONFIG, "/var/log/sdn-gcc",
                                  "/var/lib/sdn-gcc"]).splitlines()
        require(modes == ["root:sdn-gcc 750", "root:sdn-gcc 640", "root:root 644", "sdn-gcc:sdn-gcc 750",
                          "sdn-gcc:sdn-gcc 750"], f"owners and modes are {modes}")
        self.say(f"{' and '.join(SERVICES)}: active as user sdn-gcc, the root has {len(installed)} packages")

    def controller(self) -> None:
        """Ask the controller, on each framework; let logrotate take its audit log."""
        python = "/usr/lib/sdn-gcc/bin/python3"
        self.machine.run([python, "-I", "-c", f"import {', '.join(_MODULES)}"])
        frameworks = self.machine.root.release.frameworks
        for framework in frameworks:
            with self._settings(f"framework: {framework}\n"):
                self.machine.run(["systemctl", "restart", "sdngcc-controller"])
                self._active("sdngcc-controller")
                status = json.loads(self._get("/v1/status"))
                require(isinstance(status, dict) and "mark_source" in status, f"/v1/status says {status}")
                self.machine.run(["sdngcc", "vm", "list"])
                self.machine.run(["systemctl", "reload", "sdngcc-controller"])
        self.machine.run(["runuser", "-u", "sdn-gcc", "--", "sdngcc", "controller", "--check", "--config", _CONFIG])
        self.machine.run(["systemctl", "restart", "sdngcc-controller"])
        log = "/var/log/sdn-gcc/audit.jsonl"
        self.machine.run(["runuser", "-u", "sdn-gcc", "--", "sh", "-c", f"echo '{{}}' >>{log}"])
        self.machine.run(["logrotate", "--force", "/etc/logrotate.d/sdngcc-controller"])
        require(self.machine.root.path(f"{log}.1").exists(), "logrotate did not take the audit log")
        self.say(f"sdngcc-controller: answers on {' and '.join(frameworks)}, reloads, its audit log rotates")

    def upgrade(self) -> None:
        """Install a later version: the services run it, and what the operator wrote stays."""
        changed = self._read(_CONFIG) + "lldp_period_ms: 4000\n"
        self.machine.root.path(_CONFIG).write_text(changed, encoding="utf-8")
        key = self._read(_KEY)
        pids = {service: self._pid(service) for service in SERVICES}
        self.machine.apt("install", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confdef", "-o",
                         "Dpkg::Options::=--force-confold", *self.second)
        require(self._read(_CONFIG) == changed, "the upgrade changed the settings")
        require(self._read(f"{_CONFIG}.dpkg-dist").endswith("# Later.\n"), "the new settings are not beside the old")
        require(self._read(_KEY) == key, "the upgrade changed the key")
        for service in SERVICES:
            self._active(service)
            require(self._pid(service) != pids[service], f"{service} was not restarted")
        status = json.loads(self._get("/v1/status"))
        require("mark_source" in status, f"after the upgrade /v1/status says {status}")
        self.say("upgrade: settings and key kept, the new ones beside them, services restarted and answer")

    def remove(self) -> None:
        """Remove all packages of a node that is set up: services and programs go, settings and logs stay."""
        top = self.machine.root
        for path, text in ((boot.UNIT_FILE, boot.unit_text("/usr/bin/sdngcc")), (boot.RULES_FILE, ""), (NODE, "{}")):
            top.path(path).parent.mkdir(parents=True, exist_ok=True)
            top.path(path).write_text(text, encoding="utf-8")
        self.machine.run(["systemctl", "enable", boot.UNIT])
        told = self.machine.apt("remove", *self.names)
        require("`sdngcc node setup --undo`" in told, f"of a node that is set up removing the program says\n{told}")
        self.machine.run(["systemctl", "start", boot.UNIT])
        for service in SERVICES:
            require(not self.machine.succeeds(["systemctl", "is-active", service]), f"{service} is active")
        require(not self.machine.root.path("/usr/lib/sdn-gcc").exists(), "/usr/lib/sdn-gcc is left")
        for path in (_CONFIG, _KEY, "/var/log/sdn-gcc/audit.jsonl.1"):
            require(self.machine.root.path(path).exists(), f"removing took {path}")
        self.say("remove: services and programs are gone, settings, key and logs stay")

    def purge(self, before: Dict[str, Tuple[str, str]]) -> None:
        """Purge all packages: the root is what it was."""
        self.machine.apt("purge", *self.names)
        left = differences(before, snapshot(self.machine.root.folder))
        require(not left, "purging left this:\n" + "\n".join(left[:40]))
        self.say(f"purge: nothing is left among {len(before)} files and folders but the account sdn-gcc")

    def _active(self, service: str) -> None:
        """Require that a service runs as the user that it should."""
        if not self.machine.succeeds(["systemctl", "is-active", service]):
            raise CheckError(f"{service} does not run:\n"
                             + self.machine.run(["journalctl", "--no-pager", "-n", "40", "-u", service], check=False))
        user = self.machine.run(["stat", "-c", "%U", f"/proc/{self._pid(service)}"]).strip()
        require(user == "sdn-gcc", f"{service} runs as {user}")

    def _pid(self, service: str) -> str:
        return self.machine.run(["systemctl", "show", "--value", "-p", "MainPID", service]).strip()

    def _get(self, path: str) -> str:
        """Return what the controller's REST interface answers."""
        return self.machine.run(["python3", "-c", "import sys, urllib.request as r; "
                                 f"sys.stdout.write(r.urlopen('http://127.0.0.1:8080{path}').read().decode())"])

    def _read(self, path: str) -> str:
        return self.machine.root.path(path).read_text(encoding="utf-8")

    @contextlib.contextmanager
    def _settings(self, more: str) -> Iterator[None]:
        """Let the controller's file of settings have more at its end for as long as the context lasts."""
        before = self._read(_CONFIG)
        self.machine.root.path(_CONFIG).write_text(before + more, encoding="utf-8")
        try:
            yield
        finally:
            self.machine.root.path(_CONFIG).write_text(before, encoding="utf-8")

