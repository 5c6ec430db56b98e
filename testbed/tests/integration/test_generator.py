# SPDX-License-Identifier: Apache-2.0
"""The generator's requests, over this machine's loopback in real time, and its order of flows, in virtual time."""

import socket
import subprocess
import time

import pytest

from sdngcc.controller.tests.processes import free_port
from sdngcc.testbed.build import build
from sdngcc.testbed.inside import run_inside

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def generator():
    return str(build(only=["generator"]).generator)


def requests(generator, folder, served, *words, length_s=3.0):
    """Run server and client for length_s, long enough for a busy machine.

    Return the rows the client wrote, due times from its start.
    """
    port, start = free_port(), time.clock_gettime_ns(time.CLOCK_MONOTONIC) + 300_000_000
    stop = start + round(length_s * 1e9)
    server = subprocess.Popen([generator, "server", "--port", f"{port}:reno:{served}", "--stop",
                               str(stop + 100_000_000)])
    time.sleep(0.1)
    subprocess.run([generator, "client", "--to", "127.0.0.1", "--port", str(port), "--start", str(start), "--stop",
                    str(stop), "--out", str(folder / "rows"), *words], check=True, timeout=10)
    assert server.wait(timeout=10) == 0
    rows = [tuple(map(int, line.split())) for line in (folder / "rows").read_text().splitlines()[1:]]
    return [(due - start, size, took) for due, size, took in rows]


def test_calls_are_due_at_even_times(generator, tmp_path):
    rows = requests(generator, tmp_path, "1:1", "--interval", "10000000", "--requests", "50")
    assert [due for due, _, _ in rows] == [number * 10_000_000 for number in range(50)]
    assert all(size == 1 and took > 0 for _, size, took in rows)


def test_a_closed_loop_sends_the_next_when_the_last_has_ended(generator, tmp_path):
    words = ["--size", "3000000", "--reply", "2000000", "--requests", "5"]
    rows = requests(generator, tmp_path, "3000000:2000000", *words)
    assert len(rows) == 5 and all(took > 0 for _, _, took in rows)
    assert all(abs(due - before - took) < 5_000_000 for (before, _, took), (due, _, _) in zip(rows, rows[1:]))


def test_short_flows_repeat_under_their_seed(generator, tmp_path):
    words = ["--anew", "--count", "100", "--size", "1000", "--size-max", "2000000", "--interval", "5000000",
             "--poisson", "--requests", "50"]
    first, again, other = (sorted(requests(generator, tmp_path, "0:1", *words, "--seed", seed)) for seed in "112")
    assert len(first) == 50 and all(took > 0 for _, _, took in first)
    assert [row[:2] for row in first] == [row[:2] for row in again] != [row[:2] for row in other]
    assert len({size for _, size, _ in first}) > 40 and all(1000 <= size <= 2_000_000 for _, size, _ in first)


def test_a_schedule_says_when_and_how_much(generator, tmp_path):
    flows = [(0, 1), (5_000_000, 3_000_000), (5_000_000, 2_000), (90_000_000, 50_000)]
    (tmp_path / "schedule").write_text("".join(f"{at} {size}\n" for at, size in flows))
    rows = requests(generator, tmp_path, "0:1", "--anew", "--count", "10", "--schedule", str(tmp_path / "schedule"))
    assert sorted(row[:2] for row in rows) == sorted(flows) and all(took > 0 for _, _, took in rows)


@pytest.mark.parametrize("text, word", [
    ("", "line 1: want two numbers"), ("5 1\n4 1\n", "line 2: want a time no earlier"), ("0 0\n", "1 byte or more"),
    ("1 2\nx\n", "line 2: want two numbers")])
def test_bad_schedules_are_refused_by_line(generator, tmp_path, text, word):
    (tmp_path / "schedule").write_text(text)
    done = subprocess.run([generator, "client", "--to", "127.0.0.1", "--port", "1", "--stop", "1", "--out",
                           str(tmp_path / "rows"), "--schedule", str(tmp_path / "schedule")],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 1 and word in done.stderr


def test_contents_are_sent_in_turn_and_from_the_beginning_again(generator, tmp_path):
    (tmp_path / "contents").write_bytes(b"first second")
    rows = b""
    with socket.create_server(("127.0.0.1", 0)) as server:
        start = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        with subprocess.Popen([generator, "client", "--to", "127.0.0.1", "--port", str(server.getsockname()[1]),
                               "--start", str(start), "--stop", str(start + 5_000_000_000), "--size", "6",
                               "--requests", "3", "--contents", str(tmp_path / "contents"), "--out",
                               str(tmp_path / "rows")]) as client:
            connection, _ = server.accept()
            with connection:
                for _ in range(3):
                    rows += connection.recv(6, socket.MSG_WAITALL)
                    connection.sendall(b".")
                assert client.wait(timeout=10) == 0
    assert rows == b"first secondfirst "


@pytest.mark.parametrize("text, words", [("12345", ["--size", "2"]), ("", []), ("12", ["--size-max", "2"])])
def test_contents_of_other_sizes_are_refused(generator, tmp_path, text, words):
    (tmp_path / "contents").write_text(text)
    done = subprocess.run([generator, "client", "--to", "127.0.0.1", "--port", "1", "--stop", "1", "--out",
                           str(tmp_path / "rows"), "--contents", str(tmp_path / "contents"), *words],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "want requests of --size bytes each" in done.stderr


def test_what_is_not_over_at_stop_is_told(generator, tmp_path):
    rows = requests(generator, tmp_path, "100:1", "--size", "10", length_s=0.2)
    assert rows == [(0, 10, -1)]


def test_bad_options_are_refused_by_name(generator):
    done = subprocess.run([generator, "client", "--size", "0"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "--size: '0'" in done.stderr


# Four flows due at once over a loopback of 100 Mb/s, on which all take 0.13 s; prints them in the order of arrival.
ORDERED = """
import subprocess, sys, time

generator, order = sys.argv[1:]
for words in ("link set lo up mtu 1500", "addr add 127.0.0.1/8 dev lo"):
    subprocess.run(["ip", *words.split()])
for words in ("qdisc replace dev lo root handle 1: htb default 1",
              "class replace dev lo parent 1: classid 1:1 htb rate 100mbit burst 3000 cburst 3000"):
    subprocess.run(["tc", *words.split()], check=True)
with open("/run/flows", "w") as schedule:
    for size, deadline_ms in ((300_000, 390), (200_000, 340), (100_000, 365), (900_000, 40)):
        schedule.write(f"0 {size} {deadline_ms * 1_000_000}\\n")
start = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + 1_000_000_000
common = ["--port", "7001", "--start", str(start), "--end", str(start + 1_000_000_000), "--cc", "dctcp"]
receiver = subprocess.Popen([generator, "arrivals", *common, "--out", "/run/rows"])
subprocess.run([generator, "workload", *common, "--to", "127.0.0.1", "--schedule", "/run/flows", "--order", order],
               check=True)
receiver.wait()
rows = [tuple(map(int, line.split())) for line in open("/run/rows")]
print([number for number, _ in sorted(rows, key=lambda row: row[1])])
"""


@pytest.mark.uml
@pytest.mark.parametrize("order,wanted", [("deadline", [1, 2, 0, 3]), ("size", [2, 1, 0, 3])])
def test_flows_take_turns_in_the_order_asked_for(generator, order, wanted):
    """The last one cannot meet its deadline, which is the first."""
    ended = run_inside(["python3", "-c", ORDERED, generator, order], [])
    assert ended.status == 0, ended.output
    assert ended.output.splitlines()[-1] == str(wanted)


# A device that no checksum is left to, as that of a guest of Open vSwitch's packet sockets, for which Linux 6.1 cuts
# nothing: prints how many packets its other end gets in a second at 100 Mb/s.
UNCUT = """
import pathlib, subprocess, sys, time

for words in ("ip link add near type veth peer name far", "ethtool -K near tx off", "ip addr add 10.8.0.1/24 dev near",
              "ip link set near up", "ip link set far up",
              "ip neighbour add 10.8.0.2 lladdr 02:00:00:00:00:02 dev near nud permanent"):
    subprocess.run(words.split(), check=True)
got = pathlib.Path("/sys/class/net/far/statistics/rx_packets")
before = int(got.read_text())
start = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + 1_000_000_000
subprocess.run([sys.argv[1], "source", "--proto", "udp", "--to", "10.8.0.2", "--port", "9", "--rate", "100000000",
                "--start", str(start), "--stop", str(start + 1_000_000_000)], check=True)
print(int(got.read_text()) - before)
"""


@pytest.mark.uml
def test_datagrams_leave_one_by_one_where_the_kernel_does_not_cut(generator):
    ended = run_inside(["python3", "-c", UNCUT, generator], [])
    assert ended.status == 0, ended.output
    assert int(ended.output.splitlines()[-1]) == pytest.approx(100e6 / (8 * 1514), rel=0.01)
