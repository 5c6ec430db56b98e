# SPDX-License-Identifier: Apache-2.0
"""The database by which an experiment's controllers share the switches: three ovsdb-servers in Raft, inside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Dict

from sdngcc.testbed.virtual.processes import run

# Servers, the first one's ports for clients and for the other servers; the others' follow.
SERVERS, CLIENT_PORT, RAFT_PORT = 3, 6641, 6644
# As docs/scale-out.md has it.
ELECTION_TIMER_MS = 200
# Longest wait for the servers to have a leader, seconds.
ELECTED_S = 60
FOLDER = Path("/run/openvswitch")
REMOTES = ",".join(f"tcp:127.0.0.1:{CLIENT_PORT + number}" for number in range(SERVERS))
SELECT = ["sdngcc", {"op": "select", "table": "Controller", "where": [], "columns": ["incarnation", "sender"]},
          {"op": "select", "table": "Switch", "where": [], "columns": ["dpid", "owner"]}]


def start_database(files: Dict[str, str]) -> None:
    """Start the servers by Open vSwitch's programs; RuntimeError when one does not join the others in time."""
    from sdngcc.controller.cluster.database import SCHEMA

    for number in range(SERVERS):
        own, first = (f"tcp:127.0.0.1:{RAFT_PORT + one}" for one in (number, 0))
        database = str(FOLDER / f"cluster{number}.db")
        run([files["ovsdb-tool"], f"--election-timer={ELECTION_TIMER_MS}", "create-cluster", database, str(SCHEMA), own]
            if number == 0 else [files["ovsdb-tool"], "join-cluster", database, "sdngcc", own, first])
        run([files["ovsdb-server"], database, f"--remote=ptcp:{CLIENT_PORT + number}:127.0.0.1", "--detach",
             f"--unixctl={FOLDER}/cluster{number}.ctl", f"--pidfile={FOLDER}/cluster{number}.pid",
             f"--log-file={FOLDER}/cluster{number}.log"])
    for number in range(SERVERS):
        run([files["ovsdb-client"], f"--timeout={ELECTED_S}", "wait", f"tcp:127.0.0.1:{CLIENT_PORT + number}",
             "sdngcc", "connected"])


def owners(files: Dict[str, str]) -> Dict[str, int]:
    """Return which controller owns each switch that has an owner: sender id by datapath id, 16 hex digits.

    Raises RuntimeError when the database does not answer.
    """
    controllers, switches = (answer["rows"] for answer in json.loads(
        run([files["ovsdb-client"], f"--timeout={ELECTED_S}", "query", REMOTES, json.dumps(SELECT)])))
    senders = {row["incarnation"]: row["sender"] for row in controllers}
    return {row["dpid"]: senders[row["owner"]] for row in switches if row["owner"] in senders}
