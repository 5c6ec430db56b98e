# SPDX-License-Identifier: Apache-2.0
"""What polls, packet-ins and messages cost the controller, beside Ryu's own simple_monitor_13, in the same run.

Cost is CPU time of the controller's process over what it did, so that other work on the machine distorts it little;
its inverse is what one core can do. The two controllers take turns, round by round. simple_monitor_13 asks for flows
and all port counters every 10 s; here it is made to ask every 50 ms, which changes how often it works, not how.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List, Optional

STUB = "sdngcc.testbed.bench.stub"
PERIOD_US = 5000
MONITOR_PERIOD_S = 0.05
_END_S = 60
_SIMPLE = """
from sdngcc.controller.framework import launcher
launcher.prepare()
import sys
from ryu.app import simple_monitor_13
from ryu.lib import hub
class Often:
    def __getattr__(self, name): return getattr(hub, name)
    @staticmethod
    def sleep(seconds): hub.sleep(float(sys.argv[2]))
simple_monitor_13.hub = Often()
from ryu.cmd import manager
manager.main(args=["--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", sys.argv[1], "--default-log-level", "40",
                   "ryu.app.simple_monitor_13"], prog="ryu-manager")
"""


def _free_port() -> int:
    import socket

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _cpu_s(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(
    kind: str, switches: int, ports: int, packet_ins: float, marks_every_s: float, seconds: float, folder: pathlib.Path
) -> Dict[str, Any]:
    """Run one controller ("ours" or "simple") under load; return what the stub counted and the controller's cpu_s."""
    port = _free_port()
    key, trace = folder / "key", folder / "trace"
    key.touch(0o600)
    key.write_text("00" * 16)
    trace.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "SDNGCC_CONTROLLER_KEY_FILE": str(key),
        "SDNGCC_CONTROLLER_OPENFLOW": f"127.0.0.1:{port}",
        "SDNGCC_CONTROLLER_REST": "",
        "SDNGCC_CONTROLLER_PERIOD_US": str(PERIOD_US),
        "SDNGCC_CONTROLLER_POLL_HYPERVISORS": "true",
        "SDNGCC_CONTROLLER_PACKET_INS_A_SECOND": "1000000",
        "SDNGCC_CONTROLLER_SWITCH_PACKET_INS_A_SECOND": "1000000",
        "SDNGCC_CONTROLLER_TRACE_FILE": str(trace),
    }
    ours = [sys.executable, "-m", "sdngcc.main", "controller"]
    simple = [sys.executable, "-c", _SIMPLE, str(port), str(MONITOR_PERIOD_S)]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(ours if kind == "ours" else simple, env=environment, stdout=log, stderr=log)
        try:
            _await_port(port, process, folder / "log")
            words = [str(word) for word in ("127.0.0.1", port, switches, ports, packet_ins, marks_every_s, seconds)]
            stub = subprocess.Popen([sys.executable, "-m", STUB, *words], stdout=subprocess.PIPE, text=True)
            assert stub.stdout is not None
            stub.stdout.readline()
            before = _cpu_s(process.pid)
            line = stub.stdout.readline()
            spent = _cpu_s(process.pid) - before
            stub.wait()
            if not line:
                raise RuntimeError(f"the load ended early:\n{(folder / 'log').read_text()}")
        finally:
            _end(process)
    return {**json.loads(line), "cpu_s": spent, "late": _polls_of(trace)}


def _await_port(port: int, process: "subprocess.Popen[bytes]", log: pathlib.Path) -> None:
    import socket

    while True:
        if process.poll() is not None:
            raise RuntimeError(f"the controller ended:\n{log.read_text()}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a controller as an operator would; raises RuntimeError, and kills it, when it does not obey."""
    process.terminate()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise RuntimeError(f"the controller did not end within {_END_S} s of SIGTERM") from None


def _polls_of(trace: pathlib.Path) -> Optional[Dict[str, Any]]:
    """Return the last counts of polls in a controller's trace."""
    lines = trace.read_text().splitlines() if trace.exists() else []
    return next((one for one in map(json.loads, reversed(lines)) if one["event"] == "polls"), None)


def _percentile(values: List[float], part: float) -> float:
    return values[min(len(values) - 1, int(part * len(values)))] if values else float("nan")


def main() -> None:
    """Measure, print a table, write results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--switches", type=int, nargs="+", default=[10, 100, 300, 1000])
    parser.add_argument("--ports", type=int, default=48)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    found: Dict[str, List[Dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        def run(label: str, kind: str, switches: int, packet_ins: float = 0, marks_every_s: float = 0) -> None:
            print(f"{label} ...", file=sys.stderr, flush=True)
            result = measure(kind, switches, chosen.ports, packet_ins, marks_every_s, chosen.seconds, folder)
            found.setdefault(label, []).append(result)

        for _ in range(chosen.rounds):
            run("simple_monitor_13, 10 switches", "simple", 10)
            for switches in chosen.switches:
                run(f"sdn-gcc, {switches} switches", "ours", switches)
            run("simple_monitor_13, packet-ins", "simple", 1, packet_ins=2000)
            run("sdn-gcc, packet-ins", "ours", 1, packet_ins=2000)
            run("sdn-gcc, messages", "ours", 10, marks_every_s=0.02)
    (chosen.out / "results.json").write_text(json.dumps(found, indent=1))
    report(found, chosen.ports)


def report(found: Dict[str, List[Dict[str, Any]]], ports: int) -> None:
    """Print medians over the rounds."""
    print(f"{'':36} {'polls/s':>9} {'CPU':>6} {'polls/CPU s':>12} {'ports/CPU s':>12}")
    for label, rounds in found.items():
        polls = statistics.median((one["polls"] or one["port_stats"]) / one["seconds"] for one in rounds)
        cpu = statistics.median(one["cpu_s"] / one["seconds"] for one in rounds)
        note = ""
        if "packet-ins" in label:
            rate = statistics.median(one["packet_ins"] / one["seconds"] for one in rounds)
            note = f"  {rate / cpu:9.0f} packet-ins/CPU s (polls included)"
        if "messages" in label:
            times = sorted(us for one in rounds for us in one["latency_us"])
            note = (
                f"  {len(times)} messages, p50 {_percentile(times, 0.5):.0f} us, p99 {_percentile(times, 0.99):.0f} us"
            )
        print(f"{label:36} {polls:9.0f} {cpu:6.2f} {polls / cpu:12.0f} {polls * ports / cpu:12.0f}{note}")


if __name__ == "__main__":
    main()
