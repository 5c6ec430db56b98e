# SPDX-License-Identifier: Apache-2.0
"""Runs of the experiments, whole loop and all, judged by the experiments' own expectations.

Runs are machines of their own, so as many go at a time as there are processors.
"""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Tuple

import pytest

from sdngcc.experiments import EXPERIMENTS
from sdngcc.testbed.runner import run_case

pytestmark = pytest.mark.uml


class Short(NamedTuple):
    """A run: a name for the test, the experiment, its settings, the seed."""

    name: str
    experiment: str
    settings: Tuple[str, ...]
    seed: int = 1


SHORT = (
    Short("share-static", "share", ("law=static", "phases=1,4,2", "competitor=udp")),
    # In their whole length: four TCPs without a shim are fair over tens of seconds only.
    Short("unfair", "unfair", ()),
    # The same: the queue's 99th percentile must not be that of the start alone.
    Short("share-tcp", "share", ("competitor=tcp",)),
    Short("share-udp", "share", ("competitor=udp",)),
    Short("share-dctcp", "share", ("competitor=dctcp",)),
    Short("weights-mixed", "share", ("phases=10,20,0", "weights=1,2,4", "senders=3", "competitor=udp,tcp")),
    Short("hygenicc", "share", ("law=hygenicc", "phases=2,6,2", "competitor=tcp,dctcp,udp")),
    Short("reports-lost", "failsafe", ("law=hygenicc",)),
    Short("notices-lost", "failsafe", ("law=sdngcc",)),
    Short("mixed", "mixed", ()),
    Short("two-racks", "share", ("phases=10,10,10", "topology=racks", "competitor=udp")),
    Short("controller-killed", "share",
          ("phases=2,10,0", "competitor=udp", "kill_controller_at_s=5", "restart_controller_at_s=9")),
    Short("takeover", "takeover", ()),
    Short("seawall-weights", "weights", ()),
    Short("seawall-reports-lost", "failsafe", ("law=seawall",)),
)
# The loop closed by slower or sparser news of marks; short, so what the start does to queue and first second is
# most of what is seen of them: those are in docs/sources, as measured.
OTHER_SOURCES = (
    Short("share-openflow-ce", "share", ("mark_source=openflow-ce", "phases=1,5,2", "competitor=udp")),
    Short("share-sflow", "share", ("mark_source=sflow", "sflow_sampling=100", "phases=1,5,2", "competitor=udp")),
)
# The same run twice with one seed, once with another.
TWINS = tuple(Short(name, "share", ("phases=1,2,1", "competitor=udp"), seed)
              for name, seed in (("one", 3), ("same", 3), ("other", 4)))


@pytest.fixture(scope="session")
def runs(request, artifacts, tmp_path_factory):
    """Start every run that a selected test waits for; a name gives its future of [(label, run)]."""

    def run(short):
        out, experiment = tmp_path_factory.getbasetemp() / f"run-{short.name}", EXPERIMENTS[short.experiment]
        return [(case.label, run_case(case, artifacts, short.seed, out / str(number), experiment.measure)[0])
                for number, case in enumerate(experiment.cases(short.settings))]

    wanted = []
    for item in request.session.items:
        if "runs" in item.fixturenames:
            wanted += [item.callspec.params["short"]] if hasattr(item, "callspec") else TWINS
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        futures = {short.name: pool.submit(run, short) for short in wanted}
        yield futures
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("short", SHORT, ids=lambda short: short.name)
def test_expectations_hold(short, runs):
    done = runs[short.name].result()
    verdicts = EXPERIMENTS[short.experiment].judge(done)
    assert verdicts
    lines = [f"{'holds' if one.holds else 'DOES NOT HOLD'}: {one.name}: want {one.expected}, measured {one.measured}"
             for one in verdicts]
    assert all(one.holds for one in verdicts), "\n".join(lines)


@pytest.mark.parametrize("short", OTHER_SOURCES, ids=lambda short: short.name)
def test_other_mark_sources_share_fairly_and_fully(short, runs):
    verdicts = [one for one in EXPERIMENTS[short.experiment].judge(runs[short.name].result())
                if one.name.startswith(("tagged, period all", "Jain", "utilisation, period all"))]
    assert len(verdicts) == 3
    assert all(one.holds for one in verdicts), [(one.name, one.measured) for one in verdicts]


def test_same_seed_same_bytes_other_seed_other_bytes(runs):
    one, same, other = (json.dumps(runs[twin.name].result(), sort_keys=True) for twin in TWINS)
    assert one == same
    assert one != other
