# SPDX-License-Identifier: Apache-2.0
"""The series for versions of Open vSwitch, and what fetches, builds and tries them, without building any."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sdngcc.testbed.build import ROOT, open_vswitch_files
from sdngcc.testbed.ovs import __main__ as command
from sdngcc.testbed.ovs.build import SUITES, Unavailable, build_version, given_tarball, version_parts
from sdngcc.testbed.ovs.check import CheckError, Passed, run_tests
from sdngcc.testbed.ovs.versions import PLAIN, VERSIONS
from sdngcc.testbed.parameters import ParameterError, parse_settings

PATCHES = ROOT / "ovs-patches"


@pytest.fixture(autouse=True)
def _no_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SDNGCC_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SDNGCC_OVS_SOURCES", raising=False)


def test_each_version_has_a_series_and_each_patch_is_in_its_folders_own():
    assert {path.parent.name for path in (PATCHES / "ovs").glob("*/series")} == set(VERSIONS)
    for path in (PATCHES / "ovs").glob("*/*.patch"):
        assert path.name in (path.parent / "series").read_text().splitlines()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_series_has_documents_and_tests(version):
    texts = [path.read_text() for path in open_vswitch_files(version) if path.suffix == ".patch"]
    changed = {name for text in texts for name in re.findall(r"^\+\+\+ b/(\S+)", text, re.MULTILINE)}
    assert {"NEWS", "vswitchd/vswitch.xml", "vswitchd/ovs-vswitchd.8.in", "utilities/ovs-ofctl.8.in",
            "tests/testsuite.at"} <= changed
    # What the Makefiles are told of is there, and all that is there they are told of.
    told, before = ({name for text in texts for name in
                     re.findall(rf"^{sign}\t(\S+\.(?:[ch]|at)) *\\?$", text, re.MULTILINE)} for sign in (r"\+", "-"))
    files, shim = PATCHES / "ovs" / "files", PATCHES.parent / "shim"
    there = {path.relative_to(files).as_posix() for path in files.rglob("*") if path.is_file()}
    engine = [*(path for path in (shim / "core").rglob("*") if path.is_file()),
              *(shim / "user" / name for name in ("list.h", "memory.h"))]
    assert told - before == there | {f"lib/{path.relative_to(shim.parent).as_posix()}" for path in engine}


def test_what_is_a_later_versions_own_is_no_others():
    for version in VERSIONS:
        folders = {path.parent.name for path in open_vswitch_files(version) if path.suffix == ".patch"}
        assert folders == {PLAIN, version}


def _source(folder: Path, version: str) -> Path:
    """Make what build.sh takes for a source of Open vSwitch."""
    (folder / "vswitchd").mkdir(parents=True)
    (folder / "vswitchd" / "bridge.c").write_text("one\ntwo\nthree\nfour\nfive\nsix\nseven\n")
    (folder / "configure.ac").write_text(f"AC_INIT(openvswitch, {version}, bugs@sdn-gcc.example)\n")
    return folder


def _build(script: Path, tree: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["sh", str(script), "ovs", str(tree)], capture_output=True, text=True, check=False)


def test_a_version_without_a_series_is_refused_by_name(tmp_path):
    done = _build(PATCHES / "build.sh", _source(tmp_path / "source", "3.2.1"))
    assert done.returncode == 1
    assert f"no series for Open vSwitch 3.2; there are those for {' '.join(VERSIONS)}" in done.stderr


@pytest.mark.parametrize(("context", "fits"), [("three", True), ("other", False)])
def test_a_patch_that_needs_fuzz_is_refused(tmp_path, context, fits):
    patches = tmp_path / "root" / "ovs-patches"
    (patches / "ovs" / "3.5").mkdir(parents=True)
    (patches / "ovs" / "files").mkdir()
    uapi = tmp_path / "root" / "shim" / "kernel" / "uapi"
    uapi.mkdir(parents=True)
    (uapi / "ovs_shim.h").write_text("")
    shutil.copy(PATCHES / "build.sh", patches)
    (patches / "ovs" / "3.5" / "series").write_text("one.patch\n")
    (patches / "ovs" / "3.5" / "one.patch").write_text(
        f"--- a/vswitchd/bridge.c\n+++ b/vswitchd/bridge.c\n@@ -3,5 +3,6 @@\n {context}\n four\n+new\n five\n six\n"
        " seven\n")
    tree = _source(tmp_path / "source", "3.5.2")
    done = _build(patches / "build.sh", tree)
    assert (done.returncode == 0) is fits
    assert ("new\n" in (tree / "vswitchd" / "bridge.c").read_text()) is fits


@pytest.mark.parametrize(("version", "series"), [("3.5.0-1", "3.5"), ("4.0.0-2", "4.0"), ("3.3.0-1", "3.3")])
def test_debians_source_package_gets_its_versions_series(tmp_path, version, series):
    debian = tmp_path / "debian"
    (debian / "patches").mkdir(parents=True)
    (debian / "changelog").write_text(
        f"openvswitch ({version}) unstable; urgency=medium\n\n  * One.\n\n"
        " -- Somebody <somebody@sdn-gcc.example>  Fri, 02 Jan 2026 03:04:05 +0000\n")
    script = ROOT / "packaging" / "openvswitch" / "prepare.sh"
    subprocess.run(["sh", str(script), str(tmp_path)], capture_output=True, check=True)
    listed = [name.removeprefix("sdngcc/") for name in (debian / "patches" / "series").read_text().split()][1:]
    wanted = [path for path in open_vswitch_files(series) if path.suffix == ".patch"]
    assert listed == [path.name for path in wanted]
    for path in wanted:
        assert (debian / "patches" / "sdngcc" / path.name).read_bytes() == path.read_bytes()


def test_the_newest_tarball_of_a_version_is_taken(tmp_path, monkeypatch):
    assert given_tarball("3.3") is None
    monkeypatch.setenv("SDNGCC_OVS_SOURCES", str(tmp_path))
    assert given_tarball("3.3") is None
    for name in ("openvswitch-3.3.9.tar.gz", "openvswitch-3.3.10.tar.gz", "openvswitch-3.30.1.tar.gz"):
        (tmp_path / name).write_text(name)
    keys = {version: version_parts()[f"ovs{version}"].key for version in ("3.3", "3.5")}
    newest = given_tarball("3.3")
    assert newest is not None and newest.name == "openvswitch-3.3.10.tar.gz"
    newest.write_text("changed")
    assert version_parts()["ovs3.3"].key != keys["3.3"]
    assert version_parts()["ovs3.5"].key == keys["3.5"]


def test_what_no_suite_has_cannot_be_had_and_is_named():
    assert "3.3" not in SUITES
    with pytest.raises(Unavailable, match=r"Open vSwitch 3\.3 cannot be had here.*openvswitch-3\.3\.\*\.tar\.gz"):
        build_version("3.3")


def test_experiments_know_the_versions_and_refuse_others():
    assert parse_settings([], {}).ovs == PLAIN
    assert parse_settings(["ovs=4.0"], {}).ovs == "4.0"
    with pytest.raises(ParameterError, match=r"ovs='3\.2': Input should be '3\.1', '3\.3', '3\.5' or '4\.0'"):
        parse_settings(["ovs=3.2"], {})


def _tree(folder: Path, says: str, status: int) -> Path:
    """Make a tree whose `make check` says something and ends with a status."""
    folder.mkdir()
    (folder / "Makefile").write_text(f"check:\n\t@echo '$(TESTSUITEFLAGS)'; printf '{says}'; exit {status}\n")
    return folder


def test_own_tests_are_chosen_by_keyword_and_counted(tmp_path):
    tree = _tree(tmp_path / "source", "17 tests were successful.\\n2 tests were skipped.\\n", 0)
    assert run_tests(tree, ["shim", "ofproto"], tmp_path / "log") == Passed(17, 2)
    assert (tmp_path / "log").read_text().startswith("-j2 -k shim -k ofproto\n")


@pytest.mark.parametrize(("says", "status"), [("5: shim - one FAILED (ofproto-shim.at:3)\\n", 1),
                                              ("All 9 tests were successful.\\n", 1), ("0 tests\\n", 0)])
def test_own_tests_that_fail_or_do_not_run_are_told(tmp_path, says, status):
    with pytest.raises(CheckError, match=f"exit {2 if status else 0}"):
        run_tests(_tree(tmp_path / "source", says, status), ["shim"], tmp_path / "log")


def test_check_ovs_goes_on_past_what_cannot_be_had_or_fails(tmp_path, monkeypatch, capsys):
    def check(version, out, say, progress):
        if version == "3.3":
            raise Unavailable("3.3 cannot be had here")
        if version == "3.5":
            raise CheckError("its own tests")

    monkeypatch.setattr(command, "check", check)
    out = ["--out", str(tmp_path)]
    assert command.main(["--versions", "3.1,3.3", *out]) == 0
    told = capsys.readouterr().out
    assert "check-ovs: 3.3: skipped: 3.3 cannot be had here" in told and "check-ovs: pass: 3.1\n" in told
    assert command.main(["--versions", "3.5,4.0", *out]) == 1
    told = capsys.readouterr().out
    assert "check-ovs: 3.5: FAILED: its own tests" in told and "check-ovs: pass: 4.0\n" in told
    assert command.main(["--versions", "3.3", *out]) == 1
    with pytest.raises(SystemExit):
        command.main(["--versions", "3.2"])
    assert f"--versions 3.2: there are {', '.join(VERSIONS)}" in capsys.readouterr().err
