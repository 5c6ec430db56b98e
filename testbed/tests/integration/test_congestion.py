# SPDX-License-Identifier: Apache-2.0
"""D2TCP and L2DCT in the laboratory's kernel: over a loopback that marks, windows follow the exponents of alpha."""

import json
import statistics
from typing import Any

import pytest

from sdngcc.testbed.inside import run_inside

pytestmark = pytest.mark.uml

# For each congestion control and time to the deadline (s, 0: none) sends 25 MB, which takes 0.2 s, over a loopback of
# 1 Gb/s, and prints the mean window from 20 to 80 ms, in packets. RED marks few packets, the more the longer its queue,
# so alpha is far from 1 and its powers differ. At a lower rate small queues, not windows, would bound what waits.
SCRIPT = """
import json, socket, struct, subprocess, sys, threading, time

SO_SNDBUFFORCE, SND_CWND = 32, 80

def connection(name, deadline_s=0):
    one = socket.socket()
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
    mark = round((time.clock_gettime(time.CLOCK_MONOTONIC) + deadline_s) * 1e6) % 2**32 | 1 if deadline_s else 0
    one.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, struct.pack("I", mark))
    return one

def read(listener):
    other, _ = listener.accept()
    while other.recv(1 << 20):
        pass

for words in ("qdisc replace dev lo root handle 1: htb default 1",
              "class replace dev lo parent 1: classid 1:1 htb rate 1gbit burst 3000 cburst 3000",
              "qdisc replace dev lo parent 1:1 red limit 1500000 min 3000 max 150000 avpkt 1500 burst 3 "
              "probability 1.0 ecn bandwidth 1gbit"):
    subprocess.run(["tc", *words.split()], check=True)
open("/proc/sys/net/ipv4/tcp_no_metrics_save", "w").write("1")
subprocess.run("ip link set lo up mtu 1500 gso_max_segs 1".split(), check=True)
listener = connection("dctcp")
listener.bind(("127.0.0.1", 0))
listener.listen()
windows = []
for flow in json.loads(sys.argv[1]):
    reader = threading.Thread(target=read, args=(listener,))
    reader.start()
    sender = connection(*flow)
    sender.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 1 << 26)
    sender.connect(listener.getsockname())
    sender.sendall(bytes(25_000_000))
    time.sleep(0.02)
    seen = []
    for _ in range(60):
        time.sleep(0.001)
        info = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, SND_CWND + 4)
        seen.append(struct.unpack_from("I", info, SND_CWND)[0])
    windows.append(sum(seen) / len(seen))
    sender.close()
    reader.join()
print(json.dumps(windows))
"""


def test_windows_follow_the_exponents(artifacts: Any) -> None:
    flows = [("dctcp", 0), ("d2tcp", 0), ("d2tcp", 0.1), ("d2tcp", 60), ("l2dct", 0)]
    # RED draws whom it marks, and one flow of each kind is few: once two means were 12% apart.
    ended = run_inside(["python3", "-c", SCRIPT, json.dumps(flows * 5)], [str(artifacts.congestion)])
    assert ended.status == 0, ended.output
    windows = json.loads(ended.output.splitlines()[-1])
    dctcp, none, near, far, old = (statistics.mean(windows[kind::len(flows)]) for kind in range(len(flows)))
    assert none == pytest.approx(dctcp, rel=0.1)
    # A window so small that half of alpha^d of it is less than a packet is not cut: no deadline and a near one differ
    # little here.
    assert near > 0.9 * none and old < far < 0.8 * min(none, near)
