# SPDX-License-Identifier: Apache-2.0
"""What `sdngcc node check` says of facts, and how it prints it."""

import dataclasses
import json
import os

import click.testing
import pytest

from sdngcc.main import main
from sdngcc.node import commands, facts
from sdngcc.node.facts import Controller, Facts, Interface, Kernel, Key, Vswitchd, module_of, read_kernels, version_key
from sdngcc.node.findings import is_good, judge
from sdngcc.node.host import Host
from sdngcc.node.queues import Device, Qdisc

RUNNING, NEWER = "6.1.0-56-amd64", "6.1.0-100-amd64"
FQ = Qdisc("fq", "1:", "", {"limit": 100_000, "flow_limit": 2000})
SMALL = dataclasses.replace(FQ, options={"limit": 10_000, "flow_limit": 100})
SERIES = "3.1.0-2+deb12u1+~sdngcc1"


def interface(name, role="", **more):
    return Interface(**{"name": name, "port": name, "bridge": "br0", "type": "", "iface_id": "", "role": role,
                        "is_physical": False, "is_tap": name.startswith("tap"), "error": "", "unfit": False, **more})


def card(name, *kinds, lower=()):
    """A card with a queue for each kind below mq, or with one queue."""
    if len(kinds) == 1:
        return Device(name, lower, 1, (dataclasses.replace(FQ, kind=kinds[0]),))
    leaves = (dataclasses.replace(FQ, kind=kind, handle=f"80{number}:", parent=f"1:{number + 1:x}")
              for number, kind in enumerate(kinds))
    return Device(name, lower, len(kinds), (Qdisc("mq", "1:", ""), *leaves))


GOOD = Facts(
    running=RUNNING, kernels=(Kernel(RUNNING, "/m/sdngcc.ko"), Kernel(NEWER, "/m/sdngcc.ko")), module="sdngcc",
    vswitchd=Vswitchd("3.1.0", True, SERIES, SERIES), user_space=False,
    interfaces=(interface("eth0", "uplink"), interface("tap0", "vm"), interface("tap1", iface_id="f00")),
    devices={"eth0": card("eth0", "fq")}, settings={"shim-law": "sdngcc", "shim-key-file": "/etc/sdn-gcc/key"},
    law="sdngcc", key=Key("/etc/sdn-gcc/key", ""), controllers=(Controller("br-sdngcc", "tcp:x", True, "", False),),
    unit="enabled")


def changed(**what):
    return dataclasses.replace(GOOD, **what)


def uplink(device, *more):
    return changed(interfaces=(interface(device.name, "uplink"), interface("tap0", "vm")),
                   devices={one.name: one for one in (device, *more)})


def test_a_node_that_is_as_it_should_be_has_no_warning():
    found = judge(GOOD)
    assert is_good(found), found
    assert {one.subject for one in found} == {"module", "kernel", "vswitchd", "uplinks", "VMs", "queues", "law", "key",
                                              "controller", "boot"}


BAD = {
    "not loaded": (changed(module=""), "fault", "module", "is built for Linux 6.1.0-56-amd64 and not loaded"),
    "not built": (changed(module="", kernels=(Kernel(RUNNING, ""),)), "fault", "module", "no module with the shim"),
    "new kernel": (changed(kernels=(Kernel(RUNNING, "/m"), Kernel(NEWER, ""))), "warning", "kernel",
                   "is built for Linux 6.1.0-100-amd64, the newest installed kernel"),
    "foreign vswitchd": (changed(vswitchd=Vswitchd("3.1.0", False, "3.1.0-2+deb12u2", "")), "fault", "vswitchd",
                         "(3.1.0-2+deb12u2) is not this project's"),
    "no vswitchd": (changed(vswitchd=Vswitchd("", False)), "fault", "vswitchd", "does not run"),
    "replaced package": (changed(vswitchd=Vswitchd("3.1.0", True, "3.1.0-2+deb12u2", "")), "warning", "vswitchd",
                         "takes over at the next restart"),
    "replaced file": (changed(vswitchd=Vswitchd("3.1.0", True, SERIES, SERIES, True)), "warning", "vswitchd",
                      "was replaced after it had started"),
    "update to come": (changed(vswitchd=Vswitchd("3.1.0", True, SERIES, "3.1.0-2+deb12u2")), "warning", "vswitchd",
                       "the next upgrade replaces"),
    "no uplink": (changed(interfaces=(interface("tap0", "vm"),)), "fault", "uplinks", "nothing is limited"),
    "no VM": (changed(interfaces=(interface("eth0", "uplink"),)), "warning", "VMs", "nobody to limit"),
    "loose tap": (changed(interfaces=(*GOOD.interfaces, interface("tap7"))), "warning", "VMs", "tap7: taps without"),
    "refused port": (changed(interfaces=(*GOOD.interfaces, interface("tap7", "vm", error="shim-weight: 0 is"))),
                     "fault", "port", "tap7: shim-weight: 0 is"),
    "refused setting": (changed(error="shim-law: 'x' is no law"), "fault", "settings", "shim-law: 'x' is no law"),
    "alarm": (changed(alarm="no module for Linux 7"), "fault", "alarm", "no module for Linux 7"),
    "unfit": (changed(interfaces=(*GOOD.interfaces, interface("eth1", "none", unfit=True))), "fault", "queues", "eth1"),
    "one queue": (uplink(card("eth0", "pfifo_fast")), "fault", "queues", "eth0: the root has pfifo_fast"),
    "one leaf": (uplink(card("eth0", "fq", "fq", "fq_codel", "fq")), "fault", "queues", "eth0: queue 2 has fq_codel"),
    "leaves": (uplink(card("eth0", "sfq", "fq", "sfq")), "fault", "queues", "eth0: queues 0, 2 have sfq"),
    "serialized": (uplink(Device("eth0", (), 4, (FQ,))), "fault", "queues", "fq for 4 queues together"),
    "small fq": (uplink(Device("eth0", (), 1, (SMALL,))), "fault", "queues", "fq with limit 10000, flow_limit 100"),
    "bond": (uplink(Device("bond0", ("eth0", "eth1"), 16, ()), card("eth0", "fq"), card("eth1", "fq", "pfifo")),
             "fault", "queues", "eth1 (below bond0): queue 1 has pfifo"),
    "no law": (changed(settings={}, law="none"), "fault", "law", "no law is set"),
    "other law": (changed(law="static"), "fault", "law", "sdngcc is asked for and static is in force"),
    "law nowhere": (changed(law=""), "fault", "law", "the datapath has none"),
    "no key": (changed(key=None), "fault", "key", "law sdngcc needs a key"),
    "bad key": (changed(key=Key("/k", "it cannot be read: denied")), "fault", "key", "/k: it cannot be read"),
    "no controller": (changed(controllers=(Controller("br0", "tcp:x", False, "Connection refused", True),)),
                      "warning", "controller", "tcp:x is not connected (Connection refused); it forwards there"),
    "no unit": (changed(unit=""), "warning", "boot", "nothing of sdn-gcc puts fq back"),
    "disabled": (changed(unit="disabled"), "warning", "boot", "sdngcc-node.service is disabled"),
    "failed": (changed(unit="failed"), "warning", "boot", "sdngcc-node.service failed"),
    "no database": (changed(missing=("Open vSwitch's database: refused",)), "fault", "node", "database: refused"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_found(name):
    given, level, subject, text = BAD[name]
    found = [one for one in judge(given) if one.level != "ok"]
    assert any((one.level, one.subject) == (level, subject) and text in one.text for one in found), found
    assert not is_good(judge(given))


def test_what_needs_nothing_is_no_fault():
    assert is_good(judge(changed(user_space=True, module="", kernels=())))
    assert is_good(judge(changed(settings={"shim-law": "static", "shim-limiter": "police"}, law="static", key=None,
                                 devices={"eth0": card("eth0", "pfifo")})))
    bond = uplink(Device("bond0", ("eth0", "eth1"), 16, ()), card("eth0", "fq"), card("eth1", "fq", "fq"))
    assert is_good(judge(bond))


def test_versions_of_kernels_go_by_their_numbers():
    sorted_ = ["6.1.0-9-amd64", "6.1.0-56-amd64", "6.1.0-100-amd64", "6.12.95~bpo-amd64", "6.12.95-amd64", "7.3.4"]
    assert sorted(reversed(sorted_), key=version_key) == sorted_


def test_modules_are_found_for_each_kernel_that_can_boot(tmp_path):
    for name in ("boot/vmlinuz-6.1.0-9", "boot/vmlinuz-6.1.0-56", "lib/modules/6.1.0-9/updates/dkms/sdngcc.ko.xz",
                 "lib/modules/6.1.0-56/kernel/net/openvswitch/openvswitch.ko", "lib/modules/5.9/modules.dep"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    host = Host(tmp_path)
    assert read_kernels(host) == (Kernel("6.1.0-9", "/lib/modules/6.1.0-9/updates/dkms/sdngcc.ko.xz"),
                                  Kernel("6.1.0-56", ""))
    patched = tmp_path / "lib/modules/6.1.0-56/updates/dkms/openvswitch.ko"
    patched.parent.mkdir(parents=True)
    patched.touch()
    assert module_of(host, "6.1.0-56") == "/lib/modules/6.1.0-56/updates/dkms/openvswitch.ko"


@pytest.mark.parametrize("text,mode,fault", [
    ("00112233445566778899aabbccddeeff\n", 0o640, ""), ("0011\n", 0o600, "32 hexadecimal digits"),
    ("00112233445566778899aabbccddeeff", 0o644, "everybody can read it"), ("\xff\xfe", 0o600, "it holds no text"),
    (None, 0, "there is no such file")])
def test_a_key_file_is_judged(tmp_path, text, mode, fault):
    if text is not None:
        (tmp_path / "key").write_text(text, encoding="latin-1")
        os.chmod(tmp_path / "key", mode)
    found = facts.read_key(Host(tmp_path), "/key").fault
    assert fault in found and bool(fault) == bool(found)


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_it_is_readable_at_the_width_of_the_terminal(monkeypatch, columns):
    monkeypatch.setattr(commands, "read_facts", lambda host: BAD["leaves"][0])
    ended = click.testing.CliRunner().invoke(main, ["node", "check"], env={"COLUMNS": str(columns)})
    assert ended.exit_code == 1 and all(len(line) <= columns for line in ended.output.splitlines()), ended.output
    quiet = click.testing.CliRunner().invoke(main, ["node", "check", "--quiet"], env={"COLUMNS": str(columns)})
    assert quiet.output and "ok " not in quiet.output


def test_json_and_exit_status(monkeypatch):
    for given, status in ((GOOD, 0), (BAD["disabled"][0], 1)):
        monkeypatch.setattr(commands, "read_facts", lambda host, given=given: given)
        ended = click.testing.CliRunner().invoke(main, ["node", "check", "--json"])
        document = json.loads(ended.output)
        assert ended.exit_code == status and document["good"] is (status == 0)
        assert set(document["findings"][0]) == {"level", "subject", "text", "hint"}


def test_a_machine_without_anything_is_told_and_no_traceback():
    ended = click.testing.CliRunner().invoke(main, ["node", "check"], env={"OVS_RUNDIR": "/nowhere"})
    assert ended.exit_code == 1 and "fault" in ended.output and ended.exception.__class__ is SystemExit
