# SPDX-License-Identifier: Apache-2.0
"""Experiments on RED, ACKs, windows, lost echoes and AC/DC make the runs they say; verdicts fail when numbers do."""

import random
import socket
import struct
import time

import pytest

from sdngcc.experiments import EXPERIMENTS
from sdngcc.experiments.others import acdc
from sdngcc.experiments.vcc import ack_gaps, ecn_red, send_window
from sdngcc.testbed.parameters import ParameterError
from sdngcc.testbed.virtual import watch_tcp


def failing(name, runs):
    """Return the names of an experiment's verdicts that do not hold."""
    return [verdict.name for verdict in EXPERIMENTS[name].judge(runs) if not verdict.holds]


def mixed(label, ratios):
    """Return a run of ecn-red whose ratios by mix are given."""
    case = next(case for case in EXPERIMENTS["ecn-red"].cases([]) if case.label == label)
    return label, {"parameters": case.parameters.model_dump(mode="json"),
                   "measured": {"mixes": {str(mix): {"ratio": ratio} for mix, ratio in zip(ecn_red.MIXES, ratios)}}}


FALLING = [0.7, 0.65, 0.6, 0.5, 0.5, 0.5, 0.4, 0.4, 0.3]


def test_ecn_red_has_each_mix_under_each_queue():
    cases = EXPERIMENTS["ecn-red"].cases([])
    assert [case.label for case in cases] == ["RED1", "RED2", "RED3", "min 20000", "min 50000", "min 100000",
                                              "RED1, virtual ECN", "RED2, virtual ECN", "RED3, virtual ECN"]
    assert cases[1].parameters.red == (400_000, 30_000, 90_000, 55, 0.02) and cases[4].parameters.red[2] == 50_001
    assert [case.parameters.law for case in cases] == ["none"] * 6 + ["vcc"] * 3
    for number, mix in enumerate(range(1, 10)):
        own = [flow for flow in cases[0].workload.flows if flow["start_s"] == 11 * number]
        assert len(own) == 10 and sum(flow["ecn"] for flow in own) == mix
        assert {flow["stop_s"] for flow in own} == {11 * number + 10}
        # One VM of each host, and none both with ECN and without.
        assert {(int(flow["vm"][2:]) - 1) // 2 for flow in own} == set(range(10))
        assert all((int(flow["vm"][2:]) % 2 == 0) == flow["ecn"] for flow in own)
    assert [case.label for case in EXPERIMENTS["ecn-red"].cases(["red=400000,30000,90000,55,0.5"])] == [""]
    with pytest.raises(ParameterError, match="senders and phases"):
        EXPERIMENTS["ecn-red"].cases(["senders=10"])


def test_ecn_red_measures_means_of_each_mix(tmp_path):
    series = {f"vm{number}": [0.0] * 990 for number in range(1, 21)}
    for number in range(3, 21, 2):  # the first mix: nine without ECN
        series[f"vm{number}"][0:100] = [0.5] * 100
    series["vm2"][0:100] = [2.0] * 100
    found = ecn_red.measure(tmp_path, {"series": {"goodput_mbps": series}})
    assert found["mixes"]["1"] == {"without_mbps": 0.5, "ecn_mbps": 2.0, "ratio": 0.25}
    assert found["mixes"]["2"]["ratio"] == 0.0


def test_ecn_red_verdicts():
    assert failing("ecn-red", [mixed("RED1", FALLING), mixed("RED1, virtual ECN", [1.02] * 9)]) == []
    assert failing("ecn-red", [mixed("RED2", [*FALLING[:-1], 0.46])]) == ["one flow without ECN / nine with it, RED2"]
    assert failing("ecn-red", [mixed("RED2", [0.9, 0.8, 0.8, *FALLING[3:]])]) == [
        "flows without ECN / 1 to 3 with it, RED2"]
    assert failing("ecn-red", [mixed("RED3", [0.3] * 6 + [0.31] * 3)]) == [
        "unfairness grows with ECN flows: ratio with 7 to 9 / with 1 to 3, RED3"]
    assert failing("ecn-red", [mixed("RED1, virtual ECN", [0.89] * 9)]) != []
    shifts = {"min 20000": 0.1, "min 50000": 0.2, "min 100000": 0.3}
    least = [mixed(label, [one + shift for one in FALLING]) for label, shift in shifts.items()]
    assert failing("ecn-red", least) == []
    shifts["min 50000"] = 0.31
    least = [mixed(label, [one + shift for one in FALLING]) for label, shift in shifts.items()]
    assert len(failing("ecn-red", least)) == 1 and "REDmin" in failing("ecn-red", least)[0]


def test_ack_gaps_are_told_by_flow(tmp_path):
    ms = 10**6
    times = {5001: [0, 1, 211, 840, 3900], 5002: [5, 6, 7]}
    rows = sorted((at * ms, port) for port, those in times.items() for at in those)
    (tmp_path / "acks.txt").write_text("".join(f"{at} {port}\n" for at, port in rows))
    gaps = ack_gaps.measure(tmp_path, {})["gaps"]
    assert [(place, count) for place, count in enumerate(gaps["without ECN"]) if count] == [
        (0, 1), (2, 1), (6, 1), (19, 1)]
    assert sum(gaps["with ECN"]) == gaps["with ECN"][0] == 2


def test_ack_gaps_verdicts():
    cases = EXPERIMENTS["ack-gaps"].cases([])
    assert [case.label for case in cases] == ["without the law", "with vcc"]

    def runs(without, ecn, virtual):
        gaps = [{"without ECN": without, "with ECN": ecn}, {"without ECN": virtual, "with ECN": ecn}]
        return [(case.label, {"parameters": case.parameters.model_dump(mode="json"), "measured": {"gaps": one}})
                for case, one in zip(cases, gaps)]

    timeouts, even = [9, 0, 5, 0, 0, 0, 2, *[0] * 13], [9, *[0] * 19]
    assert failing("ack-gaps", runs(timeouts, even, even)) == []
    assert [name[:11] for name in failing("ack-gaps", runs(even, timeouts, timeouts))] == [
        "gaps of 200", "gaps of 600", "gaps of 100", "gaps of 100"]


def test_teeth_are_whole():
    tooth = [*range(20, 60), *range(60, 20, -4)]
    assert send_window.teeth([*tooth, *tooth, *tooth]) == [(60, 20), (60, 20)]
    assert send_window.teeth([50, 49, 50, 51] * 9) == []


def test_send_window_reads_the_lesser_window_after_it_has_settled(tmp_path):
    rows = [f"{number * 10**7} 5001 1000 {60 if number < 1000 else 30} 40000" for number in range(1701)]
    (tmp_path / "windows.txt").write_text("\n".join([*rows, f"{17 * 10**9} 80 1 1 1"]))
    found = send_window.measure(tmp_path, {})
    assert len(found["window_kb"]) == 1201 and found["window_kb"][0] == 40.0 and found["window_kb"][-1] == 30.0
    assert found["held"] == round(500 / 1201, 4)


def test_send_window_verdicts():
    virtual, native = EXPERIMENTS["send-window"].cases([])
    assert (virtual.parameters.uplink_mbps, virtual.parameters.link_mbps, native.parameters.law) == (12, 10, "none")

    def runs(**own):
        same = {"held": 1.0, "teeth": 5, "top_kb": 88.0, "foot_kb": 21.0}
        phases = [{"name": "all", "start_s": 0, "settled_start_s": 2,
                   "settled_goodput_mbps": {"vm1": own.pop("mbps", 9.5)}}]
        return [(virtual.label, {"measured": {**same, **own}, "phases": phases}),
                (native.label, {"measured": same, "phases": [{**phases[0], "settled_goodput_mbps": {"vm1": 9.5}}]})]

    assert failing("send-window", runs()) == []
    for name, wrong in (("held", 0.99), ("teeth", 7), ("top_kb", 70.0), ("foot_kb", 44.0), ("mbps", 9.0)):
        assert len(failing("send-window", runs(**{name: wrong}))) == 1, name


def lossy(worse=0.0, less=0.0, marks=1.0):
    """Return runs of lost-echoes; virtual ECN's worst share is worse, and all of its shares are less, by so much."""
    dice, runs = random.Random(1), []
    native = {}
    for case in EXPERIMENTS["lost-echoes"].cases([]):
        number, own = case.replica, case.label.startswith("virtual")
        if case.label.endswith("marks alone"):
            parts = [marks, 1, 1, 1]
        else:
            error = native.setdefault(number, dice.uniform(0.3, 0.6))
            parts = [1 - error - (worse if own else 0), *[1.0 - (less if own else 0)] * 3]
        series = {f"vm{vm + 1}": [part * 1000 * 1448 / 1538 / 4] * 160 for vm, part in enumerate(parts)}
        runs.append((case.label, {"parameters": case.parameters.model_dump(mode="json"),
                                  "series": {"goodput_mbps": series}}))
    return runs


def test_lost_echoes_come_in_pairs_of_one_seed():
    cases = EXPERIMENTS["lost-echoes"].cases([])
    assert len(cases) == 42 and len({case.label for case in cases}) == 42
    seeds = [case.seed_of(7) for case in cases]
    assert seeds[::2] == seeds[1::2] and len(set(seeds)) == 20 and seeds[0] == 7
    assert [case.parameters.guest_ecn for case in cases] == [False, True] * 21
    assert [case.parameters.loss_of for case in cases] == ["feedback"] * 40 + ["marks"] * 2
    assert {case.parameters.law for case in cases} == {"vcc"}
    with pytest.raises(ParameterError, match="law=eyeq"):
        EXPERIMENTS["lost-echoes"].cases(["law=eyeq"])


def test_lost_echoes_verdicts():
    assert failing("lost-echoes", lossy()) == []
    assert failing("lost-echoes", lossy(worse=0.09)) == []
    assert len(failing("lost-echoes", lossy(worse=0.11))) == 2
    assert all("used" in name for name in failing("lost-echoes", lossy(less=0.08)))
    assert len(failing("lost-echoes", lossy(less=0.08))) == 2
    assert len(failing("lost-echoes", lossy(marks=0.94))) == 4


def test_acdc_measures_queue_and_newcomers(tmp_path):
    case = EXPERIMENTS["acdc"].cases([])[0]
    rates = {}
    for number, vm in enumerate(case.parameters.vm_names):
        # Each newcomer has its share after 0.5 s.
        rates[vm] = [0.0 if at < 20 * number else
                     1000 / min(at // 20 + 1, 5) if at % 20 >= 5 or at >= 100 or number < at // 20 else 0.0
                     for at in range(120)]
    lines = ["t_ns bytes backlog", *(f"{5 * 10**9 + at * 10**8} 0 {3000 if at < 90 else 9000}" for at in range(120))]
    (tmp_path / "queue.txt").write_text("\n".join(lines))
    found = acdc.measure(tmp_path, {"parameters": case.parameters.model_dump(mode="json"),
                                    "series": {"goodput_mbps": rates}})
    assert found["queue_kb"] == found["queue_p99_kb"] == 9.0 and found["jain"] == 1.0 and found["sum_mbps"] == 1000
    assert all(0.4 <= wait <= 0.6 for wait in found["wait_s"])
    assert acdc.until_fair_s([[9.0] * 30, [1.0] * 30]) is None


def test_acdc_verdicts():
    labels = [case.label for case in EXPERIMENTS["acdc"].cases([])]
    assert [case.label for case in EXPERIMENTS["acdc"].cases(["law=seawall"])] == [""]

    def runs(**own):
        same = {"wait_s": [0.1, 0.2], "vm_mbps": [190.0] * 5, "sum_mbps": 950.0, "jain": 0.99, "queue_kb": 20.0,
                "queue_p99_kb": 30.0}
        return [(label, {"measured": {**same, **({"jain": 0.5} if label == acdc.BARE else
                                                 own if label == labels[-1] else {})}}) for label in labels]

    assert failing("acdc", runs()) == []
    for name, wrong in (("sum_mbps", 900.0), ("jain", 0.96), ("queue_kb", 26.0), ("queue_p99_kb", 40.0),
                        ("wait_s", [0.1, None])):
        assert len(failing("acdc", runs(**{name: wrong}))) == 1, name


def keeps(ports, pkttype, frame):
    """Run the filter of watch_tcp on a frame."""
    program, at, value = watch_tcp.filter_of(ports), 0, 0
    while True:
        code, yes, no, k = program[at]
        if code == 0x06:
            return bool(k)
        if code == 0x20:
            assert k == 2**32 - 4096 + 4
            value = pkttype
        elif code in (0x28, 0x30):
            value = int.from_bytes(frame[k:k + (2 if code == 0x28 else 1)], "big")
        else:
            at += yes if value == k else no
        at += 1


def test_acks_that_leave_are_watched_by_port():
    def segment(port, protocol=6, ethertype=0x0800):
        ip = struct.pack("!BBHHHBBH8x", 0x45, 0, 40, 0, 0, 64, protocol, 0)
        return bytes(12) + struct.pack("!H", ethertype) + ip + struct.pack("!HH", port, 40000) + bytes(16)

    assert [keeps([5001, 5002], 4, segment(port)) for port in (5001, 5002, 5003)] == [True, True, False]
    assert not keeps([5001], 0, segment(5001)) and not keeps([5001], 4, segment(5001, 17))
    assert not keeps([5001], 4, segment(5001, ethertype=0x86DD))


def test_windows_of_a_connection_are_read():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client, server.accept()[0]:
            client.sendall(b"x")
            now = time.monotonic_ns()
            rows = [tuple(map(int, line.split())) for line in watch_tcp.watch_windows(now, now + 2 * 10**7, 10**7)]
    own = [row for row in rows if row[1] == port]
    assert [at_ns for at_ns, *_ in own] == [now, now + 10**7]
    assert all(mss > 500 and 2 <= cwnd < 1000 and window > 10_000 for _, _, mss, cwnd, window in own)
