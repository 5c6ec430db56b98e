# SPDX-License-Identifier: Apache-2.0
"""Select groups and counters of flows and groups on a real ovs-vswitchd, without a kernel's datapath."""

import os
import shutil
import socket
import struct
import subprocess

import pytest

from sdngcc.controller.forwarding.installer import COOKIE, COOKIE_MASK, LEARNED, PAIR
from sdngcc.controller.network.counters import PairBytes, SplitBytes
from sdngcc.controller.wire import openflow

from ..databases.test_ovsdb import SCHEMA
from ..fabric import ipv4, mac
from ..processes import wait_for

pytestmark = pytest.mark.skipif(
    not (shutil.which("ovs-vswitchd") and SCHEMA.exists()), reason="Open vSwitch is not installed"
)
PLACE = (1, 1)
SPLIT, PLAIN = (mac(1), mac(2)), (mac(1), mac(3))


class Switch:
    """A bridge of dummy ports p1, p2, p3 and a connection to it."""

    def __init__(self, folder):
        self.environment = {**os.environ, **{f"OVS_{name}DIR": str(folder) for name in ("RUN", "LOG", "DB")}}
        subprocess.run(["ovsdb-tool", "create", f"{folder}/conf.db", SCHEMA], check=True)
        remote = f"unix:{folder}/db.sock"
        self.processes = [self.start("ovsdb-server", f"--remote=p{remote}", f"{folder}/conf.db")]
        wait_for((folder / "db.sock").exists, lambda: "no ovsdb-server")
        self.call("ovs-vsctl", f"--db={remote}", "--no-wait", "init")
        self.processes.append(self.start("ovs-vswitchd", "--enable-dummy=override", "--disable-system", remote))
        ports = [word for port in (1, 2, 3) for word in ("--", "add-port", "br0", f"p{port}", "--", "set", "Interface",
                 f"p{port}", "type=dummy", f"ofport_request={port}")]  # fmt: skip
        self.call("ovs-vsctl", f"--db={remote}", "add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy",
                  "fail_mode=secure", "protocols=OpenFlow13", *ports)  # fmt: skip
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(str(folder / "br0.mgmt"))
        self.send(struct.pack("!BBHI", 4, 0, 8, 1))

    def start(self, *argv):
        return subprocess.Popen(
            [*argv, "-vconsole:off", f"--unixctl={self.environment['OVS_RUNDIR']}/{argv[0]}.ctl"],
            env=self.environment,
        )

    def call(self, *argv):
        return subprocess.run(argv, env=self.environment, check=True, capture_output=True, text=True, timeout=60).stdout

    def control(self, *words):
        self.call("ovs-appctl", "-t", f"{self.environment['OVS_RUNDIR']}/ovs-vswitchd.ctl", *words)

    def send(self, data):
        self.socket.sendall(data)

    def exactly(self, count):
        data = b""
        while len(data) < count:
            data += self.socket.recv(count - len(data))
        return data

    def answer(self, kind):
        """Return the next message of a type; an error message fails the test."""
        while True:
            head = self.exactly(8)
            data = head + self.exactly(int.from_bytes(head[2:4], "big") - 8)
            assert head[1] != 1, f"OpenFlow error {data.hex()}"
            if head[1] == kind:
                return data

    def read(self, counters, xid):
        """Let counters ask and take the answer, as the engine does, once all packets are in."""
        self.control("revalidator/purge")
        counters.want(1, 0)
        counters.asked(1, xid, 0)
        self.send(counters.request(xid))
        while counters.owes(1, xid):
            counters.feed(1, self.answer(openflow.OFPT_MULTIPART_REPLY))


@pytest.fixture
def switch(tmp_path):
    found = Switch(tmp_path)
    yield found
    for process in reversed(found.processes):
        process.terminate()
        process.wait(30)


def test_a_pairs_bytes_and_their_ways_are_measured(switch):
    cookies = {1: SPLIT, 2: PLAIN}
    for group in (7, 7):  # the second takes the place of the first
        switch.send(openflow.group_select(group, [2, 3]))
    for number, pair in cookies.items():
        fields = openflow.match(in_port=1, eth_src=pair[0], eth_dst=pair[1])
        group = 7 if pair is SPLIT else None
        switch.send(
            openflow.flow_add(fields, [2], 200, COOKIE | LEARNED | PAIR | number, 60, report=True, group=group)
        )
    switch.send(openflow.flow_add(openflow.match(), [3], 1, COOKIE | LEARNED))
    switch.send(struct.pack("!BBHI", 4, 20, 8, 9))  # barrier
    switch.answer(21)
    for port in range(32):
        switch.control("netdev-dummy/receive", "p1", ipv4(1, 2, port=port).hex() + bytes(60).hex())
    for _ in range(8):
        switch.control("netdev-dummy/receive", "p1", ipv4(1, 3).hex() + bytes(60).hex())
    find = {1: (SPLIT, PLACE), 2: (PLAIN, PLACE)}
    pairs = PairBytes(10**8, COOKIE | PAIR, COOKIE_MASK | PAIR, find.get)
    switch.read(pairs, 21)
    assert pairs.proportions.of(PLACE, [SPLIT, PLAIN]) == pytest.approx({SPLIT: 0.8, PLAIN: 0.2})
    splits = SplitBytes(10**8, lambda dpid, group: (SPLIT, [2, 3]) if group == 7 else None)
    switch.read(splits, 22)
    ways = splits.proportions.of((1, SPLIT), [2, 3])
    assert sum(ways.values()) == pytest.approx(1) and all(part > 0 for part in ways.values())
    assert ways[2] * 32 == pytest.approx(round(ways[2] * 32))  # whole packets of one size
    switch.send(openflow.group_delete(7))
    switch.read(splits, 23)
    assert splits.proportions.of((1, SPLIT), [2, 3]) == {2: 0.5, 3: 0.5}
    switch.read(pairs, 24)
    assert pairs.proportions.of(PLACE, [PLAIN]) == {PLAIN: 1.0}
