# SPDX-License-Identifier: Apache-2.0
"""`sdngcc node setup` on a machine that is played.

shim/tests/datapath/check_node.py has a real kernel and Open vSwitch.
"""

import json
import os
from dataclasses import replace
from pathlib import Path

import click.testing
import pytest

from sdngcc.main import main
from sdngcc.node import boot, commands, setup
from sdngcc.node.facts import Facts, Interface, Vswitchd
from sdngcc.node.host import Host, HostError
from sdngcc.node.queues import Device, FqSettings, Qdisc, from_documents, restoring, settings_for
from sdngcc.node.queues import commands as fq_commands
from sdngcc.node.record import FILE, FOLDER, Record, Wanted, read_record, write_record

LEAF = Qdisc("pfifo_fast", "0:", ":1")
CARD = Device("eth0", (), 2, (Qdisc("mq", "0:", ""), LEAF, Qdisc("pfifo_fast", "0:", ":2")))


def interface(name, **more):
    return Interface(**{"name": name, "port": name, "bridge": "br0", "type": "", "iface_id": "", "role": "",
                        "is_physical": False, "is_tap": True, "error": "", "unfit": False, **more})


FACTS = Facts(running="6.1", kernels=(), module="sdngcc", vswitchd=Vswitchd("3.1.0", True), user_space=False,
              interfaces=(interface("eth0"), interface("tap0"), interface("tap1")), devices={"eth0": CARD},
              law="none")


class Played(Host):
    """A machine whose database has br0 with eth0, tap0 and tap1, whose programs succeed and are noted."""

    def __init__(self, root, systemd=True):
        super().__init__(root)
        self.ran = []
        self.failing = ""
        if systemd:
            (root / "run/systemd/system").mkdir(parents=True)

    def run(self, argv):
        self.ran.append(" ".join(argv))
        if self.failing and self.failing in self.ran[-1]:
            raise HostError(f"`{self.ran[-1]}` failed")
        return "[]"

    def program(self, name):
        return f"/usr/bin/{name}"

    def table(self, name, *columns):
        names = {"Interface": ("eth0", "tap0", "tap1"), "Port": ("eth0", "tap0", "tap1"), "Bridge": ("br0",)}
        return [{"name": one, "other_config": {}, "qos": [], "_uuid": one} for one in names.get(name, ())]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    played = Played(tmp_path)
    monkeypatch.setattr(commands, "Host", lambda: played)
    monkeypatch.setattr(commands, "read_facts", lambda host: FACTS)
    monkeypatch.setattr(setup, "read_facts", lambda host, whole=True: FACTS)
    monkeypatch.setattr(setup, "read_devices", lambda host: {"eth0": CARD})
    monkeypatch.setattr(setup, "known_laws", lambda: ["static", "sdngcc"])
    return played


def call(*words):
    return click.testing.CliRunner().invoke(main, ["node", "setup", *words])


ASKED = ("--uplink", "eth0", "--vms", "tap0,tap1", "--law", "static")


def test_a_dry_run_tells_each_step_with_its_command_and_changes_nothing(machine):
    ended = call(*ASKED, "--dry-run")
    assert ended.exit_code == 0, ended.output
    assert machine.ran == [] and not machine.exists(FILE) and not machine.exists(boot.UNIT_FILE)
    for line in ("ovs-vsctl --timeout=30 set Interface eth0 other_config:shim-role=uplink",
                 "ovs-vsctl --timeout=30 set Interface tap1 other_config:shim-role=vm",
                 "tc qdisc replace dev eth0 root handle 1: mq",
                 "tc qdisc replace dev eth0 parent 1:2 fq limit 100000 flow_limit 2000 buckets 1024",
                 f"write {boot.UNIT_FILE}", f"systemctl enable {boot.UNIT}",
                 "ovs-vsctl --timeout=30 set Open_vSwitch . other_config:shim-law=static"):
        assert f"   {line}\n" in ended.output, ended.output
    assert "root fq" not in ended.output and "set-controller" not in ended.output
    assert ended.output.endswith("A dry run: nothing was changed.\n")


def test_what_limits_comes_last_and_undo_goes_the_other_way(machine):
    call(*ASKED)
    assert machine.ran[-1].endswith("shim-law=static") and "shim-role=uplink" in machine.ran[0]
    unit = machine.read(boot.UNIT_FILE).splitlines()
    assert "ExecStart=/usr/bin/sdngcc node setup --reapply" in unit
    assert "ConditionFileIsExecutable=/usr/bin/sdngcc" in unit and f"StateDirectory={Path(FOLDER).name}" in unit
    assert 'SUBSYSTEM=="queues", DEVPATH=="*/net/eth0/queues/tx-*"' in machine.read(boot.RULES_FILE)
    machine.ran.clear()
    ended = call("--undo")
    assert ended.exit_code == 0 and "remove Open_vSwitch . other_config shim-law" in machine.ran[0]
    assert not any(machine.exists(name) for name in (FOLDER, boot.UNIT_FILE, boot.RULES_FILE))
    assert "sdngcc node setup` changed nothing" in call("--undo").output


def test_a_step_that_fails_is_named_and_the_rest_is_not_done(machine):
    machine.failing = "parent 1:2"
    ended = call(*ASKED)
    assert ended.exit_code == 1 and "parent 1:2" in ended.output and "--undo" in ended.output
    assert not any("shim-law" in one for one in machine.ran)
    machine.failing = ""
    machine.ran.clear()
    assert call("--undo").exit_code == 0 and not machine.exists(FILE)


REFUSED = {
    ("--vms", "tap0"): "--uplink is missing", ("--uplink", "eth0"): "--vms or --role-from is missing",
    ("--uplink", "eth1", "--vms", "tap0"): "there is no such port and no such device; there are eth0, tap0, tap1",
    ("--uplink", "eth0", "--vms", "tap0,tap9"): "--vms tap9: no bridge has that port; there are eth0, tap0, tap1",
    ("--uplink", "eth0", "--vms", "eth0"): "a port has one role",
    ("--uplink", "eth0", "--vms", "tap0", "--law", "fast"): "there are static, sdngcc, none; none stays in force",
    ("--uplink", "eth0", "--vms", "tap0", "--law", "sdngcc"): "needs a key",
    ("--uplink", "eth0", "--vms", "tap0", "--key-file", "/k"): "--key-file /k: there is no such file",
    ("--uplink", "eth0", "--vms", "tap0", "--controller", "c1"): "--controller c1: that is no target",
    ("--uplink", "eth0", "--vms", "tap0", "--manager", "c1"): "--manager c1: that is no target",
    ("--uplink", "eth0", "--role-from", "mac"): "'mac' is not 'iface-id'",
    ("--uplink", "eth0", "--vms", "tap0", "--capacity", "1"): "8000<=x",
}


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_what_cannot_be_had_is_refused_by_name(machine, words):
    ended = call(*words)
    assert ended.exit_code in (1, 2) and REFUSED[words] in " ".join(ended.output.split()), ended.output
    assert machine.ran == [] and not machine.exists(FILE)


def test_without_systemd_it_says_so(tmp_path, machine, monkeypatch):
    os.rmdir(tmp_path / "run/systemd/system")
    assert "systemd does not run here" in call(*ASKED).output and machine.ran == []
    assert call(*ASKED, "--until-boot").exit_code == 0
    assert not machine.exists(boot.UNIT_FILE)


def test_who_is_not_root_is_told(machine, monkeypatch):
    monkeypatch.setattr(commands.os, "geteuid", lambda: 1000)
    ended = call(*ASKED)
    assert ended.exit_code == 1 and "only root" in ended.output and machine.ran == []


@pytest.mark.parametrize("spoil", [lambda path: os.chmod(path, 0o666), lambda path: path.write_text("{"),
                                   lambda path: path.write_text(json.dumps({"schema": 9}))])
def test_a_record_that_others_could_write_or_that_is_none_is_not_obeyed(tmp_path, machine, spoil):
    write_record(machine, Record(Wanted(("eth0",)), {"file /etc/passwd": "root::0:0"}))
    assert read_record(machine).wanted == Wanted(("eth0",))
    spoil(machine.path(FILE))
    ended = call("--undo")
    assert ended.exit_code == 1 and "node.json" in ended.output and machine.ran == []
    assert not machine.exists("/etc/passwd")


def test_a_controller_gets_a_bridge_without_ports(machine):
    (machine.path("/etc/sdn-gcc")).mkdir(parents=True)
    machine.write("/etc/sdn-gcc/key", "0" * 32, 0o640)
    ended = call("--uplink", "eth0", "--vms", "tap0", "--law", "sdngcc", "--controller", "tcp:192.0.2.1:6653",
                 "--manager", "ssl:192.0.2.1:6640")
    assert ended.exit_code == 0, ended.output
    told = [one for one in machine.ran if "set-controller" in one]
    assert len(told) == 1 and "set-controller br-sdngcc tcp:192.0.2.1:6653" in told[0]
    assert any('shim-key-file="/etc/sdn-gcc/key"' in one or "shim-key-file=/etc/sdn-gcc/key" in one
               for one in machine.ran)
    assert any("shim-conversations=true" in one for one in machine.ran)
    assert any("add Open_vSwitch . manager_options" in one for one in machine.ran)


def test_reapply_needs_a_set_up_and_puts_back_queues_alone(machine):
    assert "nothing was set up" in call("--reapply").output
    call(*ASKED)
    machine.ran.clear()
    assert call("--reapply").exit_code == 0
    assert machine.ran and all(one.startswith("tc qdisc replace dev eth0 ") for one in machine.ran)


def test_reapply_also_puts_fq_at_queues_that_come_while_it_runs(machine, monkeypatch):
    call(*ASKED)
    fq = Qdisc("fq", "10:", "1:1", {"limit": 100_000, "flow_limit": 2000})
    looks = [CARD, Device("eth0", (), 2, (Qdisc("mq", "1:", ""), fq)),
             Device("eth0", (), 2, (Qdisc("mq", "1:", ""), fq, replace(fq, parent="1:2")))]
    monkeypatch.setattr(setup, "read_facts", lambda host, whole=True: replace(FACTS, devices={"eth0": looks.pop(0)}))
    machine.ran.clear()
    assert call("--reapply").exit_code == 0 and looks == []
    assert [one.split()[5:7] for one in machine.ran] == [["root", "handle"], ["parent", "1:1"], ["parent", "1:2"],
                                                         ["parent", "1:2"]]


@pytest.mark.parametrize("waiting,limit,flow_limit", [(1024, 100_000, 2000), (16, 100_000, 2000),
                                                      (10_000, 100_000, 15_000), (1_048_576, 1_048_576, 1_572_864),
                                                      (0, 100_000, 100_000)])
def test_fq_has_room_for_what_may_wait(waiting, limit, flow_limit):
    assert settings_for(waiting) == FqSettings(limit, flow_limit)


def test_mqprio_keeps_its_root_and_gets_its_leaves_back():
    former = (Qdisc("mqprio", "8:", "", {"tc": 2}), Qdisc("pfifo", "11:", "8:1", {"limit": 9}),
              Qdisc("fq_codel", "0:", "8:2", {"limit": 10240, "target": 4999, "ecn": True}))
    device = Device("eth0", (), 2, former)
    made = fq_commands(device, FqSettings())
    assert [one[4:7] for one in made] == [["eth0", "parent", "8:1"], ["eth0", "parent", "8:2"]]
    after = Device("eth0", (), 2, (former[0], Qdisc("fq", "12:", "8:1"), Qdisc("fq", "13:", "8:2")))
    back = [" ".join(one) for one in restoring(after, from_documents(setup.as_documents(former)))]
    assert back == ["tc qdisc replace dev eth0 parent 8:1 handle 11: pfifo limit 9",
                    "tc qdisc replace dev eth0 parent 8:2 fq_codel limit 10240 target 5000us ecn"]
