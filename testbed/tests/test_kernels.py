# SPDX-License-Identifier: Apache-2.0
"""The kernels that the testbed and ``make check-kernels`` know."""

import re
from typing import get_args

import pytest

from sdngcc.testbed.build import KERNEL, KERNELS, ROOT, laboratory_patches, parts, source_part
from sdngcc.testbed.kernels.__main__ import EVENNESS, STEPS, STOCKS, _complaints, _headers, judge_share, main
from sdngcc.testbed.parameters import Parameters


def test_every_kernel_is_a_parameter_has_patches_and_is_checked():
    """A kernel of the testbed has a series, patches of the testbed's own, a setting and a place in check-kernels."""
    assert get_args(Parameters.model_fields["kernel"].annotation) == KERNELS
    assert Parameters().kernel == KERNEL
    assert set(KERNELS) <= set(STOCKS)
    assert f"KERNELS ?= {','.join(STOCKS)}\n" in (ROOT / "Makefile").read_text()
    assert f"STEPS ?= {','.join(STEPS)}\n" in (ROOT / "Makefile").read_text()
    for linux in KERNELS:
        assert (ROOT / "ovs-patches" / "linux" / linux / "series").exists()
        assert list(laboratory_patches(linux).glob("*.patch"))


def test_kernels_have_builds_of_their_own():
    """What depends on the kernel has another key for each; what does not has the same."""
    usual, other = parts(), parts(linux="6.12")
    differ = {name for name in usual if usual[name].key != other[name].key}
    assert differ == {"kernel", "module", "beside", "product", "congestion"}
    assert source_part("6.12").key != source_part("7.3").key


class _Root:
    """A root whose apt knows these packages."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def run(self, argv):
        """Answer apt-cache pkgnames."""
        return type("Done", (), {"stdout": "".join(f"{name}\n" for name in self.names if name.startswith(argv[2]))})


@pytest.mark.parametrize(("kernel", "wanted"), [
    ("6.1", "linux-headers-6.1.0-52-amd64"), ("6.12", "linux-headers-6.12.117+deb12-amd64"), ("7.3", "")])
def test_newest_headers_are_found(kernel, wanted):
    """The newest package counts, by its numbers, and no other flavour."""
    one = _Root("linux-headers-6.1.0-9-amd64", "linux-headers-6.1.0-52-amd64", "linux-headers-6.1.0-52-rt-amd64",
                "linux-headers-6.1.0-52-common", "linux-headers-6.12-amd64", "linux-headers-6.12.9+deb12-amd64",
                "linux-headers-6.12.117+deb12-amd64", "linux-headers-6.12.117+deb12-cloud-amd64",
                "linux-headers-6.12.117+deb12-common")
    assert _headers(one, kernel) == wanted


def test_complaints_are_told():
    """Warnings of compiler, modpost and make count; the names of files do not."""
    said = "  CC [M]  a-warning.o\nwarning: compiler\na.c:1:2: warning: unused\nWARNING: modpost: no symbols"
    assert re.findall(r"unused|modpost", _complaints(said)) == ["unused", "modpost"]
    assert _complaints("  CC [M]  error.o\n  LD [M]  sdngcc.ko") == ""


@pytest.mark.parametrize(("argv", "told"), [
    (["--kernels", "5.4"], "--kernels 5.4: there are 6.1, 6.8, 6.12, 7.3"),
    (["--kernels", "6.12", "--steps", "tree,all"], "--steps all: there are stock, tree, booted"),
    (["--kernels", "6.12", "nothing"], "there is no .*check_nothing.py")])
def test_unknown_names_are_refused(argv, told, capsys):
    """A kernel, a step or a file that there is not is refused by name."""
    with pytest.raises(SystemExit):
        main(argv)
    assert re.search(told, capsys.readouterr().err)


def test_only_the_steps_named_are_taken(monkeypatch, tmp_path, capsys):
    """One step alone is taken, and a kernel that no suite and no testbed has is skipped by name in each."""
    taken = []
    monkeypatch.setattr("sdngcc.testbed.kernels.__main__.missing_programs", list)
    monkeypatch.setattr("sdngcc.testbed.kernels.__main__.build", lambda linux: linux)
    for step in ("stock", "tree", "booted"):
        monkeypatch.setattr(f"sdngcc.testbed.kernels.__main__.check_{step}",
                            lambda *given, step=step: taken.append(step) or [])
    for step in STEPS:
        assert main(["--kernels", "6.12", "--steps", step, "--out", str(tmp_path)]) == 0
    assert taken == list(STEPS)
    assert main(["--kernels", "6.8", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "6.8: stock: skipped" in said and "6.8: tree, booted: skipped" in said and taken == list(STEPS)


@pytest.mark.parametrize("name, evenness, failed", [
    ("share", {"share": 0.96}, True), ("share-ecn", {"share": 0.99, "share-ecn": 0.96}, False),
    ("share-accecn", {"share-ecn": 0.99, "share-accecn": 0.95}, False),
    ("share-accecn", {"share-ecn": 0.99, "share-accecn": 0.93}, True)])
def test_guests_that_obey_marks_are_held_against_each_other(name, evenness, failed):
    """Evenness is judged as share does, not where guests obey marks, and with AccECN by what RFC 3168's guests have."""
    verdicts = [{"name": EVENNESS, "measured": evenness[name], "expected": ">= 0.99", "holds": False}]
    assert bool(judge_share(name, verdicts, evenness)) == failed
    queue = {"name": "queue p99, bytes", "measured": 70000, "expected": "<= 60000", "holds": False}
    assert f"{name}: queue p99, bytes: 70000, expected <= 60000" in judge_share(name, [*verdicts, queue], evenness)
