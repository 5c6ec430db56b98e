# SPDX-License-Identifier: Apache-2.0
"""``make fuzz-parsers``: runs each program that fuzzes a parser in Python, and tells the lines of the parsers reached.

What of a file parses nothing from outside, such as what sends, writes or waits, is left out by the names of its
functions and classes; all else counts.
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import List, Optional, Sequence, Set, Tuple

from sdngcc.testbed.build import ROOT
from sdngcc.testbed.fuzz.run import Lines, report, to_json


@dataclass(frozen=True)
class File:
    """A file with a parser, relative to the repository: all of it without some functions, or some functions only.

    A class' function is named as ``Class.function``.
    """

    name: str
    without: Tuple[str, ...] = ()
    only: Tuple[str, ...] = ()


@dataclass(frozen=True)
class Program:
    """A program for atheris: a module of sdngcc with take() and SEEDS, its longest input, bytes, and what it tests."""

    name: str
    module: str
    longest: int
    files: Tuple[File, ...]


def _rest(*names: str) -> Tuple[File, ...]:
    return tuple(File(f"controller/rest/{name}.py") for name in names)


PROGRAMS: Tuple[Program, ...] = (
    Program("openflow", "controller.tests.framework.fuzz_reader", 2000, (
        File("controller/framework/reader.py"),
        File("controller/wire/experimenter.py", only=(
            "kind_of", "count", "Assembler.feed", "_as_known", "port_readings", "vm_readings", "peer_readings",
            "path_readings")),
        File("controller/wire/openflow.py", only=(
            "more_parts", "flow_statistics", "group_statistics", "flows", "_fields", "_first_output")))),
    Program("wire", "controller.tests.wire.fuzz_wire", 2000, (
        File("controller/wire/message.py", without=("Message.bytes", "Message.lost", "Message.packets")),
        File("controller/wire/packets.py", without=("link_local", "arp_request", "_checksum", "message_frame")))),
    Program("sflow", "controller.tests.sources.fuzz_sflow", 2000, (
        File("controller/sources/sflow_datagram.py"),
        File("controller/sources/sflow.py", only=(
            "SFlowMarks.feed", "SFlowMarks._may_send", "SFlowMarks._find", "SFlowMarks._in_order",
            "SFlowMarks._take_flow", "SFlowMarks._in_pool", "SFlowMarks._take_counters", "SFlowMarks._moved",
            "SFlowMarks._port", "SFlowMarks._numbers_by_name", "SFlowMarks._tell_matching", "SFlowMarks._possible",
            "SFlowMarks.close_window")))),
    Program("sflow-rt", "controller.tests.sources.fuzz_sflow_rt", 3000, (
        File("controller/sources/sflow_rt.py", without=(
            "SFlowRtMarks.freshness_ns", "SFlowRtMarks.collectors", "SFlowRtMarks._read_always")),)),
    Program("sonic", "controller.tests.sources.fuzz_sonic", 3000, (
        File("controller/sources/sonic.py", without=(
            "SonicMarks.freshness_ns", "SonicMarks.collectors", "SonicMarks._read_always", "SonicMarks.connect",
            "Meter", "_Metered")),)),
    Program("otlp", "controller.tests.otlp.fuzz_otlp", 3000, (
        File("controller/otlp/metrics.py"), File("controller/otlp/records.py", without=("Orders",)),
        File("controller/otlp/receiver.py", only=("speakers", "read_export", "peer_address")),
        File("controller/sources/otlp.py", only=(
            "_Clock.take", "OtlpMarks.feed", "OtlpMarks.take_export", "OtlpMarks._hear", "OtlpMarks._take_value",
            "OtlpMarks._is_newer", "OtlpMarks._grown", "OtlpMarks._fresh", "OtlpMarks._note", "OtlpMarks.close_window",
            "OtlpMarks.readings", "OtlpMarks.forget")))),
    Program("rest", "controller.tests.rest.fuzz_rest", 3000, (
        *_rest("application", "auth", "bulk", "bulk_models", "changes", "control", "lookup", "models", "nodes", "ports",
               "resource", "status", "switches", "tenants", "vms"),
        File("controller/rest/events.py", only=("Broker.join", "Broker._missed", "Events.on_get")))),
    Program("databases", "controller.tests.databases.fuzz_databases", 2000, (
        File("controller/databases/documents.py", without=("_Items", "_Members", "_paced")),
        File("controller/databases/introduction.py"),
        File("controller/databases/rows.py"), File("controller/databases/stored.py"),
        File("controller/databases/ports.py"),
        File("controller/databases/ovn.py", without=("Orders", "Reader.__init__", "Reader.run", "main")),
        File("controller/databases/neutron.py", without=("asker", "askers", "_of_cloud", "_without_authentication",
                                                         "main")),
        File("controller/network/directory.py", without=("Directory.find", "Directory.count")))),
    Program("files", "controller.tests.fuzz_files", 2000, (
        File("cli/configuration.py", without=("stamp", "check_writable")),
        File("controller/settings/__init__.py", without=("adopt", "current", "read_again")),
        File("controller/settings/sources.py"), File("controller/settings/network.py"),
        File("controller/settings/rates.py"),
        File("controller/settings/databases.py"), File("controller/settings/messages.py"),
        File("controller/settings/rest.py", without=("Role.includes", "Rest.read_tls")),
        File("controller/settings/values.py"), File("controller/mappings.py"),
        File("controller/network/underlay.py", only=("_ids", "read", "_resolve", "_Ends", "Graph.check",
                                                     "Graph.replace",
                                                     "Graph._part", "Graph._join", "at_hosts")),
        File("controller/network/lldp.py"),
        File("controller/framework/allowlist.py", only=("read", "_entry", "AllowList.refuses",
                                                        "AllowList.refuses_switch")),
        File("controller/framework/certificates.py"),
        File("controller/databases/tenants.py", only=("_FilePolicy", "_File", "TenantFile.__init__")),
        File("testbed/inventory.py", only=("Machine", "Server", "Switch", "Inventory", "read_inventory", "_reasons")),
        File("tracker/settings.py", without=("Settings.read_key", "check_files")))),
    Program("tracker", "tracker.tests.fuzz_datagrams", 1000, (File("tracker/datagrams.py"),)),
    Program("client", "tests.fuzz_rest_client", 3000, (
        File("cli/rest.py", without=(
            "read_token", "client_options", "take_options_after", "_options", "_given", "_with_client",
            "_is_loopback")),)),
)  # fmt: skip


def _places(tree: ast.AST, prefix: str = "") -> List[Tuple[str, ast.AST]]:
    """Return the functions and classes of a file with their names."""
    found: List[Tuple[str, ast.AST]] = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.append((prefix + node.name, node))
            found += _places(node, f"{prefix}{node.name}.")
    return found


def _span(node: ast.AST) -> Set[int]:
    """Return the lines of a function or class."""
    assert isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.end_lineno is not None
    return set(range(min([node.lineno, *(one.lineno for one in node.decorator_list)]), node.end_lineno + 1))


def parsing(file: File, root: Path = ROOT) -> Set[int]:
    """Return the lines of a file that count; raises KeyError for a name that the file has not."""
    text = (root / file.name).read_text(encoding="utf-8")
    places = dict(_places(ast.parse(text)))
    if file.only:
        return set().union(*(_span(places[name]) for name in file.only))
    return set(range(1, text.count("\n") + 1)).difference(*(_span(places[name]) for name in file.without))


def reached(program: Program, inputs: Path) -> List[Lines]:
    """Return the lines of a program's parsers that inputs in a folder reach; raises CalledProcessError."""
    files = [str(ROOT / file.name) for file in program.files]
    done = subprocess.run(
        [sys.executable, "-m", "sdngcc.controller.tests.reached", f"sdngcc.{program.module}", str(inputs), *files],
        check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    told, found = json.loads(done.stdout.splitlines()[-1]), []
    for file in program.files:
        lines, counted = told[str(ROOT / file.name)], parsing(file)
        missed = tuple(sorted(counted & set(lines["missed"])))
        found.append(Lines(file.name, len(counted & set(lines["lines"])), missed))
    return found


def fuzz(program: Program, inputs: Path, limits: Sequence[str]) -> Tuple[bool, str]:
    """Run a program on a folder of inputs, which it adds to, until libFuzzer's limits.

    Returns whether something was found, and its last words.
    """
    inputs.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", f"sdngcc.{program.module}", f"-max_len={program.longest}", "-timeout=60",
               f"-artifact_prefix={inputs.parent}/{program.name}-", *limits, str(inputs)]  # fmt: skip
    environment = {**os.environ, "SDNGCC_CONTROLLER_NOTIFY": "false"}
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment, cwd=inputs)
    if done.returncode:
        return True, done.stdout[-500:] + done.stderr[-3000:]
    return False, " ".join(re.findall(r"^Done .*$", done.stderr, re.M))


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the programs chosen; return 0 if nothing was found, else 1."""
    parser = argparse.ArgumentParser(prog="make fuzz-parsers", description="fuzzes parsers in Python")
    parser.add_argument("--seconds", type=int, default=60, help="time of each program, at least 1; default: 60")
    parser.add_argument("--only", choices=[one.name for one in PROGRAMS], action="append",
                        help="this one; may be repeated")
    parser.add_argument("--out", type=Path, default=Path("results/fuzz-parsers"), help="where inputs are kept")
    given = parser.parse_args(arguments)
    if given.seconds < 1:
        parser.error(f"--seconds: {given.seconds} is out of range, allowed is 1 and more")
    failed, lines = False, []
    for program in (one for one in PROGRAMS if given.only is None or one.name in given.only):
        inputs = given.out.resolve() / program.name
        found, words = fuzz(program, inputs, [f"-max_total_time={given.seconds}"])
        print(f"== {program.name}: {given.seconds} s\n{words}", flush=True)
        failed = failed or found
        lines += reached(program, inputs)
    (given.out / "coverage.json").write_text(to_json(lines), encoding="utf-8")
    print(report(lines))
    print("something was found" if failed else "nothing was found")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
