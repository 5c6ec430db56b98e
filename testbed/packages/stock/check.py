# SPDX-License-Identifier: Apache-2.0
"""Tries what README.md says of a real machine: on a release's own kernel, two processors, with traffic all the time.

The machine is a compute node with four virtual machines (scene.sh), one of which speaks TCP; the others send
datagrams, each more than its share of the uplink.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple

from sdngcc.node import boot
from sdngcc.node.record import FOLDER as RECORD
from sdngcc.testbed.build import ROOT
from sdngcc.testbed.packages.check import CheckError, differences, later, newer, require, snapshot
from sdngcc.testbed.packages.roots import Release, Root, root
from sdngcc.testbed.packages.stock.guest import Guest, booted, equip, mounted

# What the root has: the kernel with headers, what DKMS needs, Debian's own Open vSwitch, and Python for agent.py.
_BASE = ("ca-certificates", "dkms", "ethtool", "initramfs-tools", "iproute2", "linux-headers-amd64",
         "linux-image-amd64", "openvswitch-switch", "procps", "python3", "systemd-sysv", "udev")

OURS = ("sdngcc-common", "sdngcc-controller", "sdngcc-dkms")
OPEN_VSWITCH = ("openvswitch-common", "openvswitch-switch", "python3-openvswitch")

VMS = {f"10.0.0.1{number}": f"tap{number}" for number in range(4)}  # names of their devices, by address
CAPACITY_KBPS = 2_000  # of the uplink, by its network card: little, for emulated processors carry it
OFFERED_KBPS = 1_000  # what each VM sends if nothing limits it, without headers
SHARE_KBPS = CAPACITY_KBPS / len(VMS)

# How far from its share a VM may be; the filters count no Ethernet headers, and emulated processors stall at times.
LEAST, MOST = 0.80, 1.10

# How long VMs have to come to their shares, emulated: so many windows, each this long.
WINDOWS, WINDOW_S = 4, 20

# Longer than this no flow may stand still when the module is exchanged, or as long as a restart of Open vSwitch takes.
STILL_S = 2.0

# What tells why traffic stands still: who has the processors, what forwards, what waits.
_STATE = """top -bn1 -w 120 | head -n 20; ovs-dpctl show -s; ovs-appctl dpctl/dump-flows
ovs-ofctl -O OpenFlow13 dump-flows br0
tc -s qdisc show dev eth0; ovs-appctl shim/show; tail -n 30 /var/log/openvswitch/ovs-vswitchd.log
journalctl --no-pager -u sdngcc-controller -n 30"""

# What `sdngcc node setup` may change, in an order of its own: of the database, the uplink's queues, files of a boot.
NODE = f"""set +e
ovs-vsctl get Open_vSwitch . other_config
ovs-vsctl get-manager
for bridge in $(ovs-vsctl list-br); do
	echo "$bridge" $(ovs-vsctl list-ports "$bridge") $(ovs-vsctl get-controller "$bridge")
done
ovs-vsctl --format=csv --columns=name,other_config list Interface | sort
ovs-vsctl --format=csv --columns=name,qos,other_config list Port | sort
ovs-vsctl --bare --columns=type list QoS
tc qdisc show dev eth0 | grep -o ' fq '
ls -d {boot.UNIT_FILE} {boot.RULES_FILE} {RECORD} /etc/systemd/system/*.wants/{boot.UNIT} 2>/dev/null
systemctl --no-legend --plain --failed | grep -e sdngcc -e ovs
true"""

# Where the machine keeps what that was before the set-up.
_BEFORE = "/var/lib/before-the-set-up"

# Lets apt remove what came by a recommendation, though another package suggests it: the root has no such packages.
_ALL = ("-o", "APT::AutoRemove::RecommendsImportant=false", "-o", "APT::AutoRemove::SuggestsImportant=false")

# What a machine that ran has beside the root: what Open vSwitch, apt and the kernel's boot write down, and the key that
# DKMS made to sign modules, which outlives them.
_RAN = ("lost+found", "etc/hostname", "etc/openvswitch/", "usr/sbin/policy-rc.d", "var/lib/openvswitch/",
        "var/log/openvswitch/", "var/log/alternatives.log", "var/lib/dkms/mok.", "var/lib/private/", "var/lib/dbus/",
        "etc/.updated", "var/.updated")

Say = Callable[[str], None]


class Sample(NamedTuple):
    """What had come of each VM at a time of the machine."""

    t: float  # seconds
    came: Dict[str, int]  # bytes, by name


def commands(readme: str) -> List[str]:
    """Return the commands of README.md's section on a real machine."""
    section = readme.split("\n## On a real machine\n", 1)[1].split("\n## ", 1)[0]
    return [line for line in section.split("```\n")[1].splitlines() if line]


def rates_kbps(samples: List[Sample]) -> Dict[str, float]:
    """Return what came of each VM over all samples, on average."""
    first, last = samples[0], samples[-1]
    return {name: (last.came[name] - first.came[name]) * 8 / 1000 / (last.t - first.t) for name in last.came}


def stills_s(samples: List[Sample]) -> Dict[str, float]:
    """Return the longest time that nothing came of each VM, between the samples that saw something come."""
    longest = {}
    for name in samples[0].came:
        since, most = samples[0].t, 0.0
        for before, after in zip(samples, samples[1:]):
            most = max(most, after.t - since)
            if after.came[name] > before.came[name]:
                since = after.t
        longest[name] = most
    return longest


def actions(flows: str) -> List[str]:
    """Return what flows do, of the output of ovs-ofctl dump-flows: it has counters, too."""
    return sorted(line.rpartition("actions=")[2] for line in flows.splitlines() if "actions=" in line)


def told(numbers: Dict[str, float], unit: str) -> str:
    """Return numbers of VMs as a text."""
    texts = (f"{name} {number:,.{0 if number > 100 else 1}f}" for name, number in sorted(numbers.items()))
    return f"{', '.join(texts)} {unit}"


def check(release: Release, folder: Path, say: Say) -> None:
    """Try a release's packages in a folder on a machine with its own kernel. Raises CheckError and RootError."""
    ours = {path.name.split("_")[0]: path for path in (*folder.glob("*.deb"), *folder.glob("openvswitch/*.deb"))}
    missing = sorted({*OURS, *OPEN_VSWITCH} - set(ours))
    require(not missing, f"{folder} has no packages {', '.join(missing)}: build them first")
    out = folder / "stock"
    out.mkdir(exist_ok=True)
    disk = out / "disk"
    with root(release, _BASE) as one:
        kernel = next(one.path("/usr/lib/modules").iterdir()).name
        equip(one)
        one.apt("update")
        one.path("/packages/stock").mkdir(parents=True)
        own = [name for name in OPEN_VSWITCH if _is_installed(one, name)]
        one.run(["sh", "-c", f"cd /packages/stock && apt-get download {' '.join(own)}"])
        before = snapshot(one.folder, _RAN)
        first = one.path("/packages/first")
        (first / "openvswitch").mkdir(parents=True)
        for name in OURS:
            shutil.copy(ours[name], first)
        for name in OPEN_VSWITCH:
            shutil.copy(ours[name], first / "openvswitch")
        steps = commands((ROOT / "README.md").read_text(encoding="utf-8"))
        require(len(steps) == 3 and steps[0].startswith("apt "), f"README.md's commands are {steps}")
        one.run(["bash", "-c", f"cd /packages/first && {steps[0]}"])
        require(any(one.path(f"/lib/modules/{kernel}/updates/dkms").glob("sdngcc.ko*")),
                f"DKMS built no module: {one.run(['dkms', 'status']).stdout}")
        say(f"`{steps[0]}`: installed, DKMS built the module for {kernel}")
        _bring_later(one, ours["sdngcc-dkms"], kernel)
        with booted(one, kernel, disk, out / "console.log") as guest:
            _Check(guest, kernel, steps[1:], own, say).first()
        with booted(one, kernel, disk, out / "console-again.log", anew=False) as guest:
            _Check(guest, kernel, steps[1:], own, say).again()
    with mounted(disk) as after:
        left = differences(before, snapshot(after, _RAN))
    disk.unlink()
    require(not left, "removing left this:\n" + "\n".join(left[:40]))
    say(f"nothing is left among {len(before)} files and folders but the account sdn-gcc")


def _is_installed(one: Root, name: str) -> bool:
    """Return whether a root has a package; dpkg also knows those that others recommend."""
    asked = one.run(["dpkg-query", "-W", "-f", "${db:Status-Status}", name], check=False)
    return asked.stdout.strip() == "installed"


def _bring_later(one: Root, module: Path, kernel: str) -> None:
    """Put a later version of the module's package into a root, with what DKMS made of it for the kernel.

    To compile it in the machine would take many minutes.
    """
    version = module.name.split("_")[1]
    number = newer(version, version)
    tarball = f"/packages/sdngcc-{number}.dkms.tar.gz"
    target = one.path("/packages/second")
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(later(module, Path(folder)), one.path("/packages/dkms.deb"))
        one.run(["sh", "-euc", f"""
dpkg-deb --fsys-tarfile /packages/dkms.deb | tar -C / -x ./usr/src/sdngcc-{number}
for what in add build; do dkms $what sdngcc/{number} -k {kernel}; done
dkms mktarball sdngcc/{number} -k {kernel} --archive {tarball}
dkms remove sdngcc/{number} --all
rm -r /usr/src/sdngcc-{number} /packages/dkms.deb"""])
        shutil.copy(later(module, Path(folder), [(one.path(tarball), "usr/share/sdngcc-dkms")]), target)
        one.path(tarball).unlink()


class _Check:
    """The steps on the machine, in their order.

    steps are README.md's commands that are typed there, own the packages of Open vSwitch that the machine had before.
    """

    def __init__(self, guest: Guest, kernel: str, steps: List[str], own: List[str], say: Say) -> None:
        self.guest = guest
        self.kernel = kernel
        self.steps = steps
        self.own = own
        self.say = say
        self.restart_s = 0.0

    def first(self) -> None:
        """Run the steps before the machine boots again."""
        self.modules()
        self.scene()
        self.shares()
        self.restart()

    def again(self) -> None:
        """Run the steps after it has booted again."""
        self.boot()
        self.upgrade()
        self.remove()

    def boot(self) -> None:
        """Look what a boot left: fq is back before anybody types a command, and each VM has its share."""
        self._fq("after a boot")
        result = self.guest.run(["systemctl", "show", "-p", "Result,ExecMainStatus,UnitFileState", boot.UNIT]).split()
        require(sorted(result) == ["ExecMainStatus=0", "Result=success", "UnitFileState=enabled"],
                f"after a boot {boot.UNIT} has {result}")
        self.guest.shell("tc qdisc del dev eth0 root; udevadm trigger --action=add /sys/class/net/eth0")
        self._fq("after udev was told that eth0 is new")
        self.say(f"second boot: {boot.UNIT} has put fq back, and does so when the card comes anew")
        self.guest.run(["sh", "/usr/local/lib/check/scene.sh", str(OFFERED_KBPS), str(CAPACITY_KBPS // 1000)])
        self._until_all_come()
        self._checked()
        self._fair("after a boot")

    def modules(self) -> None:
        """Look which modules run; restart Open vSwitch."""
        running = self.guest.run(["uname", "-r"]).strip()
        require(running == self.kernel, f"Linux {running} runs, not {self.kernel}")
        self.guest.run(["systemctl", "restart", "openvswitch-switch"])
        for module, place in (("openvswitch", "/kernel/net/openvswitch/"), ("sdngcc", "/updates/dkms/")):
            path = self.guest.run(["modinfo", "-n", module]).strip()
            require(place in path and self.guest.succeeds(["test", "-d", f"/sys/module/{module}"]),
                    f"{module} is not loaded, or not the right one: {path}")
        version = self.guest.run(["ovs-vswitchd", "--version"]).splitlines()[0]
        self.say(f"Linux {running} on {self.guest.run(['nproc']).strip()} processors, {version}: sdngcc.ko is loaded "
                 "beside the kernel's own openvswitch.ko")

    def scene(self) -> None:
        """Let four virtual machines send; nothing limits them, and nothing is lost for long by a restart."""
        self.guest.run(["sh", "/usr/local/lib/check/scene.sh", str(OFFERED_KBPS), str(CAPACITY_KBPS // 1000)])
        self._until_all_come()
        free = rates_kbps(self._samples(10))
        require(all(free[name] > 1.3 * SHARE_KBPS for name in VMS.values()),
                f"without settings came only {told(free, 'kb/s')}")
        self.restart_s = max(stills_s(self._samples_while(["systemctl", "restart", "openvswitch-switch"], 10)).values())
        self.say(f"no settings: {told(free, 'kb/s')}; a restart of Open vSwitch stops a flow for up to "
                 f"{self.restart_s:.1f} s")

    def shares(self) -> None:
        """Type README.md's commands: each VM gets its share, and the controller names them all."""
        flows = self.guest.run(["ovs-ofctl", "dump-flows", "br0"])
        set_up, self_check = self.steps
        require(self_check == "sdngcc node check", f"README.md's last command is {self_check}")
        self._dry_run(set_up)
        self.guest.shell(set_up)
        after = self.guest.run(["ovs-ofctl", "dump-flows", "br0"])
        require(actions(after) == actions(flows), f"the flows of br0 were\n{flows}\nand are\n{after}")
        self._checked()
        again = self.guest.shell(set_up)
        require(again.startswith("Nothing to do"), f"a second `sdngcc node setup` says\n{again}")
        self._fair("with README.md's commands")
        listed = ""
        for _ in range(30):
            listed = self.guest.run(["sdngcc", "vm", "list", "--wide"], check=False)
            if all(name in listed for name in VMS.values()):
                break
            time.sleep(2)
        require(all(name in listed for name in VMS.values()), f"`sdngcc vm list` says\n{listed}")
        shown = self.guest.run(["ovs-appctl", "shim/show"])
        require("sdngcc" in shown, f"`ovs-appctl shim/show` says\n{shown}")
        self.say(f"`sdngcc vm list` names {', '.join(sorted(VMS.values()))}")

    def restart(self) -> None:
        """Restart Open vSwitch: the limits hold."""
        samples = self._samples_while(["systemctl", "restart", "openvswitch-switch"], 10)
        rates = rates_kbps(samples)
        require(all(rate < MOST * SHARE_KBPS for rate in rates.values()),
                f"a restart of Open vSwitch let VMs send {told(rates, 'kb/s')}")
        self.say(f"restart of Open vSwitch: {told(rates, 'kb/s')} meanwhile, still for "
                 f"{told(stills_s(samples), 's')}")

    def upgrade(self) -> None:
        """Install a later module's package under traffic: it runs, no flow stood still for long, limits hold."""
        note = ["sha256sum", "/sys/module/sdngcc/notes/.note.gnu.build-id"]
        old, version = self.guest.run(note), self._version()
        samples = self._samples_while(["sh", "-euc", "apt-get -q install /packages/second/*.deb"], 10, 900)
        require(self._version() != version, f"the version is {version} as before")
        require(self.guest.run(note) != old, "the module that runs is the one before the upgrade")
        still = stills_s(samples)
        require(max(still.values()) < max(STILL_S, self.restart_s), f"the upgrade stopped flows: {told(still, 's')}")
        self._fair(f"upgrade, flows still for {told(still, 's')}; after it")

    def remove(self) -> None:
        """Remove all packages, and put Debian's own Open vSwitch back: it forwards as before."""
        self._undo()
        self.guest.run(["sh", "-euc", f"apt-get -q purge {' '.join(OURS)}"], timeout_s=600)
        require(not self.guest.succeeds(["test", "-d", "/sys/module/sdngcc"]), "sdngcc.ko is still loaded")
        self._free("packages removed")
        self.guest.run(["sh", "-euc", "apt-get -q install --allow-downgrades /packages/stock/*.deb"], timeout_s=600)
        require("sdngcc" not in self.guest.run(["dpkg-query", "-W", *self.own]), "Open vSwitch is still ours")
        self.guest.run(["systemctl", "is-active", "ovs-vswitchd", "ovsdb-server"])
        self._free("Debian's own Open vSwitch installed again")
        added = [name for name in OPEN_VSWITCH if name not in self.own]
        self.guest.run(["apt-get", "-q", *_ALL, "purge", "--autoremove", *added], timeout_s=600)
        complaints = self.guest.run(["dmesg", "--level", "emerg,alert,crit,err,warn"])
        wrong = re.findall(r"^.*(?:BUG|WARNING|Call Trace|sdngcc:.*(?:fail|error)).*$", complaints, re.MULTILINE)
        require(not wrong, "the kernel complained:\n" + "\n".join(wrong))

    def _dry_run(self, set_up: str) -> None:
        """Require that a dry run tells of steps and changes nothing; what there is is kept for `_undo`."""
        self.guest.shell(f"({NODE}) >{_BEFORE}")
        told = self.guest.shell(f"{set_up} --dry-run")
        require("shim-law=" in told and "systemctl enable" in told, f"a dry run says\n{told}")
        self._as_before("after a dry run")

    def _undo(self) -> None:
        """Require that undoing the set-up, and a restart of Open vSwitch after that, leave what there was before it."""
        self.guest.shell("sdngcc node setup --undo")
        self.guest.run(["systemctl", "restart", "openvswitch-switch"])
        self._as_before("after undoing it")
        self.guest.run(["rm", _BEFORE])
        self.say("`sdngcc node setup --undo`: the database, queues, units and rules are as before the set-up")

    def _as_before(self, when: str) -> None:
        before, after = self.guest.run(["cat", _BEFORE]), self.guest.shell(NODE)
        require(after == before, f"before the set-up the node had\n{before}\nand {when}\n{after}")

    def _fq(self, when: str) -> None:
        """Require that the uplink has fq, at the latest when systemd has started what asks for it."""
        queues = ""
        for _ in range(60):
            queues = self.guest.run(["tc", "qdisc", "show", "dev", "eth0"])
            if " fq " in queues:
                return
            time.sleep(2)
        raise CheckError(f"{when} the queues of eth0 are\n{queues}\n"
                         + self.guest.run(["journalctl", "--no-pager", "-u", boot.UNIT, "-n", "30"], check=False))

    def _checked(self) -> None:
        """Require that `sdngcc node check` finds nothing wrong, at the latest when the controller has connected."""
        for _ in range(30):
            if self.guest.succeeds(["sdngcc", "node", "check"]):
                self.say("`sdngcc node check` finds nothing wrong")
                return
            time.sleep(2)
        raise CheckError(f"`sdngcc node check` says\n{self.guest.run(['sdngcc', 'node', 'check'], check=False)}")

    def _version(self) -> str:
        return self.guest.run(["dpkg-query", "-W", "-f", "${Version}", "sdngcc-dkms"])

    def _fair(self, when: str) -> None:
        """Require that every VM gets its share of the uplink, at the latest in the last of some windows.

        Until then an emulated controller may still work off what came while it and Open vSwitch had no flows.
        """
        for window in range(1, WINDOWS + 1):
            samples = self._samples(WINDOW_S)
            rates = rates_kbps(samples)
            if all(LEAST * SHARE_KBPS < rate < MOST * SHARE_KBPS for rate in rates.values()):
                self.say(f"{when}: {told(rates, 'kb/s')} of {CAPACITY_KBPS:,}, {window * WINDOW_S} s on")
                return
        raise CheckError(f"{when} come {told(rates, 'kb/s')}, still for {told(stills_s(samples), 's')}; fair are "
                         f"{SHARE_KBPS:.0f} each\n" + self.guest.run(["sh", "-c", _STATE], check=False))

    def _free(self, when: str) -> None:
        """Require that nothing limits a VM any more."""
        self._until_all_come()
        rates = rates_kbps(self._samples(10))
        require(all(rates[name] > 1.3 * SHARE_KBPS for name in VMS.values()), f"{when}: {told(rates, 'kb/s')}")
        self.say(f"{when}: {told(rates, 'kb/s')}")

    def _until_all_come(self) -> None:
        """Wait until something comes of each VM."""
        for _ in range(30):
            samples = self._samples(2)
            if all(rate > 100 for rate in rates_kbps(samples).values()):
                return
        require(False, f"nothing comes of some VM: {told(rates_kbps(samples), 'kb/s')}")

    def _samples(self, seconds: float) -> List[Sample]:
        """Return the samples of some seconds from now on."""
        return self._samples_while(["true"], seconds)

    def _samples_while(self, argv: List[str], seconds: float, timeout_s: float = 300) -> List[Sample]:
        """Run a command on the machine; return the samples from then until some seconds after it ended."""
        start = int(self.guest.run(["wc", "-l", "/run/count"]).split()[0])
        self.guest.run(argv, timeout_s=timeout_s)
        time.sleep(seconds)
        lines = self.guest.run(["tail", "-n", f"+{start}", "/run/count"]).splitlines()
        return [sample(line) for line in lines[:-1]]


def sample(line: str) -> Sample:
    """Return what a line of traffic.py's count says."""
    read = json.loads(line)
    return Sample(read["t"], {VMS[address]: count for address, count in read["bytes"].items()})
