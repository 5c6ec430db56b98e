# SPDX-License-Identifier: Apache-2.0
"""EyeQ's experiments: what is measured of calls and requests, and how it is judged."""

import copy

import pytest

from sdngcc.experiments import EXPERIMENTS
from sdngcc.experiments.eyeq.memcached import KEYS, stores

MS = 1_000_000


def rows(path, *records):
    path.write_text("due_ns size took_ns\n" + "".join(f"{due} 1 {took}\n" for due, took in records))


def test_calls_at_random_times_are_told_apart_from_those_back_to_back(tmp_path):
    """One in four is due in a burst and waits; the first 0.2 s count nowhere; who has no answer waits to the end."""
    start = 5_000 * MS
    rows(tmp_path / "requests-5001.txt", *((start + at * MS, 50_000) for at in range(0, 1000, 10)))
    timed = [(start + at * MS, 2 * MS if at % 20 < 5 else 50_000) for at in range(0, 1000, 1)]
    rows(tmp_path / "requests-5002.txt", *timed[:506], (timed[506][0], -1), *timed[507:])
    found = EXPERIMENTS["burst-latency"].measure(tmp_path, {"parameters": {"phases": [0, 1, 0]}})
    assert found["all"]["calls"] == 80 and found["all"]["p99.9_us"] == 50
    assert found["timed"]["calls"] == 800 and found["timed"]["p50_us"] == 50 and found["timed"]["p99_us"] == 2000
    assert found["in_bursts"]["calls"] == 200 and found["in_bursts"]["p50_us"] == 2000
    assert found["timed"]["quantiles_us"][-1] == (100, 494_000) and found["waited"] == pytest.approx(0.25, abs=0.002)


def calls(**timed):
    one = {"calls": 1, "p50_us": 50.0, "p99_us": 55.0, "p99.9_us": 60.0}
    return {"measured": {"all": one, "in_bursts": one, "timed": {**one, **timed}, "waited": 0.0},
            "phases": [{"name": "all", "goodput_mbps": {"vm1": 0, "vm2": 400.0, "vm3": 350.0}}]}


def test_what_waits_unprotected_and_with_the_law_is_judged_by_time():
    def failed(bare, own):
        verdicts = EXPERIMENTS["burst-latency"].judge([("idle", calls()), ("law=none", bare), ("law=eyeq", own)])
        return [one.name for one in verdicts if not one.holds]

    slow = {"p50_us": 500.0, "p99_us": 550.0, "p99.9_us": 5000.0}
    assert failed(calls(**slow), calls()) == []
    assert failed(calls(**{**slow, "p50_us": 499.0}), calls()) == ["p50, time-weighted: none / idle"]
    assert failed(calls(**{**slow, "p99_us": 549.0}), calls()) == ["p99, time-weighted: none / idle"]
    assert failed(calls(**slow), calls(**{"p99.9_us": 121.0})) == ["p99.9, time-weighted: law=eyeq / idle"]


def test_clients_of_memcached_store_under_keys_of_their_own():
    first, second = stores("vm1"), stores("vm11")
    assert len({*first, *second}) == 2 * KEYS and len({len(one) for one in (*first, *second)}) == 1
    assert first[0].startswith("set vm1-0-k") and first[0].index(" 0 0 6000\r\nv") == len("set ") + 32
    assert first[0].endswith("v\r\n") and len(first[0]) == len("set  0 0 6000\r\n\r\n") + 32 + 6000


def test_requests_without_an_answer_count_with_what_they_waited(tmp_path):
    rows(tmp_path / "stores-vm1.txt", (0, 1000 * MS), *((at * MS, 60_000) for at in range(20, 998)), (998 * MS, -1))
    found = EXPERIMENTS["memcached"].measure(tmp_path, {"parameters": {"phases": [0, 1, 0]}})
    assert found["per_s"] == 979 and found["p99_us"] == 60 and found["quantiles_us"][-1] == (100, 2000)
    # Bursts of 0.2 s each 0.4: of 1 + 180 + 200 + 198 that are due then the first and the last are not answered then.
    assert found["late"] == 0 and found["in_bursts"] == pytest.approx(1 - 2 / 579, abs=0.001)


MEMCACHED = {"per_s": 72000.0, "in_bursts": 1.0, "late": 0.0, "p50_us": 60.0, "p99_us": 80.0, "p99.9_us": 100.0}


@pytest.mark.parametrize("label, field, value, wrong", [
    ("law=none, full load", "per_s", 70000.0, "throughput, unprotected / alone"),
    ("law=none, half load", "p99_us", 79000.0, "p99, unprotected / alone"),
    ("law=none, full load", "in_bursts", 0.98, "answered while UDP sends, unprotected / alone"),
    ("law=eyeq, full load", "in_bursts", 0.98, "answered while UDP sends, law=eyeq / alone"),
    ("law=eyeq alone, full load", "in_bursts", 0.98, "answered while UDP sends, law=eyeq alone / alone"),
    ("law=eyeq, half load", "p99.9_us", 751.0, "p99.9, law=eyeq, us"),
    ("law=eyeq, half load", "p99_us", 161.0, "p99, law=eyeq / alone")])
def test_memcached_is_judged_by_the_papers_claims(label, field, value, wrong):
    found = {f"{words}, {load}": {"measured": copy.deepcopy(MEMCACHED)} for load in ("full load", "half load")
             for words in ("alone", "law=none", "law=eyeq alone", "law=eyeq")}
    found["law=none, full load"]["measured"].update(per_s=67000.0, in_bursts=0.9)
    found["law=none, half load"]["measured"]["p99_us"] = 80000.0
    judge = EXPERIMENTS["memcached"].judge
    assert [one.name for one in judge(list(found.items())) if not one.holds] == []
    found[label]["measured"][field] = value
    assert [one.name for one in judge(list(found.items())) if not one.holds] == [wrong]
    assert [case.label for case in EXPERIMENTS["memcached"].cases([])] == list(found)
    bare = [case.label for case in EXPERIMENTS["memcached"].cases(["law=none"])]
    assert bare == [label for label in found if "law=eyeq" not in label]
    assert not [one for one in judge([(label, found[label]) for label in bare]) if "eyeq" in one.name]
