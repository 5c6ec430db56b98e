# SPDX-License-Identifier: Apache-2.0
"""What a kernel's console says, and whose fault a race is."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import List

import pytest

from sdngcc.testbed.smp.build import KINDS, SmpArtifacts
from sdngcc.testbed.smp.console import Complaint, complaints
from sdngcc.testbed.smp.run import LONG, SHORT, Outcome, _judge_console, _judge_report, command_line, initial_ram_disk

FUNCTIONS = frozenset({"limiter_judge", "pair_find"})

RULE = "=" * 66


def race(first: str, second: str, below: str = "process_backlog") -> str:
    """A report of KCSAN about two functions, as Linux 6.1 prints it."""
    lines = [RULE, f"BUG: KCSAN: data-race in {first} / {second}", "",
             "write to 0xffff888003a5c0a8 of 8 bytes by interrupt on cpu 0:",
             f" {first}+0x57/0x110 [openvswitch]", f" {below}+0x1f1/0x360", " __do_softirq+0xc6/0x277", "",
             "read to 0xffff888003a5c0a8 of 8 bytes by task 71 on cpu 1:",
             f" {second}+0x2a/0x50 [openvswitch]", " ovs_vport_receive+0xa3/0x120 [openvswitch]", "",
             "value changed: 0x0000000000000001 -> 0x0000000000000002", "",
             "Reported by Kernel Concurrency Sanitizer on:", "CPU: 1 PID: 71 Comm: init Tainted: G  O  6.1.192 #1",
             "Hardware name: QEMU Standard PC (i440FX + PIIX, 1996)", RULE]
    return "".join(f"[   12.{number:06}] {line}\r\n" for number, line in enumerate(lines))


LOCKDEP = "".join(f"[   31.000000] {line}\n" for line in [
    "", "=" * 54, "WARNING: possible circular locking dependency detected", "6.1.192 #1 Tainted: G           O",
    "-" * 54, "init/61 is trying to acquire lock:",
    "ffffffffa0001118 (planted_second){+.-.}-{2:2}, at: planted_order+0x1e/0x50 [planted]", "",
    "but task is already holding lock:",
    "ffffffffa0001158 (planted_first){+.-.}-{2:2}, at: planted_order+0x12/0x50 [planted]", "",
    "stack backtrace:", "CPU: 0 PID: 61 Comm: init Tainted: G           O       6.1.192 #1", "Call Trace:", " <IRQ>",
    " dump_stack_lvl+0x45/0x5e", " planted_order+0x1e/0x50 [planted]", " </IRQ>", " <TASK>", " __x64_sys_sendto+0x20",
    " </TASK>", "after it"])

SLEEP = ("[    9.1] BUG: sleeping function called from invalid context at kernel/locking/spinlock_rt.c:46\n"
         "[    9.1] in_atomic(): 1, irqs_disabled(): 1, non_block: 0, pid: 0, name: swapper/1\n"
         "[    9.1] Call Trace:\n[    9.1]  <TASK>\n[    9.1]  rt_spin_lock+0x2a/0xe0\n[    9.1]  </TASK>\n")


def found(console: str) -> List[Complaint]:
    return list(complaints(console, FUNCTIONS))


@pytest.mark.parametrize("first, second, ours", [
    ("limiter_judge", "ovs_flow_stats_update", True),  # defined by the shim's objects
    ("ovs_flow_stats_update", "pair_find.isra.0", True),  # as the compiler renames it
    ("ovs_shim_output", "queue_oob", True),  # by its name
    ("ovs_flow_stats_update", "ovs_flow_stats_get", False)])
def test_race_is_the_shims_when_one_of_its_accesses_is(first: str, second: str, ours: bool) -> None:
    (complaint,) = found("[    1.0] booting\n" + race(first, second) + "[   13.0] going on\n")
    assert complaint.race and complaint.ours == ours
    assert "Reported by Kernel Concurrency Sanitizer" in complaint.text
    assert "going on" not in complaint.text


def test_race_further_down_the_stack_is_not_the_shims() -> None:
    (complaint,) = found(race("ovs_flow_stats_update", "ovs_flow_stats_get", below="limiter_judge"))
    assert not complaint.ours


def test_access_of_a_lent_function_is_its_callers() -> None:
    (complaint,) = found(race("memcpy", "ovs_flow_stats_get", below="limiter_judge"))
    assert complaint.ours
    (complaint,) = found(race("memcpy", "ovs_flow_stats_get"))
    assert not complaint.ours


def test_two_races_are_two() -> None:
    both = found(race("limiter_judge", "a") + race("b", "c"))
    assert [complaint.ours for complaint in both] == [True, False]


def test_race_of_unknown_origin_counts() -> None:
    text = (f"{RULE}\nBUG: KCSAN: data-race in pair_find [openvswitch]\n\n"
            "race at unknown origin, with read to 0xffff888003a5c0a8 of 8 bytes by interrupt on cpu 0:\n"
            " pair_find+0x57/0x110 [openvswitch]\n\nReported by Kernel Concurrency Sanitizer on:\n" + RULE + "\n")
    (complaint,) = found(text)
    assert complaint.race and complaint.ours


def test_lockdep_and_atomic_sleep_are_complaints_of_their_own() -> None:
    lock, sleep = found(LOCKDEP + SLEEP)
    assert not lock.race and lock.ours and lock.names("planted_order") and not lock.names("rt_spin_lock")
    assert "after it" not in lock.text
    assert sleep.title.startswith("BUG: sleeping function")


@pytest.mark.parametrize("line", [
    "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", "INFO: task init:61 blocked for more than 60 seconds.",
    "watchdog: BUG: soft lockup - CPU#1 stuck for 23s! [init:61]", "WARNING: suspicious RCU usage",
    "Kernel panic - not syncing: Fatal exception", "WARNING: CPU: 0 PID: 1 at net/openvswitch/vport.c:9 f+0x1/0x2",
    "unregister_netdevice: waiting for vm to become free. Usage count = 2", "refcount_t: underflow; use-after-free."])
def test_each_kind_of_complaint_is_seen(line: str) -> None:
    assert [complaint.title for complaint in found(f"[    5.0] {line}\n")] == [line]


@pytest.mark.parametrize("line", [
    "smp: Brought up 1 node, 2 CPUs", "openvswitch: loading out-of-tree module taints kernel.",
    "INFO: lockdep is turned off.", "INFO: NMI handler (nmi_cpu_backtrace_handler) took too long to run: 28.852 msecs",
    "Warning: unable to open an initial console."])
def test_ordinary_lines_are_none(line: str) -> None:
    assert not found(f"[    5.0] {line}\n")


def test_silence_about_what_was_planted_is_a_finding() -> None:
    outcome = Outcome("lockdep", 2)
    _judge_console(iter(found("[ 1.0] all is well\n")), outcome)
    assert not outcome.control and "planted_order" in outcome.findings[0]
    outcome = Outcome("lockdep", 2)
    _judge_console(iter(found(LOCKDEP)), outcome)
    assert outcome.control and not outcome.findings


def test_races_of_others_are_told_and_no_finding() -> None:
    outcome = Outcome("kcsan", 2)
    text = race("planted_race", "planted_race") + race("a", "b") + race("limiter_judge", "b")
    _judge_console(iter(found(text)), outcome)
    assert outcome.control and len(outcome.others) == 1
    assert len(outcome.findings) == 1 and "limiter_judge" in outcome.findings[0]


def test_report_of_the_program() -> None:
    outcome = Outcome("kcsan", 2)
    lines = ["progress booted: 2 CPUs", "conserve ok steady R 1", "churn 100 changes, 2000 packets", "watched 50000",
             "end"]
    _judge_report(lines, outcome)
    assert (outcome.trials, outcome.conserved, outcome.changes, outcome.packets) == (1, 1, 100, 2000)
    assert outcome.watched == 50000 and not outcome.findings
    for lines in (["conserve FAILED steady R 1", "end"], ["conserve ok steady"], ["end"], [],
                  ["conserve ok steady", "failed: no packets pass after the changes", "end"]):
        outcome = Outcome("lockdep", 2)
        _judge_report(lines, outcome)
        assert len(outcome.findings) >= 1, lines


def test_who_looks_for_races_must_have_looked() -> None:
    lines = ["conserve ok steady R 1", "watched 7", "end"]
    for kind, findings in (("kcsan", 1), ("debian", 1), ("debian_rt", 1), ("lockdep", 0), ("rt", 0)):
        outcome = Outcome(kind, 2)
        _judge_report(lines, outcome)
        assert len(outcome.findings) == findings, kind


def test_initial_ram_disk_holds_what_it_was_given(tmp_path: Path) -> None:
    (tmp_path / "init").write_bytes(b"\x7fELF program")
    archive = gzip.decompress(initial_ram_disk({"init": tmp_path / "init"}))
    assert archive.startswith(b"070701") and b"TRAILER!!!" in archive and b"\x7fELF program" in archive
    at = archive.index(b"init\0") - 110
    assert archive[at:at + 6] == b"070701" and at % 4 == 0
    assert int(archive[at + 14:at + 22], 16) == 0o100755  # mode
    assert int(archive[at + 54:at + 62], 16) == len(b"\x7fELF program")


def machine(kind: str) -> SmpArtifacts:
    """What a machine with a kernel is started from."""
    return SmpArtifacts(kind, Path("bzImage"), [], Path("o.ko"), Path("p.ko"), Path("stress"), frozenset(), ["qemu"])


def test_machine_has_the_cpus_asked_for_and_no_acceleration(tmp_path: Path) -> None:
    argv = command_line(machine("rt"), SHORT, 3, tmp_path)
    assert argv[argv.index("-smp") + 1] == "3" and argv[argv.index("-accel") + 1] == "tcg,thread=multi"
    assert "STRESS_CONTROL=order" in argv[argv.index("-append") + 1]
    assert SHORT.churn_s < LONG.churn_s


def test_lockdep_has_a_console_without_a_lock(tmp_path: Path) -> None:
    for kind in KINDS:
        told = command_line(machine(kind), SHORT, 2, tmp_path)[-1].split()
        assert ("console=ttyS1" in told) == (kind != "lockdep") == ("keep_bootcon" not in told)
