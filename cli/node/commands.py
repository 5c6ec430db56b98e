# SPDX-License-Identifier: Apache-2.0
"""``sdngcc node setup`` and ``sdngcc node check``: this machine as a compute node."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sys
import textwrap
from typing import Any, List, Sequence, Tuple

import click

from sdngcc.node.facts import read_facts
from sdngcc.node.findings import WITHOUT_KEY, Finding, is_good, judge
from sdngcc.node.host import Host, HostError
from sdngcc.node.queues import QueueError
from sdngcc.node.record import Wanted, read_record
from sdngcc.node.setup import DEFAULT_KEY_FILE, SetupError, Step, apply, plan, reapply, undo, undo_order, undo_steps

# How often a run of sdngcc-node.service looks at queues, at most: again each time that it found something to do.
LOOKS = 5


def _names(texts: Sequence[str]) -> Tuple[str, ...]:
    """Return the names of several options, each of which may have some with commas between them."""
    return tuple(dict.fromkeys(name.strip() for text in texts for name in text.split(",") if name.strip()))


class _Printer:
    """Prints steps with their numbers."""

    def __init__(self) -> None:
        self._number = 0

    def __call__(self, step: Step) -> None:
        self._number += 1
        click.echo(f"{self._number}. {step.why}")
        for line in step.lines():
            click.echo(f"   {line}")


def _undo(host: Host, dry_run: bool) -> None:
    if not dry_run:
        count = undo(host, _Printer())
        click.echo(f"{count} steps: this node is as it was before `sdngcc node setup`" if count else
                   "Nothing to take back: `sdngcc node setup` changed nothing here.")
        return
    record, show = read_record(host), _Printer()
    for name in undo_order(record):
        for step in undo_steps(host, name, record.former[name]):
            show(step)
    click.echo("A dry run: nothing was changed.")


def _set_up(host: Host, wanted: Wanted, dry_run: bool) -> None:
    steps = plan(host, read_facts(host), wanted)
    if dry_run:
        show = _Printer()
        for step in steps:
            show(step)
        click.echo("A dry run: nothing was changed." if steps else "Nothing to do: all is as wanted already.")
        return
    apply(host, wanted, steps, _Printer())
    click.echo(f"{len(steps)} steps done; `sdngcc node check` looks whether all is in force, "
               "`sdngcc node setup --undo` takes them back." if steps else "Nothing to do: all is as wanted already.")


def _put_back(host: Host) -> None:
    """Put fq back, and look again: what comes while this runs starts no other run of the unit."""
    show = _Printer()
    for _ in range(LOOKS):
        steps = reapply(host)
        if not steps:
            return
        apply(host, None, steps, show)


def _wanted(host: Host, given: Any) -> Wanted:
    """Return what the options ask for. Raises click.UsageError."""
    uplinks, vms = _names(given["uplink"]), _names(given["vms"])
    if not uplinks:
        raise click.UsageError("--uplink is missing: by which devices do packets leave this machine?")
    if not vms and given["role_from"] is None:
        raise click.UsageError("--vms or --role-from is missing: which ports lead to virtual machines?")
    file = given["key_file"]
    if file is None and given["law"] not in (None, *WITHOUT_KEY) and host.exists(DEFAULT_KEY_FILE):
        file = DEFAULT_KEY_FILE
    return Wanted(uplinks, vms, given["law"], file, given["capacity"], given["controller"], given["manager"],
                  not given["until_boot"])


@click.command("setup")
@click.option("--uplink", multiple=True, metavar="DEVICE[,DEVICE]",
              help="Port by which packets leave this machine; a bond or VLAN device stands for those below it.")
@click.option("--vms", multiple=True, metavar="PORT[,PORT]", help="Ports that lead to virtual machines.")
@click.option("--role-from", type=click.Choice(["iface-id"]),
              help="Ports with external_ids:iface-id lead to virtual machines, as clouds and libvirt set it.")
@click.option("--law", help="Law of all VMs that have none of their own; without it none is set.")
@click.option("--key-file", metavar="FILE",
              help=f"File with the key of controllers and shims.  [default: {DEFAULT_KEY_FILE} if the law needs one]")
@click.option("--capacity", type=click.IntRange(8000, 6_400_000_000_000), metavar="BIT/S",
              help="What each uplink can carry; without it the speed of its link.")
@click.option("--controller", metavar="TARGET",
              help="Let the controller there (tcp:ADDRESS:6653) speak with this host, by a bridge without ports.")
@click.option("--manager", metavar="TARGET",
              help="Let the controller there (its ovsdb_listen) read VMs' names in this host's database.")
@click.option("--until-boot", is_flag=True, help="Install nothing that puts fq back after a boot.")
@click.option("--dry-run", is_flag=True, help="Print each step, its commands and why, and change nothing.")
@click.option("--undo", "undoes", is_flag=True, help="Take back all that this command changed, then and before.")
@click.option("--reapply", "reapplies", is_flag=True, hidden=True, help="Put fq back; for sdngcc-node.service.")
def setup(dry_run: bool, undoes: bool, reapplies: bool, **given: Any) -> None:
    """Set this machine up as a compute node: roles of ports, fq at each queue, key, law, what a boot needs.

    What is so already is left alone, and what was there before is kept in /var/lib/sdngcc-node/node.json for --undo. No
    flow, fail mode or controller of a bridge with ports is touched.

    \b
    sdngcc node setup --uplink eth0 --vms tap0,tap1 --law static --dry-run
    sdngcc node setup --uplink bond0 --role-from iface-id --law sdngcc --controller tcp:192.0.2.10:6653
    sdngcc node setup --undo
    """
    host = Host()
    if not dry_run and os.geteuid() != 0:
        raise click.ClickException("only root sets a node up; --dry-run shows the steps; nothing was changed")
    try:
        if undoes:
            _undo(host, dry_run)
        elif reapplies:
            _put_back(host)
        else:
            _set_up(host, _wanted(host, given), dry_run)
    except (SetupError, QueueError) as error:
        raise click.ClickException(str(error)) from None
    except HostError as error:
        raise click.ClickException(f"{error}; what was done before stays, `sdngcc node setup --undo` takes it "
                                   "back") from None


def _lines(finding: Finding, width: int) -> List[str]:
    """Return a finding as lines of at most width characters, but for words that are longer."""
    head = f"{finding.level:8} {finding.subject:11} "
    lines = textwrap.wrap(finding.text, width, initial_indent=head, subsequent_indent=" " * len(head),
                          break_long_words=False, break_on_hyphens=False)
    if finding.hint:
        lines += textwrap.wrap(finding.hint, width, initial_indent=" " * len(head) + "-> ",
                               subsequent_indent=" " * (len(head) + 3), break_long_words=False,
                               break_on_hyphens=False)
    return lines


@click.command("check")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option("--quiet", is_flag=True, help="Print warnings and faults alone.")
def check(as_json: bool, quiet: bool) -> None:
    """Look whether this machine limits its VMs as its settings say; exit 0 if so, 1 with a warning or a fault.

    It looks at the module for the kernel that runs and for the newest one, ovs-vswitchd, roles, fq at each queue, law,
    key, controllers, and what a boot brings back. `fault` is wrong now; `warning` will be wrong later, or may be.
    """
    findings = judge(read_facts(Host()))
    if as_json:
        click.echo(json.dumps({"good": is_good(findings),
                               "findings": [dataclasses.asdict(one) for one in findings]}, indent=1))
    else:
        width = min(max(shutil.get_terminal_size().columns, 40), 120)
        for one in findings:
            if one.level != "ok" or not quiet:
                for line in _lines(one, width):
                    click.echo(line)
    sys.exit(0 if is_good(findings) else 1)
