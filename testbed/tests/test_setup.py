# SPDX-License-Identifier: Apache-2.0
"""What setup.sh installs and what it unpacks: two lists, and no package with a service is installed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sdngcc.testbed.build import ROOT
from sdngcc.testbed.packages.roots import missing_programs

SCRIPT = ROOT / "testbed" / "setup.sh"

# Files by which a package has something started.
STARTS = re.compile(r"/lib/systemd/system/[^/]+\.(service|socket|timer|path)$|/etc/(init\.d|cron\.\w+)/[^/]+$",
                    re.MULTILINE)


def lists(wanted):
    """Return tools and programs of a list, as the script has them before it does anything."""
    head = SCRIPT.read_text().split("\nsay()")[0].replace('cd "$(dirname "${BASH_SOURCE[0]}")/.."\n', "")
    text = head + '\nprintf "%s\\n" "${tools[*]}" "${programs[*]}"\n'
    done = subprocess.run(["bash", "-c", text, "setup.sh", wanted], capture_output=True, text=True, check=True)
    return [line.split() for line in done.stdout.splitlines()]


def test_the_demos_lists_are_short_and_part_of_the_tests():
    tools, programs = lists("demo")
    all_tools, all_programs = lists("test")
    assert set(tools) < set(all_tools) and set(programs) < set(all_programs)
    assert len(tools) + len(programs) < 27
    assert not set(all_tools) & set(all_programs)
    assert set(lists("prove")[0]) > set(all_tools)
    done = subprocess.run(["bash", str(SCRIPT), "all"], capture_output=True, text=True)
    assert done.returncode == 2 and "there are demo, test and prove" in done.stderr


def test_no_package_that_is_installed_starts_anything():
    found = {}
    for package in lists("prove")[0]:
        listed = subprocess.run(["dpkg-query", "-L", package], capture_output=True, text=True).stdout
        found[package] = [match[0] for match in STARTS.finditer(listed)]
    assert not {package: files for package, files in found.items() if files}


def test_a_daemon_is_seen_as_one():
    assert STARTS.search("/usr/sbin/nginx\n/lib/systemd/system/nginx.service\n/usr/share/doc/nginx")
    assert STARTS.search("/usr/lib/systemd/system/memcached.service") and STARTS.search("/etc/init.d/redis-server")
    assert not STARTS.search("/usr/bin/gcc\n/usr/lib/gcc")


def link(unpacked):
    """Do to a folder of unpacked packages what the script does to it."""
    text = SCRIPT.read_text()
    functions = text[text.index("# Prints where the file is"):text.index("# Unpacks what is missing of the programs")]
    subprocess.run(["bash", "-euo", "pipefail", "-c", f"unpacked=$1\n{functions}\nlink_programs", "x", str(unpacked)],
                   check=True)


def test_starters_and_links_of_unpacked_programs(tmp_path):
    """A program that finds its libraries, one that does not, one in Python, and a name of a program with several."""
    for name in ("bin", "sbin", "usr/bin", "usr/share/doc"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "bin" / "several").write_text('#!/bin/sh\necho "${0##*/}"\n')
    (tmp_path / "sbin" / "insmod").symlink_to("/bin/several")
    (tmp_path / "usr/bin" / "near").symlink_to("../../bin/several")
    (tmp_path / "usr/bin" / "ovs-one").write_text('#!/bin/sh\necho "$OVS_PKGDATADIR ${0##*/}"\n')
    (tmp_path / "usr/bin" / "py").write_text("#!/usr/bin/python3\nimport module\nprint(module.X)\n")
    (tmp_path / "usr/bin" / "text").write_text("no program")
    (tmp_path / "usr/lib/python3/dist-packages").mkdir(parents=True)
    (tmp_path / "usr/lib/python3/dist-packages/module.py").write_text("X = 3\n")
    for name in ("bin/several", "usr/bin/ovs-one", "usr/bin/py"):
        (tmp_path / name).chmod(0o755)
    link(tmp_path)

    def said(name):
        done = subprocess.run([str(tmp_path / "links" / name)], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert (said("several"), said("insmod"), said("near")) == ("several", "insmod", "near")
    assert said("ovs-one") == f"{tmp_path}/usr/share/openvswitch ovs-one"
    assert said("py") == "3"
    assert not (tmp_path / "links" / "text").exists()


@pytest.mark.skipif(shutil.which("patchelf") is None, reason="patchelf is not installed: make setup")
def test_an_unpacked_extension_of_python_finds_unpacked_libraries_and_theirs(tmp_path):
    near, extensions = tmp_path / "usr/lib/x86_64-linux-gnu", tmp_path / "usr/lib/python3/dist-packages"
    below = []
    for folder, name in ((near, "libfar.so"), (near, "libnear.so"), (extensions, "extension.so")):
        folder.mkdir(parents=True, exist_ok=True)
        (tmp_path / "source.c").write_text(f"int {name[:-3]}(void) {{ return 1; }}\n")
        subprocess.run(["gcc", "-shared", "-Wl,--no-as-needed", "-o", folder / name, tmp_path / "source.c", *below],
                       check=True)
        below = [f"-L{near}", f"-Wl,-rpath-link={near}", f"-l{name[3:-3]}"]

    def loads():
        code = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
        return subprocess.run([sys.executable, "-c", code, extensions / "extension.so"], capture_output=True)

    assert b"libnear.so: cannot open" in loads().stderr
    link(tmp_path)
    assert loads().returncode == 0

@pytest.mark.release
@pytest.mark.timeout(7200)
@pytest.mark.skipif(os.environ.get("SDNGCC_RELEASE") != "1", reason="only a release needs it: SDNGCC_RELEASE=1")
@pytest.mark.skipif(bool(missing_programs()), reason="; ".join(missing_programs()))
def test_setup_starts_enables_and_adds_nothing_and_an_experiment_runs_in_a_containers_confines():
    done = subprocess.run([sys.executable, "-m", "sdngcc.testbed.packages", "setup", "--releases", "bookworm"],
                          cwd=Path(ROOT))
    assert done.returncode == 0
