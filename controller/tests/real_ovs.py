# SPDX-License-Identifier: Apache-2.0
"""A real ovs-vswitchd in user space: bridges and ports without any device, which needs no privileges."""

import pathlib
import shutil
import subprocess

from sdngcc.testbed.programs import data

from .processes import PATIENCE_S, wait_for

VSWITCHD = shutil.which("ovs-vswitchd")
SCHEMA = data("openvswitch/vswitch.ovsschema")
INSTALLED = VSWITCHD is not None and SCHEMA.exists() and shutil.which("ovs-pki") is not None
# What set-manager and set-ssl of ovs-vsctl say is obeyed.
MANAGED = ["--remote=db:Open_vSwitch,Open_vSwitch,manager_options", "--private-key=db:Open_vSwitch,SSL,private_key",
           "--certificate=db:Open_vSwitch,SSL,certificate", "--ca-cert=db:Open_vSwitch,SSL,ca_cert"]  # fmt: skip


class OpenVSwitch:
    """ovsdb-server and ovs-vswitchd with one bridge br0."""

    def __init__(self, folder: pathlib.Path, dpid: int, ports: int) -> None:
        folder.mkdir()
        self.folder = folder
        self.remote = f"unix:{folder}/db.sock"
        subprocess.run(["ovsdb-tool", "create", folder / "db", SCHEMA], check=True)
        quiet = ["-vconsole:off", "--no-chdir"]
        self._processes = [
            subprocess.Popen(
                ["ovsdb-server", f"--remote=p{self.remote}", *MANAGED, f"--unixctl={folder}/db.ctl", *quiet,
                 folder / "db"]
            )
        ]  # fmt: skip
        wait_for(lambda: (folder / "db.sock").exists(), lambda: "ovsdb-server does not start")
        self.vsctl("--no-wait", "init")
        self._processes.append(
            subprocess.Popen(
                [VSWITCHD, "--enable-dummy=system", "--disable-system", f"--unixctl={folder}/vs.ctl",
                 f"--log-file={folder}/vs.log", *quiet, self.remote],
                env={"OVS_RUNDIR": str(folder), "PATH": "/usr/bin:/bin"},
            )
        )  # fmt: skip
        self.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy", "fail_mode=secure",
                   f"other_config:datapath-id={dpid:016x}", "protocols=OpenFlow13")  # fmt: skip
        for port in range(1, ports + 1):
            self.vsctl("add-port", "br0", f"p{port}", "--", "set", "interface", f"p{port}", "type=dummy",
                       f"ofport_request={port}")  # fmt: skip

    def vsctl(self, *words: object) -> str:
        command = ["ovs-vsctl", f"--db={self.remote}", *[str(word) for word in words]]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout.strip()

    def connected(self) -> list[tuple[str, str]]:
        """Return (target, role) of every controller the bridge is connected to."""
        listed = self.vsctl("--format=csv", "--no-headings", "--columns=target,role,is_connected", "list", "controller")
        rows = [row.split(",") for row in listed.replace('"', "").splitlines() if row]
        return sorted((row[0], row[1]) for row in rows if row[2] == "true")

    def receive(self, port: int, frame: bytes) -> None:
        """Let a frame come in by a port."""
        command = ["ovs-appctl", "-t", f"{self.folder}/vs.ctl", "netdev-dummy/receive", f"p{port}", frame.hex()]
        subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)

    def flows(self) -> str:
        return self.ofctl("dump-flows", "br0")

    def ofctl(self, what: str, bridge: str, *words: str) -> str:
        command = ["ovs-ofctl", "-OOpenFlow13", what, f"unix:{self.folder}/{bridge}.mgmt", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
            process.wait(PATIENCE_S)


def make_pki(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """Make certificates as the manual of ovs-pki says; return the files of controller (ctl) and switch (sw)."""
    folder.mkdir()

    def pki(*words: str) -> None:
        command = ["ovs-pki", "-d", str(folder / "pki"), "-l", str(folder / "log"), "-u", *words]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stderr + done.stdout

    pki("init", "--force")
    pki("req+sign", "ctl", "controller")
    pki("req+sign", "sw", "switch")
    return {
        "ctl_key": folder / "ctl-privkey.pem",
        "ctl_cert": folder / "ctl-cert.pem",
        "switch_ca": folder / "pki/switchca/cacert.pem",
        "sw_key": folder / "sw-privkey.pem",
        "sw_cert": folder / "sw-cert.pem",
        "controller_ca": folder / "pki/controllerca/cacert.pem",
    }


def make_certificates(folder: pathlib.Path, *names: str) -> dict[str, pathlib.Path]:
    """Make certificates of elliptic curves, which takes no time, under one authority of their own.

    Return the files of controller (ctl) and of each name by make_pki()'s keys.
    """
    folder.mkdir()

    def sign(name: str, *words: object) -> dict[str, pathlib.Path]:
        key, certificate = folder / f"{name}-privkey.pem", folder / f"{name}-cert.pem"
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                   "-days", "30", "-subj", f"/CN={name}", "-keyout", key, "-out", certificate, *words]  # fmt: skip
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stderr
        return {f"{name}_key": key, f"{name}_cert": certificate}

    authority = sign("authority")
    signed = ["-CA", authority["authority_cert"], "-CAkey", authority["authority_key"]]
    made = {"switch_ca": authority["authority_cert"], "controller_ca": authority["authority_cert"]}
    for name in ("ctl", *names):
        made.update(sign(name, *signed, "-addext", "basicConstraints=critical,CA:FALSE"))
    return made


def make_list(folder: pathlib.Path, *revoked: pathlib.Path, expired: bool = False) -> pathlib.Path:
    """Return the list of revoked certificates by the authority of make_certificates(), which has its files there."""
    (folder / "openssl.conf").write_text(
        f"[ca]\ndefault_ca = one\n[one]\ndatabase = {folder}/index\ncrlnumber = {folder}/number\n"
        f"default_md = sha256\ndefault_crl_days = 30\n"
    )
    (folder / "index").write_text("")
    (folder / "number").write_text("01\n")
    authority = ["-config", folder / "openssl.conf", "-cert", folder / "authority-cert.pem",
                 "-keyfile", folder / "authority-privkey.pem"]  # fmt: skip

    def ca(*words: object) -> None:
        command = [str(word) for word in ("openssl", "ca", *authority, *words)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0, done.stderr

    for certificate in revoked:
        ca("-revoke", certificate)
    made = folder / "crl.pem"
    past = ["-crl_lastupdate", "20200101000000Z", "-crl_nextupdate", "20200201000000Z"] if expired else []
    ca("-gencrl", "-out", made, *past)
    return made
