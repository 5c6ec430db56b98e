# SPDX-License-Identifier: Apache-2.0
"""Three real ovsdb-servers that hold the cluster's database by Raft."""

import pathlib
import shutil
import signal
import subprocess
from typing import Optional

from sdngcc.controller.cluster.database import SCHEMA

from ..processes import PATIENCE_S, free_port, wait_for

INSTALLED = shutil.which("ovsdb-server") is not None and shutil.which("ovsdb-tool") is not None
ELECTION_MS = 200


class Raft:
    """The servers; ``remotes`` are where clients connect: by TLS with ``keys``, as real_ovs.make_pki() gives them."""

    def __init__(self, folder: pathlib.Path, keys: Optional[dict[str, pathlib.Path]] = None) -> None:
        self.folder = folder
        self._scheme = "ssl" if keys else "tcp"
        self._server_keys = self._client_keys = []
        if keys:
            # Clients have certificates of one authority, the servers among themselves of the other.
            both = folder / "authorities.pem"
            both.write_bytes(keys["controller_ca"].read_bytes() + keys["switch_ca"].read_bytes())
            self._server_keys = _options(keys["sw_key"], keys["sw_cert"], both)
            self._client_keys = _options(keys["ctl_key"], keys["ctl_cert"], keys["switch_ca"])
        self._raft = [f"{self._scheme}:127.0.0.1:{free_port()}" for _ in range(3)]
        self._ports = [free_port() for _ in range(3)]
        self.remotes = ",".join(f"{self._scheme}:127.0.0.1:{port}" for port in self._ports)
        self.servers: dict[int, subprocess.Popen] = {}
        for number, address in enumerate(self._raft):
            if number == 0:
                self._run(
                    "ovsdb-tool", f"--election-timer={ELECTION_MS}", "create-cluster", self._db(0), SCHEMA, address
                )
            else:
                self._run("ovsdb-tool", "join-cluster", self._db(number), "sdngcc", address, self._raft[0])
            self.start(number)
        for number in range(3):
            wait_for(lambda at=number: "Status: cluster member" in self.status(at), lambda at=number: self.status(at))

    def _db(self, number: int) -> pathlib.Path:
        return self.folder / f"db{number}"

    @staticmethod
    def _run(*command: object) -> str:
        words = [str(word) for word in command]
        return subprocess.run(words, check=True, capture_output=True, text=True, timeout=PATIENCE_S).stdout

    def start(self, number: int) -> None:
        self.servers[number] = subprocess.Popen(
            ["ovsdb-server", f"--remote=p{self._scheme}:{self._ports[number]}:127.0.0.1", "-vconsole:off",
             *self._server_keys, f"--unixctl={self.folder}/ctl{number}",
             f"--log-file={self.folder}/ovsdb{number}.log", self._db(number)]
        )  # fmt: skip
        wait_for(lambda: (self.folder / f"ctl{number}").exists(), lambda: f"server {number} does not start")

    def status(self, number: int) -> str:
        command = ["ovs-appctl", "-t", f"{self.folder}/ctl{number}", "cluster/status", "sdngcc"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        return done.stdout

    def leader(self) -> int:
        def found() -> list[int]:
            return [at for at, server in self.servers.items() if "Role: leader" in self.status(at)]

        return int(wait_for(found, lambda: "no leader")[0])

    def kill(self, number: int) -> None:
        server = self.servers.pop(number)
        server.send_signal(signal.SIGKILL)
        server.wait(PATIENCE_S)
        (self.folder / f"ctl{number}").unlink(missing_ok=True)

    def stop(self) -> None:
        for number in list(self.servers):
            self.kill(number)

    def dump(self, table: str) -> str:
        return self._run("ovsdb-client", *self._client_keys, "dump", self.remotes, "sdngcc", table)


def _options(key: pathlib.Path, certificate: pathlib.Path, authority: pathlib.Path) -> list[str]:
    return [f"--private-key={key}", f"--certificate={certificate}", f"--ca-cert={authority}"]
