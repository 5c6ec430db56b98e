# SPDX-License-Identifier: Apache-2.0
"""Maintainer scripts and DKMS' hooks, run with stubs of all that they call, each of which may fail.

Paths of the system are replaced by those of a folder. What a script calls that has no stub is not found, and the test
says so.
"""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

import pytest

from sdngcc.node import boot, record
from sdngcc.testbed.build import ROOT
from sdngcc.testbed.packages.build import configure
from sdngcc.testbed.packages.roots import RELEASES

# What a script calls. Those of REAL do what they do, the others write down their arguments and answer as Harness.says
# has it.
REAL = ("awk", "cat", "find", "grep", "mkdir", "mv", "sed", "sort", "tail", "tr")
STUBS = ("adduser", "apt-cache", "chgrp", "chmod", "dkms", "dpkg", "dpkg-query", "genl", "id", "install", "ischroot",
         "modprobe", "ovs-appctl", "ovs-vsctl", "py3clean", "py3compile", "python3", "readlink", "rm", "rmdir", "rmmod",
         "sleep", "systemctl", "uname")
# Programs called by their paths.
PATHS = ("/usr/lib/sdngcc-dkms/build", "/usr/lib/sdngcc-dkms/check",
         "/usr/lib/openvswitch-sdngcc-dkms/build", "/usr/lib/openvswitch-sdngcc-dkms/check")
# Without these the service cannot run: configuration ends with a sentence, and apt tries again.
NEEDED = {"sdngcc-controller.postinst": ("adduser", "install", "python3", "chgrp", "chmod"),
          "sdngcc-tracker.postinst": ("adduser", "install")}

OWN = "pid:[4026531836]"


class Ran(NamedTuple):
    """How a script ended."""

    status: int
    output: str
    calls: List[str]


class Harness:
    """A folder with stubs in place of what scripts call."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs = folder / "programs"
        self.programs.mkdir(parents=True)
        self.log = folder / "calls"
        self.says: Dict[str, str] = {"uname": "6.1.0-1-amd64", "readlink": OWN, "python3": "00", "id": "942"}
        self.fails: Dict[str, int] = {"ischroot": 1}
        for name in ("sys/module/sdngcc", "lib/modules/6.1.0-1-amd64/build/include", "etc/sdn-gcc", "boot"):
            (folder / name).mkdir(parents=True)

    def run(self, script: str, *argv: str) -> Ran:
        """Run the text of a script."""
        self.log.write_text("")
        self.make_stubs()
        program = self.folder / "script"
        program.write_text(self.moved(script))
        done = subprocess.run(["/bin/sh", str(program), *argv], env={"PATH": str(self.programs)}, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        assert "not found" not in done.stdout, done.stdout
        return Ran(done.returncode, done.stdout, self.log.read_text().splitlines())

    def moved(self, text: str) -> str:
        """Return a text with the system's paths below the folder."""
        folders = "sys|lib|usr/lib|usr/src|usr/share|var/lib|etc|boot|run"
        return re.sub(rf"(?<![\w.*}}])/({folders})/", rf"{self.folder}/\1/", text)

    def make_stubs(self) -> None:
        """Write the programs that scripts find."""
        for name in REAL:
            real = shutil.which(name)
            assert real is not None
            self._write(self.programs / name, f'exec {real} "$@"', name)
        for name in STUBS:
            self._write(self.programs / name, f"echo '{self.says[name]}'" if name in self.says else ":", name)
        for path in PATHS:
            (self.folder / path[1:]).parent.mkdir(parents=True, exist_ok=True)
            self._write(self.folder / path[1:], ":", path)

    def _write(self, program: Path, does: str, name: str) -> None:
        status = self.fails.get(name, 0)
        does = f"exit {status}" if status and name != "ischroot" else f"{does}\nexit {status}"
        program.write_text(f'#!/bin/sh\necho "{name} $*" >>{self.log}\n{does}\n')
        program.chmod(0o755)


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Dict[str, str]:
    """Return all maintainer scripts of all packages by name, as they come into a package."""
    target = tmp_path_factory.mktemp("source")
    (target / "debian").mkdir()
    for path in (ROOT / "packaging" / "debian").glob("*.p*"):
        shutil.copy(path, target / "debian")
    configure(target, RELEASES["bookworm"])
    return {path.name: path.read_text().replace("#MODULE_VERSION#", "1.0")
            for path in sorted((target / "debian").iterdir())
            if path.suffix in (".postinst", ".preinst", ".prerm", ".postrm", ".build", ".check", ".kernel-hook")}


def asked(name: str) -> Iterator[Tuple[str, ...]]:
    """Yield the arguments that dpkg gives a script."""
    yield from {"postinst": [("configure", ""), ("configure", "0.9"), ("abort-upgrade", "0.9")],
                "prerm": [("remove",), ("upgrade", "1.1"), ("deconfigure",)],
                "postrm": [("remove",), ("purge",), ("upgrade", "1.1")]}[name.rpartition(".")[2]]


MAINTAINERS = [path.name for folder in ("debian", "dkms") for path in sorted((ROOT / "packaging" / folder).glob("*.p*"))
               if path.suffix in (".postinst", ".preinst", ".prerm", ".postrm")]


def text_of(scripts: Dict[str, str], name: str) -> str:
    """Return the script that a file of packaging/ becomes."""
    return scripts.get(name) or scripts[name.replace(".p", "-dkms.p")]


@pytest.mark.parametrize("name", MAINTAINERS)
@pytest.mark.parametrize("place", ["machine", "chroot", "container", "unknown"])
def test_no_script_fails_whatever_fails_that_it_calls(name: str, place: str, scripts: Dict[str, str],
                                                      tmp_path: Path) -> None:
    text = text_of(scripts, name)
    for number, argv in enumerate(asked(name)):
        for broken in (None, *(one for one in (*STUBS, *REAL, *PATHS) if one in text)):
            harness = Harness(tmp_path / f"{number}-{str(broken).replace('/', '-')}")
            harness.fails["ischroot"] = {"chroot": 0, "unknown": 2}.get(place, 1)
            harness.says["readlink"] = "pid:[4026532000]" if place == "container" else OWN
            if broken is not None and broken != "ischroot":
                harness.fails[broken] = 5
            ran = harness.run(text, *argv)
            needed = argv[0] == "configure" and broken in NEEDED.get(name, ())
            if broken == "adduser" and needed:
                harness.fails["id"] = 1  # nor is the account there
                ran = harness.run(text, *argv)
            if needed and broken in ("python3", "chgrp", "chmod"):
                needed = argv[1] == ""  # the key is made once
            if needed or (broken == "mv" and name == "sdngcc-controller.postinst" and argv == ("configure", "")):
                assert ran.status == 1 and "cannot be made" in ran.output, f"{argv}, {broken} fails: {ran}"
                assert broken == "adduser" or not (harness.folder / "etc/sdn-gcc/key").exists()
            else:
                assert ran.status == 0, f"{argv}, {broken} fails: {ran}"
            if place != "machine":
                assert not [call for call in ran.calls if call.startswith(("rmmod", "modprobe"))], ran


def test_the_module_that_is_in_use_is_asked_thrice_and_stays(scripts: Dict[str, str], tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    harness.fails["rmmod"] = 1
    ran = harness.run(scripts["sdngcc-dkms.postinst"], "configure", "0.9")
    assert ran.status == 0 and "in use" in ran.output
    assert ran.calls.count("rmmod sdngcc") == 3 and "modprobe sdngcc" not in ran.calls
    harness.fails.clear()
    harness.fails["ischroot"] = 1
    ran = harness.run(scripts["sdngcc-dkms.postinst"], "configure", "0.9")
    assert [call for call in ran.calls if "mod" in call.split()[0]] == ["rmmod sdngcc", "modprobe sdngcc"]


def test_a_key_that_was_half_made_is_made_again(scripts: Dict[str, str], tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    harness.fails["chgrp"] = 1
    assert harness.run(scripts["sdngcc-controller.postinst"], "configure", "").status == 1
    harness.fails.pop("chgrp")
    assert harness.run(scripts["sdngcc-controller.postinst"], "configure", "").status == 0
    assert (tmp_path / "etc/sdn-gcc/key").read_text() == "00\n"


def test_removing_the_program_tells_of_a_node_that_is_set_up(scripts: Dict[str, str], tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    script = scripts["sdngcc-common.prerm"]
    assert "set up" not in harness.run(script, "remove").output
    (tmp_path / "var/lib/sdngcc-node").mkdir(parents=True)
    (tmp_path / record.FILE[1:]).write_text("{}")
    assert "`sdngcc node setup --undo`" in harness.run(script, "remove").output
    assert "set up" not in harness.run(script, "upgrade", "1.1").output


def test_purging_the_program_takes_what_a_set_up_wrote(scripts: Dict[str, str], tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    for argv in (("remove",), ("upgrade", "1.1")):
        assert harness.run(scripts["sdngcc-common.postrm"], *argv).calls == []
    removed, _, folder, reloaded = harness.run(scripts["sdngcc-common.postrm"], "purge").calls
    assert all(f"{tmp_path}{name}" in removed for name in (boot.UNIT_FILE, boot.RULES_FILE))
    assert folder == f"rm -rf {tmp_path}{record.FOLDER}" and reloaded == "systemctl daemon-reload"


@pytest.mark.parametrize("purged", ["sdngcc-controller.postrm", "sdngcc-tracker.postrm"])
def test_purging_a_service_leaves_the_record_of_the_set_up(purged: str, scripts: Dict[str, str]) -> None:
    words = [word for line in scripts[purged].splitlines() if line.strip().startswith("rm ") for word in line.split()]
    assert words and not any(record.FILE.startswith(word.rstrip("*/") + "/") for word in words if word[0] == "/")


@pytest.mark.parametrize("package", ["sdngcc-dkms", "openvswitch-sdngcc-dkms"])
def test_a_kernel_is_installed_whether_the_module_is_built_or_not(package: str, scripts: Dict[str, str],
                                                                  tmp_path: Path) -> None:
    source = package.removesuffix("-dkms")
    for broken in (None, *(one for one in (*STUBS, *REAL, *PATHS) if one in scripts[f"{package}.build"])):
        harness = Harness(tmp_path / str(broken).replace("/", "-"))
        (harness.folder / "usr/src" / f"{source}-1.0").mkdir(parents=True)
        (harness.folder / "usr/src" / f"{source}-1.0" / "dkms.conf").touch()
        if broken is not None:
            harness.fails[broken] = 10
        hook = harness.run(scripts[f"{package}.kernel-hook"], "6.1.0-1-amd64")
        assert hook.status == 0, f"{broken} fails: {hook}"
        for argv in (("6.1.0-1-amd64",), ("9.9.9",), ("--first", "1.0")):
            ran = harness.run(scripts[f"{package}.build"], *argv)
            assert ran.status == 0, f"{argv}, {broken} fails: {ran}"
            if argv == ("6.1.0-1-amd64",) and broken in (None, "dkms"):
                assert f"dkms install -m {source} -v 1.0 -k 6.1.0-1-amd64" in ran.calls
                assert ("not limited" in ran.output) == (broken == "dkms")
            if argv == ("9.9.9",) and broken is None:
                assert "linux-headers-9.9.9" in ran.output and "not limited" in ran.output
            if argv[0] == "--first" and broken in (None, "dkms"):
                wanted = [f"dkms add -m {source} -v 1.0", f"dkms install -m {source} -v 1.0 -k 6.1.0-1-amd64"]
                assert [call for call in ran.calls if "status" not in call and call.startswith("dkms")] == wanted
                assert ("not limited" in ran.output) == (broken == "dkms")


def test_the_kernels_that_a_package_builds_for(scripts: Dict[str, str], tmp_path: Path) -> None:
    """The one that runs and the newest; in a chroot, where another one runs, all that have headers."""
    for running, wanted in (("6.1.0-1-amd64", {"6.1.0-1-amd64", "6.1.0-10-amd64"}),
                            ("5.4.0", {"6.1.0-1-amd64", "6.1.0-9-amd64", "6.1.0-10-amd64"})):
        harness = Harness(tmp_path / running)
        harness.says["uname"] = running
        for name in ("6.1.0-9-amd64", "6.1.0-10-amd64"):
            (harness.folder / "lib/modules" / name / "build/include").mkdir(parents=True)
        (harness.folder / "lib/modules/6.1.0-11-amd64").mkdir()  # no headers
        ran = harness.run(scripts["sdngcc-dkms.build"], "--first", "1.0")
        assert {call.rpartition(" ")[2] for call in ran.calls if " install " in call} == wanted
        (harness.folder / "etc/dkms").mkdir(parents=True)
        (harness.folder / "etc/dkms/no-autoinstall").touch()
        for argv in (("--first", "1.0"), ("6.1.0-1-amd64",)):
            ran = harness.run(scripts["sdngcc-dkms.build"], *argv)
            assert ran.status == 0 and not [call for call in ran.calls if " install " in call]


class Check:
    """A node that the alarm's program looks at: real programs of Open vSwitch' database, the others stubs."""

    def __init__(self, harness: Harness, script: str) -> None:
        self.harness = harness
        self.script = script
        self.database: Dict[str, str] = {}  # what ovs-vsctl answers, by its arguments behind the options

    def run(self, *argv: str, lives: bool = True, ours: bool = True) -> Ran:
        """Run it; lives: ovs-vswitchd runs, ours: with the shim."""
        harness = self.harness
        harness.make_stubs()
        cases = "".join(f"*' {key}') printf '%s\\n' '{value}';;\n" for key, value in self.database.items())
        for name, body in {
            "ovs-vsctl": f"case \" $*\" in\n{cases}esac\nexit 0",
            "ovs-appctl": f"case \"$*\" in *shim/show) exit {int(not (lives and ours))};; esac\nexit {int(not lives)}",
        }.items():
            (harness.programs / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{harness.log}\n{body}\n')
            (harness.programs / name).chmod(0o755)
        harness.log.write_text("")
        program = harness.folder / "script"
        program.write_text(harness.moved(self.script))
        done = subprocess.run(["/bin/sh", str(program), *argv], env={"PATH": str(harness.programs)}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        assert "not found" not in done.stdout, done.stdout
        return Ran(done.returncode, done.stdout, harness.log.read_text().splitlines())


@pytest.fixture
def node(scripts: Dict[str, str], tmp_path: Path) -> Check:
    """Return a node with a law, one VM, the module for the kernel that runs, and the shim's family."""
    harness = Harness(tmp_path)
    module = tmp_path / "lib/modules/6.1.0-1-amd64/updates/dkms/sdngcc.ko.xz"
    module.parent.mkdir(parents=True)
    module.touch()
    check = Check(harness, scripts["sdngcc-dkms.check"])
    check.database = {"get Open_vSwitch . _uuid": "1", "get Open_vSwitch . other_config:shim-law": '"sdngcc"',
                      "find Interface other_config:shim-role=vm": "tap0", "find Bridge datapath_type!=netdev": "2"}
    return check


def alarm(ran: Ran) -> Optional[str]:
    """Return the alarm that was written into the database, None when there was none."""
    found = [re.search(r'set Open_vSwitch \. external_ids:sdngcc-error="(.*)"$', call) for call in ran.calls]
    return next((match[1] for match in found if match), None)


def test_a_node_that_limits_takes_the_alarm_back(node: Check) -> None:
    ran = node.run()
    assert ran.status == 0 and alarm(ran) is None and not ran.output
    assert any(call.endswith("remove Open_vSwitch . external_ids sdngcc-error") for call in ran.calls)


def test_a_kernel_without_the_module_is_an_alarm(node: Check, tmp_path: Path) -> None:
    node.harness.fails["genl"] = 255
    ran = node.run()
    assert ran.status == 1 and "6.1.0-1-amd64 is not loaded" in (alarm(ran) or "")
    (tmp_path / "lib/modules/6.1.0-1-amd64/updates/dkms/sdngcc.ko.xz").unlink()
    ran = node.run()
    assert ran.status == 1 and "there is no shim's module for it" in (alarm(ran) or "") and alarm(ran) in ran.output


def test_a_kernel_that_starts_next_without_the_module_is_an_alarm(node: Check, tmp_path: Path) -> None:
    for name in ("vmlinuz-6.1.0-1-amd64", "vmlinuz-6.1.0-9-amd64", "vmlinuz-6.1.0-10-amd64", "vmlinuz-5.10.0-1-amd64"):
        (tmp_path / "boot" / name).touch()
    ran = node.run()
    assert ran.status == 1 and "Linux 6.1.0-10-amd64 starts next" in (alarm(ran) or "")
    module = tmp_path / "lib/modules/6.1.0-10-amd64/updates/dkms/sdngcc.ko"
    module.parent.mkdir(parents=True)
    module.touch()
    assert node.run().status == 0


def test_another_ovs_vswitchd_is_an_alarm_of_each_vm(node: Check) -> None:
    ran = node.run(ours=False)
    assert ran.status == 1 and "ovs-vswitchd" in (alarm(ran) or "")
    assert any(f'set Interface tap0 status:shim-error="{alarm(ran)}"' in call for call in ran.calls)
    assert node.run(lives=False).status == 0  # systemd tells that it does not run


@pytest.mark.parametrize("law", ["", "none", "default"])
def test_without_a_law_there_is_no_alarm(node: Check, law: str) -> None:
    node.harness.fails["genl"] = 255
    node.database["get Open_vSwitch . other_config:shim-law"] = law
    assert node.run(ours=False).status == 0
    for table, column in (("Interface", "other_config"), ("Interface", "external_ids"), ("Port", "other_config")):
        node.database[f'find {table} {column}:shim-law!=""'] = f"a=b shim-law={law or 'none'}"
        assert node.run().status == 0
        node.database[f'find {table} {column}:shim-law!=""'] = "a=b shim-law=maxmin"
        assert node.run().status == 1
        del node.database[f'find {table} {column}:shim-law!=""']


def test_an_update_of_debians_open_vswitch_is_an_alarm(node: Check, tmp_path: Path) -> None:
    installed, newest = node.harness.says, " openvswitch-switch | {} | http://deb.example bookworm-security/main"
    (tmp_path / "run").mkdir()
    for version, offered, told in (("3.1.0-2+deb12u1+~sdngcc1", "3.1.0-2+deb12u2", True),
                                   ("3.1.0-2+deb12u1", "3.1.0-2+deb12u2", False)):
        installed["dpkg-query"], installed["apt-cache"] = version, newest.format(offered)
        shutil.rmtree(tmp_path / "run/sdngcc-check", ignore_errors=True)
        ran = node.run()
        assert (ran.status, (alarm(ran) or "").startswith(f"Debian has Open vSwitch {offered}")) == (int(told), told)
        assert sum(call.startswith("apt-cache") for call in ran.calls) == 1
        # The answer is kept for an hour.
        ran = node.run()
        assert (ran.status, sum(call.startswith("apt-cache") for call in ran.calls)) == (int(told), 0)
    installed["dpkg-query"] = "3.1.0-2+deb12u1+~sdngcc1"
    node.harness.fails["dpkg"] = 1  # of --compare-versions: it is not newer
    shutil.rmtree(tmp_path / "run/sdngcc-check")
    assert node.run().status == 0


def test_bridges_of_the_user_space_datapath_alone_need_no_module(node: Check) -> None:
    node.harness.fails["genl"] = 255
    del node.database["find Bridge datapath_type!=netdev"]
    assert node.run().status == 0


def test_removing_the_package_takes_the_alarm_back(node: Check) -> None:
    node.harness.fails["genl"] = 255
    ran = node.run("--clear")
    assert ran.status == 0 and any("remove Open_vSwitch . external_ids sdngcc-error" in call for call in ran.calls)
