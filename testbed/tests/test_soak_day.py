# SPDX-License-Identifier: Apache-2.0
"""The controller's virtual day: a short one with few switches, what its judge refuses, and what is planted."""

from typing import Any, Dict, List

import pytest

from sdngcc.controller.network.machines import Machines
from sdngcc.controller.rates.monitor import FAR_NS, Monitor
from sdngcc.testbed.soak import day
from sdngcc.testbed.soak.day import Plan, judge, run

#: Few switches, and cycles as short as may be.
PLAN = Plan(switches=16, cycles=16, cycle_s=420.0, period_ms=1000.0)


def failed(result: Dict[str, Any]) -> List[str]:
    """Print a run's verdicts; return the names of what did not pass."""
    print(result["verdicts"])
    return [verdict["name"] for verdict in result["verdicts"] if not verdict["passed"]]


def test_a_late_poll_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    # The clockwork is not told of polls, and looks for them when its nap is over.
    monkeypatch.setattr(Monitor, "next_ns", lambda monitor: FAR_NS)
    assert "polls, late_max_us" in failed(run(Plan(16, 4, 420.0, 500.0)))


def test_what_is_kept_of_each_machine_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: List[object] = []
    add = Machines._add

    def leaking(machines: Machines, *arguments: Any) -> Any:
        kept.extend([number] for number in range(60))
        return add(machines, *arguments)

    monkeypatch.setattr(Machines, "_add", leaking)
    assert "blocks allocated" in failed(run(PLAN))


def test_few_switches_end_as_they_began() -> None:
    assert failed(run(PLAN)) == []


def test_too_few_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words, told in ((["--switches", "9"], "allowed is 10"), (["--hours", "1"], "allowed is 420")):
        with pytest.raises(SystemExit):
            day.main(words)
        assert told in capsys.readouterr().err


def test_tables_that_grow_do_not_pass() -> None:
    row = {"changes": 4, "blocks": 10**6, "hosts": 3, "switches": 16, "links": 20, "pairs": 0, "late_max_us": 0,
           "skipped": 0, "lost": 0}
    rows = [{**row, "cycle": cycle, "links": 20 + cycle} for cycle in range(1, PLAN.cycles + 1)]
    assert [verdict.name for verdict in judge(rows, PLAN) if not verdict.passed] == ["links"]
