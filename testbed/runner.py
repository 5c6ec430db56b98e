# SPDX-License-Identifier: Apache-2.0
"""Runs an experiment: its runs one after the other in machines of their own, then result, figure and report."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

from sdngcc.experiments.base import Case, Experiment, Measure, Run
from sdngcc.testbed import collect
from sdngcc.testbed.build import KERNEL, Artifacts, BuildError, build
from sdngcc.testbed.inventory import Inventory
from sdngcc.testbed.machine import MachineError, run_job
from sdngcc.testbed.neutron import NEUTRON_AGENT, neutron_environment, neutron_python
from sdngcc.testbed.parameters import CONTROLLED, Parameters
from sdngcc.testbed.workload import REST_PORT, Workload, three_periods
from sdngcc.topologies.shaping import LEAF_HANDLE

# Wall time a run may take: so much for the start, so much for each virtual second.
LIMIT_BASE_S, LIMIT_PER_S = 900.0, 30.0
# What holds the key of control messages inside the machine; the key itself is derived from the seed.
KEY_FILE = "/run/sdngcc.key"
# What OVS' policing lets a VM send at once, seconds of its rate: what Neutron asks of it unless told otherwise.
POLICE_BURST_S = 0.8
# Where its controller keeps the policy of tenants.
TENANT_FILE = "/run/tenants.json"

# Called with the run's number, the number of runs, the part done (0..1) and what is being done.
Progress = Callable[[int, int, float, str], None]


def _vm_settings(parameters: Parameters, index: int) -> Dict[str, str]:
    """Return the OVSDB keys of the index-th VM's port."""
    guarantee = parameters.guarantee_mbps(index)
    maximum = parameters.fixed_mbps(index) if parameters.law == "static" else parameters.maximum_mbps(index)
    keys = {"shim-weight": str(parameters.weight(index))}
    if maximum:
        keys["shim-max-rate"] = str(round(maximum * 1e6))
    if guarantee:
        keys["shim-min-rate"] = str(round(guarantee * 1e6))
    tenant = parameters.tenant_of(index)
    if tenant is not None:
        keys["shim-tenant"] = f"tenant{tenant + 1}"
    return keys


def _shim(parameters: Parameters) -> Optional[Dict[str, Any]]:
    """Return the shim's part of the job: OVSDB settings, as strings; None without a shim."""
    if parameters.law == "none":
        return None
    settings = {"shim-law": parameters.law, "shim-limiter": parameters.limiter, "shim-key-file": KEY_FILE}
    for key, value in (("shim-burst", parameters.burst_bytes), ("shim-burst-us", parameters.burst_us),
                       ("shim-horizon-us", parameters.horizon_us), ("shim-period-us", parameters.shim_period_us)):
        if value is not None:
            settings[key] = str(value)
    if parameters.ahead:
        settings["shim-ahead"] = "true"
    if parameters.fabric == "linux":
        settings["shim-conversations"] = "true"
    settings.update({f"shim-knob-{name}": str(value) for name, value in parameters.knobs.items()})
    uplink_mbps = parameters.uplink_mbps or parameters.link_mbps
    vms = {vm: _vm_settings(parameters, index) for index, vm in enumerate(parameters.vm_names)}
    if parameters.topology == "star":
        # VMs of one number are one tenant's.
        vms.update({f"rx{index + 1}": _vm_settings(parameters, index) for index in range(parameters.receivers)})
    return {
        "settings": settings,
        "uplink": {"shim-role": "uplink", "shim-capacity": str(uplink_mbps * 10**6)},
        "vms": vms,
    }


def _edge(parameters: Parameters) -> Optional[Dict[str, Any]]:
    """Return what hosts hold VMs with that have no shim: bits/s and bits; None where VMs are free."""
    if parameters.edge == "none":
        return None
    rates = {vm: round(parameters.fixed_mbps(index) * 1e6) for index, vm in enumerate(parameters.vm_names)}
    burst = parameters.burst_bytes
    return {"kind": parameters.edge, "rate_bps": rates, "uplink_bps": parameters.link_mbps * 10**6,
            "burst_bits": {vm: burst * 8 if burst else round(POLICE_BURST_S * rate) for vm, rate in rates.items()}}


def _controller(parameters: Parameters) -> Optional[Dict[str, Any]]:
    """Return the controller's part of the job: its environment and when it dies; None without one."""
    if parameters.law not in CONTROLLED:
        return None
    return {
        "environment": {
            "SDNGCC_CONTROLLER_PERIOD_US": str(round(parameters.period_ms * 1000)),
            "SDNGCC_CONTROLLER_DIVISION": parameters.division,
            "SDNGCC_CONTROLLER_MULTIPATH": parameters.multipath,
            "SDNGCC_CONTROLLER_MARK_SOURCE": parameters.mark_source,
            "SDNGCC_CONTROLLER_MARK_DELAY_MS": str(parameters.mark_delay_ms),
            "SDNGCC_CONTROLLER_CE_REFRESH": str(parameters.ce_refresh).lower(),
            "SDNGCC_CONTROLLER_SFLOW_WINDOW_MS": str(max(5, round(parameters.period_ms))),
            "SDNGCC_CONTROLLER_LEVELS": str(parameters.tells_levels).lower(),
            "SDNGCC_CONTROLLER_BY_PATH": str(parameters.by_path).lower(),
            **({"SDNGCC_CONTROLLER_DECISION": "maxmin",
                "SDNGCC_CONTROLLER_CAPACITY_MBPS": str(parameters.link_mbps)} if parameters.law == "maxmin" else {}),
            "SDNGCC_CONTROLLER_KEY_FILE": KEY_FILE,
            # Of several controllers the database that they share keeps what this file does.
            **({"SDNGCC_CONTROLLER_TENANT_FILE": TENANT_FILE} if parameters.controllers == 1 else {}),
        },
        "count": parameters.controllers,
        "rest_port": REST_PORT,
        "sflow_sampling": parameters.sflow_sampling if parameters.mark_source == "sflow" else None,
        "kill_at_s": parameters.kill_controller_at_s,
        "restart_at_s": parameters.restart_controller_at_s,
    }


def _cloud(parameters: Parameters) -> Dict[str, Any]:
    """Return who owns the hypervisors' bridges, and how tenants' packets cross the fabric."""
    return {
        "agent": parameters.agent, "network": parameters.network,
        "neutron": {"python": str(neutron_python()), "program": str(NEUTRON_AGENT)}
        if parameters.agent == "neutron" else None,
    }


def _loss(parameters: Parameters) -> List[List[float]]:
    """Return the losses of feedback in order, each with its time in seconds; none where there is none to lose."""
    if parameters.law == "none" or not any(parameters.loss):
        return []
    return [[at_s, percent] for at_s, percent in zip(parameters.loss_at_s, parameters.loss)]


def make_job(parameters: Parameters, artifacts: Artifacts, seed: int,
             workload: Optional[Workload] = None) -> Dict[str, Any]:
    """Return the job that the agent inside the machine reads; workload defaults to the three periods."""
    work = workload or three_periods(parameters)
    return {
        "modules": [*artifacts.datapath(parameters.datapath),
                    *([str(artifacts.congestion)] if work.own_protocols else [])],
        "ovs": artifacts.open_vswitch(parameters.ovs),
        # ovs-vswitchd's own datapath paces packets by the clock.
        "loop_clock": "" if parameters.datapath == "netdev" else str(artifacts.loop_clock),
        "generator": str(artifacts.generator),
        "topology": {"name": parameters.topology, "parameters": {
            name: getattr(parameters, name) for name in (
                "senders", "vms_per_hypervisor", "hosts", "receivers", "link_mbps", "rtt_us", "buffer_packets",
                "mark_percent",
                *{"racks": ["racks"], "dumbbell": ["uplink_mbps", "red"]}.get(parameters.topology, []))}},
        "guest": {"ecn": parameters.guest_ecn, "accecn": parameters.accecn, "rack_tlp": parameters.rack_tlp,
                  "gso": parameters.gso, "backpressure": parameters.backpressure},
        **work.as_dict(),
        "traffic": parameters.generator,
        "early": parameters.handshake == "early",
        "sampling": {"interval_us": parameters.sample_us, "bin_us": work.bin_us,
                     "limits_ms": parameters.limit_sample_ms, "handle": LEAF_HANDLE},
        "duration_s": parameters.duration_s,
        "fabric": parameters.fabric,
        "userspace": parameters.datapath == "netdev",
        "cloud": _cloud(parameters),
        "shim": _shim(parameters),
        "edge": _edge(parameters),
        "controller": _controller(parameters),
        "loss": _loss(parameters),
        "loss_of": parameters.loss_of,
        "seed": seed,
        "key": f"{seed:032x}"[-32:],
        "key_file": KEY_FILE,
    }


def run_case(case: Case, artifacts: Artifacts, seed: int, raw: Path, measure: Optional[Measure] = None,
             progress: Optional[Callable[[float, str], None]] = None,
             inventory: Optional[Inventory] = None) -> Tuple[Run, Dict[str, float]]:
    """Run once, leaving raw samples and logs in raw; return the run's result and what it cost.

    With an inventory its machines are used, if check_run() lets the case pass, else a virtual one. Neutron is installed
    for that first, and another kernel than that of artifacts built, where they are needed. Raises MachineError when it
    did not end well.
    """
    parameters, seed = case.parameters, case.seed_of(seed)
    if parameters.kernel != KERNEL:
        try:
            artifacts = build(ovs=[parameters.ovs], linux=parameters.kernel)
        except BuildError as error:
            raise MachineError(f"kernel={parameters.kernel}: {error}") from None
    if parameters.agent == "neutron":
        try:
            neutron_environment()
        except BuildError as error:
            raise MachineError(f"agent=neutron: {error}") from None
    job = make_job(parameters, artifacts, seed, case.work(seed))
    shutil.rmtree(raw, ignore_errors=True)

    def show(virtual_s: float, text: str) -> None:
        if progress is not None:
            progress(min(max(virtual_s - 12, 0) / (parameters.duration_s + 3), 1.0), text)

    limit_s = LIMIT_BASE_S + LIMIT_PER_S * parameters.duration_s
    if inventory is not None:
        from sdngcc.testbed.racks import run_on

        timing = run_on(inventory, job, raw, limit_s, show)
    else:
        timing = run_job(artifacts.kernel, job, raw, seed, limit_s, show)
    try:
        result = collect.summarise(collect.read_samples(raw, job), parameters)
        if measure is not None:
            result["measured"] = measure(raw, result)
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise MachineError(f"samples are incomplete: {error!r}; they are in {raw}") from error
    return result, asdict(timing)


def write_json(path: Path, content: Any) -> None:
    """Write content as JSON, keys in order, so that equal content gives equal bytes."""
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def leave_result(experiment: Experiment, runs: List[Tuple[str, Run]], seed: int, out: Path) -> Dict[str, Any]:
    """Judge labelled runs, leave result.json, figure.png and report.html in out, and return the result."""
    from sdngcc.testbed import plot, report

    label, main = runs[0]
    result = {
        "schema": collect.SCHEMA, "experiment": experiment.name, "seed": seed, "label": label, **main,
        "variants": [{"label": other, **run} for other, run in runs[1:]],
        "verdicts": [verdict.as_dict() for verdict in experiment.judge(runs)],
    }
    write_json(out / "result.json", result)
    plot.draw(result, out / "figure.png")
    report.write(result, out / "figure.png", out / "report.html")
    return result


def run_experiment(experiment: Experiment, cases: List[Case], artifacts: Artifacts, seed: int, out: Path,
                   progress: Optional[Progress] = None, inventory: Optional[Inventory] = None) -> Dict[str, Any]:
    """Run all cases and leave result.json, timing.json, figure.png and report.html in out; return the result.

    They run in the virtual testbed, or on an inventory's machines, which check_run() has let pass.
    Raises MachineError when a run does not end well.
    """
    started = time.monotonic()
    runs: List[Tuple[str, Run]] = []
    timings: Dict[str, Any] = {}
    for number, case in enumerate(cases):
        def show(part: float, text: str, number: int = number) -> None:
            if progress is not None:
                progress(number, len(cases), part, text)

        raw = out / "raw" / (f"{number + 1}" if len(cases) > 1 else "")
        result, timing = run_case(case, artifacts, seed, raw, experiment.measure, show, inventory)
        runs.append((case.label, result))
        timings[case.label or experiment.name] = timing
    result = leave_result(experiment, runs, seed, out)
    write_json(out / "timing.json", {"runs": timings, "wall_s": round(time.monotonic() - started, 3)})
    return result
