# SPDX-License-Identifier: Apache-2.0
"""What packages are made of: versions, settings, manual pages, lists of Python packages; the packages for a release."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest
import yaml

from sdngcc import __version__
from sdngcc.controller import settings as controller
from sdngcc.main import COMMANDS
from sdngcc.testbed.build import ROOT
from sdngcc.testbed.packages import container, defaults, fresh, layout, manual, roots, version
from sdngcc.testbed.packages.build import MODULES, configure, control, modules, series
from sdngcc.testbed.packages.check import differences, later, newer, snapshot
from sdngcc.testbed.packages.roots import RELEASES, missing_programs
from sdngcc.testbed.packages.stock import check as stock
from sdngcc.testbed.packages.vendored import constraints, debian, names, requirements
from sdngcc.tracker.settings import load as load_tracker

CHANGELOG = """# Changes

## 1.2.0

- One thing that is
  told on two lines.
- Another.

## 1.1.0

- Old.
"""


def git(folder: Path, *argv: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, "-C", str(folder), *argv], check=True, capture_output=True,
                   env={**os.environ, "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z"})


def lower(one: str, other: str) -> bool:
    """Return whether Debian sorts a version below another."""
    return subprocess.run(["dpkg", "--compare-versions", one, "lt", other]).returncode == 0


def test_versions_come_from_the_tag_and_the_changelog(tmp_path: Path) -> None:
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "x")
    before = version.tree_version(tmp_path)
    assert re.fullmatch(r"1\.2\.0~git1767323045\.[0-9a-f]{8}", before.upstream) and before.time_s == 1767323045
    assert before.changes == ["One thing that is told on two lines.", "Another."]
    (tmp_path / "more").touch()
    changed = version.tree_version(tmp_path)
    assert changed.upstream == before.upstream + ".x"
    (tmp_path / "more").unlink()
    git(tmp_path, "tag", "v1.2.0")
    after = version.tree_version(tmp_path)
    assert after.upstream == "1.2.0"
    twelve, thirteen = RELEASES["bookworm"], RELEASES["trixie"]
    order = ["1.1.0+deb13", before.debian(twelve), changed.debian(twelve), after.debian(twelve), after.debian(thirteen),
             "1.2.1~git1767323046.00000000+deb12"]
    assert all(lower(one, other) for one, other in zip(order, order[1:]))
    text = after.changelog(twelve)
    assert text.startswith("sdn-gcc (1.2.0+deb12) bookworm; urgency=medium\n\n")
    assert "\n  * One thing that is told on two lines.\n" in text
    assert text.endswith("Fri, 02 Jan 2026 03:04:05 -0000\n")
    git(tmp_path, "tag", "-d", "v1.2.0")
    git(tmp_path, "tag", "v1.3.0")
    with pytest.raises(version.VersionError, match="v1.3.0, but CHANGELOG.md's newest version is 1.2.0"):
        version.tree_version(tmp_path)
    with pytest.raises(version.VersionError, match="no section of a version"):
        version.newest("# Changes\n")


def test_every_place_that_tells_the_version_tells_the_changelogs() -> None:
    newest = version.newest((ROOT / "CHANGELOG.md").read_text())
    assert newest == __version__
    assert f'version="{newest}"' in (ROOT / "setup.py").read_text()
    assert f'version = "{newest}"' in (ROOT / "openstack" / "pyproject.toml").read_text()


def test_settings_of_packages_are_what_the_programs_take(tmp_path: Path) -> None:
    defaults.write(tmp_path)
    key = tmp_path / "key"
    key.write_text("00" * 16)
    text = (tmp_path / "controller.yaml").read_text().replace(defaults.CONTROLLER["key_file"], str(key))
    (tmp_path / "controller.yaml").write_text(text)
    plain = controller.load(tmp_path / "controller.yaml", {})
    assert plain.audit_file == Path(defaults.CONTROLLER["audit_file"])
    assert (plain.forwarding, plain.mark_source) == ("none", "shim")
    # What is commented out is what is in force, and can be taken as it stands.
    (tmp_path / "controller.yaml").write_text(re.sub(r"^#(\w+:)", r"\1", text, flags=re.MULTILINE))
    assert controller.load(tmp_path / "controller.yaml", {}) == plain
    assert set(yaml.safe_load((tmp_path / "controller.yaml").read_text())) == set(controller.Settings.model_fields)
    tracker = load_tracker(tmp_path / "tracker.yaml", {})
    text = (tmp_path / "tracker.yaml").read_text()
    (tmp_path / "tracker.yaml").write_text(re.sub(r"^#(\w+:)", r"\1", text, flags=re.MULTILINE))
    assert load_tracker(tmp_path / "tracker.yaml", {}) == tracker


def test_manual_pages_tell_every_option(tmp_path: Path) -> None:
    made = {path.name: path.read_text() for path in manual.write(tmp_path, 0)}
    assert set(made) == {"sdngcc.1", *(f"sdngcc-{name}.1" for name in COMMANDS if name not in manual.LEFT_OUT)}
    listed = (ROOT / "packaging" / "debian" / "sdngcc-common.manpages").read_text()
    assert set(re.findall(r"sdngcc[\w-]*\.1", listed)) == set(made)
    assert "1970\\-01\\-01" not in made["sdngcc.1"] and '"1970-01-01"' in made["sdngcc.1"]
    assert "testbed" not in made["sdngcc.1"]
    for option in ("\\-\\-config", "\\-\\-framework", "\\-\\-check", "\\-\\-drain", "\\-\\-timeout"):
        assert f".B {option}" in made["sdngcc-controller.1"]
    assert ".SS set\n" in made["sdngcc-vm.1"] and ".B \\-\\-weight" in made["sdngcc-vm.1"]
    if shutil.which("groff"):
        for path in tmp_path.glob("*.1"):
            done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", str(path)], capture_output=True, text=True)
            assert not done.stderr, f"{path.name}: {done.stderr}"


def test_everything_that_runs_is_in_a_package_or_debians() -> None:
    text = (ROOT / "setup.py").read_text()
    wanted = set(re.findall(r'"([\w.-]+)"', re.search(r"RUNTIME = \(.*?\)", text, re.DOTALL)[0])) | {"openstacksdk"}
    # The testbed is in no package.
    assert {*names("common"), *names("controller"), *debian()} - {"ovs", "cryptography", "netaddr"} == \
        wanted - {"matplotlib"}
    assert all("==" in line for line in (*requirements("common"), *requirements("controller")))
    assert not {line.split("==")[0] for line in constraints()} & set(debian())
    for release in RELEASES.values():
        for package in debian().values():
            assert f" {package}," in control(release)
        built = {f"{name}-dkms" for name in modules(release)}
        assert built <= set(MODULES)
        assert all((f"\nPackage: {name}\n" in control(release)) == (name in built) for name in MODULES)


def test_dkms_builds_the_module_beside_for_every_kernel_and_the_patched_one_where_patches_are(tmp_path: Path) -> None:
    for release in RELEASES.values():
        (tmp_path / release.suite / "debian").mkdir(parents=True)
        configure(tmp_path / release.suite, release)
        for name in modules(release):
            text = (tmp_path / release.suite / "debian" / f"{name}-dkms.dkms").read_text()
            exclusive = re.search(r'^BUILD_EXCLUSIVE_KERNEL="(.*)"$', text, re.MULTILINE)
            if name == "sdngcc":
                assert exclusive is None
            else:
                assert exclusive is not None
                kernels = ("6.1", "6.12", "7.3", "6.8", "5.10", "7.30")
                tried = {one for one in kernels if re.match(exclusive[1], f"{one}.0-1-amd64")}
                assert tried == set(series()) and release.kernel in tried
            # `dkms autoinstall` fails, and the kernel's package with it, when such a module does.
            assert not re.search("^AUTOINSTALL", text, re.MULTILINE)


def test_python_is_laid_out_for_two_packages(tmp_path: Path) -> None:
    everything, vendor, target = tmp_path / "all", tmp_path / "vendor", tmp_path / "debian"
    for name in ("sdngcc/main.py", "sdngcc/commands/vm.py", "sdngcc/commands/testbed.py", "sdngcc/commands/simulate.py",
                 "sdngcc/testbed/build.py",
                 "sdngcc/topologies/a.py", "sdngcc/experiments/a.py", "sdngcc/controller/app.py",
                 "sdngcc/controller/systemd/a.service", "bin/sdngcc"):
        (everything / name).parent.mkdir(parents=True, exist_ok=True)
        (everything / name).touch()
    for name, text in {"common/click/core.py": "#!/usr/bin/env python\nx = 1\n", "common/click/tests/a.py": "",
                       "common/click-8.dist-info/METADATA": "Name: click\nVersion: 8\nLicense-Expression: MIT\n",
                       "controller/ryu/a.py": ""}.items():
        (vendor / name).parent.mkdir(parents=True, exist_ok=True)
        (vendor / name).write_text(text)
    layout.lay_out(everything, vendor, "3.11", target)
    site = "usr/lib/sdn-gcc/lib/python3.11/site-packages"

    def files(package: str) -> set:
        return {path.relative_to(target / package).as_posix() for path in (target / package).rglob("*")
                if path.is_file() or path.is_symlink()}

    assert files("sdngcc-common") == {
        "usr/bin/sdngcc", "usr/lib/sdn-gcc/bin/python3", "usr/lib/sdn-gcc/pyvenv.cfg", f"{site}/click/core.py",
        f"{site}/click-8.dist-info/METADATA", f"{site}/sdngcc/main.py", f"{site}/sdngcc/commands/vm.py",
        "usr/share/doc/sdngcc-common/python-packages.txt"}
    assert files("sdngcc-controller") == {f"{site}/ryu/a.py", f"{site}/sdngcc/controller/app.py",
                                          "usr/share/doc/sdngcc-controller/python-packages.txt"}
    assert (target / "sdngcc-common" / site / "click/core.py").read_text() == "##!/usr/bin/env python\nx = 1\n"
    assert (target / "sdngcc-common/usr/share/doc/sdngcc-common/python-packages.txt").read_text() == \
        "click 8: MIT\n"


def test_what_is_left_behind_is_seen(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "kept").write_text("a")
    (tmp_path / "etc" / "passwd").write_text("a")
    (tmp_path / "usr").mkdir()
    before = snapshot(tmp_path)
    assert not differences(before, snapshot(tmp_path))
    (tmp_path / "etc" / "kept").write_text("b")
    (tmp_path / "etc" / "passwd").write_text("b")
    (tmp_path / "usr" / "more").symlink_to("nowhere")
    (tmp_path / "usr").chmod(0o700)
    assert differences(before, snapshot(tmp_path)) == ["left behind: /usr/more", "changed: /etc/kept", "changed: /usr"]


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg is not installed")
def test_a_later_package_is_later_to_dpkg_and_to_dkms(tmp_path: Path) -> None:
    upstream = "1.2.0~git1767323045.01234567"
    tree = tmp_path / "made"
    texts = {"DEBIAN/control": f"Package: a-dkms\nVersion: {upstream}+deb12\nArchitecture: all\n"
                               f"Maintainer: a <a@b.example>\nDepends: b (= {upstream}+deb12)\nDescription: a\n",
             "DEBIAN/postinst": f"#!/bin/sh\nDKMS_VERSION={upstream}+deb12\n",
             "DEBIAN/prerm": f"#!/bin/sh\nV={upstream}+deb12\n",
             f"usr/src/a-{upstream}+deb12/dkms.conf": f'PACKAGE_VERSION="{upstream}+deb12"\n'}
    for name, text in texts.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    for name in ("", "postinst", "prerm"):
        (tree / "DEBIAN" / name).chmod(0o755)
    package = tmp_path / f"a-dkms_{upstream}+deb12_all.deb"
    subprocess.run(["dpkg-deb", "--build", "-Znone", str(tree), str(package)], check=True, capture_output=True)
    (tmp_path / "more").write_text("x")
    (tmp_path / "out").mkdir()
    made = later(package, tmp_path / "out", [(tmp_path / "more", "usr/share/a")])
    assert made.name == f"a-dkms_{upstream}.later+deb12_all.deb"
    assert lower(f"{upstream}+deb12", newer(f"{upstream}+deb12", f"{upstream}+deb12"))
    subprocess.run(["dpkg-deb", "--raw-extract", str(made), str(tmp_path / "read")], check=True)
    assert (tmp_path / "read" / "usr/share/a/more").read_text() == "x"
    for name, text in texts.items():
        assert (tmp_path / "read" / newer(name, f"{upstream}+deb12")).read_text() == newer(text, f"{upstream}+deb12")


def test_what_came_of_each_machine_is_reckoned() -> None:
    lines = [json.dumps({"t": t, "bytes": {"10.0.0.10": one, "10.0.0.13": three}}) for t, one, three in (
        (5, 0, 1000), (6, 0, 2250), (7.5, 250, 2250), (8, 500, 4750))]
    samples = [stock.sample(line) for line in lines]
    assert stock.rates_kbps(samples) == {"tap0": 500 * 8 / 1000 / 3, "tap3": 10.0}
    assert stock.stills_s(samples) == {"tap0": 2.5, "tap3": 2.0}


def test_readme_has_three_commands_for_a_real_machine() -> None:
    install, *settings = stock.commands((ROOT / "README.md").read_text())
    assert len(settings) == 2 and install.startswith("apt install ")
    for name in (*stock.OURS, *stock.OPEN_VSWITCH):
        assert name.removeprefix("sdngcc-") in install
    assert all(name in settings[0] for name in stock.VMS.values())


def test_roots_side_by_side_have_a_folder_for_apt_each_and_keep_what_either_fetched(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roots, "packages_cache", lambda: tmp_path)
    release = RELEASES["trixie"]
    with roots._archives(release) as one, roots._archives(release) as other:
        assert one != other
        for folder in (one, other):
            (folder / "same.deb").write_text("same")
            (folder / "lock").touch()
        (one / "one.deb").write_text("one")
    with roots._archives(release) as third:
        assert sorted(path.name for path in third.iterdir()) == ["one.deb", "same.deb"]
    assert [path.name for path in tmp_path.iterdir()] == ["archives-trixie"]


def test_what_a_fresh_root_is_told_is_readmes_two_commands() -> None:
    section = (ROOT / "README.md").read_text().split("## Two commands")[1].split("```")[1]
    assert [line.split()[:2] for line in section.strip().splitlines()] == [["make", name] for name in fresh.COMMANDS]


def test_scripts_are_what_sh_takes() -> None:
    for path in [*(ROOT / "packaging" / "dkms").iterdir(),
                 *(ROOT / "packaging" / "debian").glob("*.p*"), ROOT / "packaging" / "openvswitch" / "prepare.sh",
                 Path(stock.__file__).parent / "scene.sh"]:
        if path.read_text().startswith("#!/bin/sh"):
            subprocess.run(["sh", "-n", str(path)], check=True)


def engine_files() -> List[Path]:
    """Return the files of the engine that Open vSwitch is built with."""
    core = [path for path in (ROOT / "shim" / "core").rglob("*") if path.is_file()]
    return [*core, *(ROOT / "shim" / "user" / name for name in ("list.h", "memory.h"))]


def test_series_is_added_to_debians_source_package(tmp_path: Path) -> None:
    script = ROOT / "packaging" / "openvswitch" / "prepare.sh"
    patches = tmp_path / "debian" / "patches"
    patches.mkdir(parents=True)
    (patches / "series").write_text("debians.patch\n")
    (tmp_path / "debian" / "openvswitch-common.install").write_text("usr/bin/ovs-vsctl\n")
    entry = ("openvswitch (3.1.0-2+deb12u1) bookworm; urgency=medium\n\n  * One.\n\n"
             " -- Somebody <somebody@sdn-gcc.example>  Fri, 02 Jan 2026 03:04:05 +0000\n")
    (tmp_path / "debian" / "changelog").write_text(entry)
    when = {**os.environ, "SOURCE_DATE_EPOCH": "1767323045"}
    done = subprocess.run(["sh", str(script), str(tmp_path)], capture_output=True, text=True, check=True, env=when)
    assert "openvswitch 3.1.0-2+deb12u1+~sdngcc1" in done.stdout
    text = (tmp_path / "debian" / "changelog").read_text()
    assert text.startswith("openvswitch (3.1.0-2+deb12u1+~sdngcc1) bookworm;") and text.endswith(entry)
    ours = [line for line in (ROOT / "ovs-patches/ovs/3.1/series").read_text().splitlines() if not line.startswith("#")]
    install = (tmp_path / "debian" / "openvswitch-common.install").read_text()
    assert install == "usr/bin/ovs-vsctl\ndebian/sdngcc-openvswitch.pref etc/apt/preferences.d\n"
    assert (tmp_path / "debian" / "sdngcc-openvswitch.pref").exists()
    series = (patches / "series").read_text().split()
    assert series == ["debians.patch", "sdngcc/0000-add-the-files-of-sdn-gcc.patch", *(f"sdngcc/{one}" for one in ours)]
    # As dpkg-source applies it; what comes of it are the files themselves.
    tree = tmp_path / "tree"
    tree.mkdir()
    apply = ["patch", "-t", "-F", "0", "-N", "-p1", "-u", "-s", "-i", str(patches / series[1])]
    subprocess.run(apply, cwd=tree, check=True)
    files = ROOT / "ovs-patches" / "ovs" / "files"
    made = {path.relative_to(tree): path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    wanted = {path.relative_to(files): path.read_bytes() for path in files.rglob("*") if path.is_file()}
    engine = {Path("lib") / path.relative_to(ROOT): path.read_bytes() for path in engine_files()}
    uapi = {Path("include/linux/ovs_shim.h"): (ROOT / "shim/kernel/uapi/ovs_shim.h").read_bytes()}
    assert made == {**wanted, **engine, **uapi}
    assert subprocess.run(["sh", str(script), str(tmp_path)], capture_output=True).returncode == 1
    (tmp_path / "debian" / "changelog").write_text(entry.replace("3.1.0", "2.17.0"))
    done = subprocess.run(["sh", str(script), str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 1 and "no series for Open vSwitch 2.17.0" in done.stderr


@pytest.mark.parametrize("base, update", [("3.1.0-2+deb12u1", "3.1.0-2+deb12u2"), ("3.5.0-1", "3.5.0-1+deb13u1"),
                                          ("3.5.0-1", "3.5.0-1+b1"), ("3.5.0-1", "3.5.0-2"), ("3.5.0-1", "3.5.1-1")])
def test_our_open_vswitch_sorts_behind_its_base_and_before_each_update_of_it(base: str, update: str) -> None:
    text = (ROOT / "packaging" / "openvswitch" / "prepare.sh").read_text()
    suffix = re.search(r"printf 'openvswitch \(%s(\S+)\) ", text)
    assert suffix is not None
    ours = base + suffix[1]
    assert lower(base, ours) and lower(ours, update)
    later = ours.replace("sdngcc1", "sdngcc2")
    assert lower(ours, later) and lower(later, update)


@pytest.mark.skipif(shutil.which("apt-cache") is None, reason="apt is not installed")
def test_apt_keeps_our_open_vswitch_where_debian_has_a_newer_one(tmp_path: Path) -> None:
    """Ours is installed, a repository has both: the newer one is the candidate, and with the preferences ours."""
    ours, update = "3.5.0-1+~sdngcc1", "3.5.0-1+deb13u1"

    def stanza(version: str, state: str = "") -> str:
        return (f"Package: openvswitch-switch\n{state}Version: {version}\nArchitecture: all\n"
                f"Maintainer: a <a@b.example>\nFilename: ./a_{version}.deb\nSize: 1\nDescription: a\n\n")

    (tmp_path / "Packages").write_text(stanza(ours) + stanza(update))
    (tmp_path / "status").write_text(stanza(ours, "Status: install ok installed\n"))
    (tmp_path / "sources.list").write_text(f"deb [trusted=yes] file:{tmp_path} ./\n")
    for name in ("lists/partial", "cache/archives/partial", "preferences.d", "empty"):
        (tmp_path / name).mkdir(parents=True)
    options = [f"Dir::State::status={tmp_path}/status", f"Dir::State::lists={tmp_path}/lists",
               f"Dir::Cache={tmp_path}/cache", f"Dir::Etc::sourcelist={tmp_path}/sources.list",
               f"Dir::Etc::sourceparts={tmp_path}/empty", "Dir::Etc::preferences=/dev/null", "APT::Sandbox::User=root",
               f"Dir::Etc::preferencesparts={tmp_path}/preferences.d"]
    told = [word for option in options for word in ("-o", option)]
    subprocess.run(["apt-get", *told, "update"], check=True, capture_output=True)

    def candidate() -> str:
        done = subprocess.run(["apt-cache", *told, "policy", "openvswitch-switch"], text=True, capture_output=True,
                              env={**os.environ, "LC_ALL": "C"}, check=True)
        return re.findall(r"Candidate: (\S+)", done.stdout)[0]

    assert candidate() == update
    shutil.copy(ROOT / "packaging" / "openvswitch" / "sdngcc-openvswitch.pref", tmp_path / "preferences.d")
    assert candidate() == ours


def test_the_containers_user_is_one_of_a_systems() -> None:
    """adduser --system of the package's script takes an account that is there with such a number alone."""
    numbers = re.findall(r"--[gu]id (\d+)", container.DEFINITION.read_text())
    assert len(numbers) == 2 and len(set(numbers)) == 1 and 100 <= int(numbers[0]) <= 999


@pytest.mark.release
@pytest.mark.timeout(7200)
@pytest.mark.skipif(os.environ.get("SDNGCC_RELEASE") != "1", reason="only a release needs it: SDNGCC_RELEASE=1")
@pytest.mark.skipif(bool(missing_programs()), reason="; ".join(missing_programs()))
@pytest.mark.parametrize("release", ["bookworm"])
def test_packages_install_run_upgrade_and_go(release: str, tmp_path: Path) -> None:
    for what in ("build", "check", *([] if container.missing() else ["container"])):
        subprocess.run([sys.executable, "-m", "sdngcc.testbed.packages", what, "--releases", release, "--out",
                        str(tmp_path)], check=True)
