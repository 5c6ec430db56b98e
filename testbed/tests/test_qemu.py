# SPDX-License-Identifier: Apache-2.0
"""Which QEMU boots machines with several processors."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from sdngcc.testbed import qemu as qemus
from sdngcc.testbed.build import BuildError
from sdngcc.testbed.qemu import PROGRAM, clock, qemu, qemu_part, tsc_khz


def install(folder: Path, version: str) -> None:
    """Put a QEMU of a version into a folder."""
    program = folder / PROGRAM
    program.write_text(f"#!/bin/sh\necho 'QEMU emulator version {version}'\n", encoding="ascii")
    program.chmod(0o755)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only a folder of the test's have programs, and its own builds."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SDNGCC_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("version", ["8.1.0", "8.2.50 (v8.2.0-12-gabc)", "10.0.2 (Debian 1:10.0.2+ds-2+deb13u1)"])
def test_one_that_is_new_enough_is_taken_as_installed(tmp_path: Path, version: str) -> None:
    install(tmp_path, version)
    assert qemu() == [PROGRAM]


@pytest.mark.parametrize("version", ["7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)", "8.0.5"])
def test_an_older_one_is_replaced_by_one_that_was_fetched(tmp_path: Path, version: str) -> None:
    install(tmp_path, version)
    folder = qemu_part().folder
    folder.mkdir(parents=True)
    (folder / ".complete").touch()
    program, *arguments = qemu()
    assert program == str(folder / "root" / "usr" / "bin" / PROGRAM)
    assert arguments[:2] == ["-L", str(folder / "root" / "usr" / "share" / "qemu")]


def test_a_missing_one_is_named_with_its_package() -> None:
    with pytest.raises(BuildError, match="qemu-system-x86_64 does not run: install the Debian package qemu-system-x86"):
        qemu()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only an x86-64 has this counter")
def test_a_machine_is_told_the_rate_of_the_counter_that_its_clock_is_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    rate = tsc_khz()
    assert rate is not None and 100_000 < rate < 10_000_000
    tsc_khz.cache_clear()
    again = tsc_khz()
    assert again is not None and abs(again - rate) < rate / 1000
    assert clock() == ("tsc=reliable", "clocksource=tsc", f"tsc_early_khz={again}")
    monkeypatch.setattr(qemus, "tsc_khz", lambda: None)
    assert clock() == ("tsc=reliable", "clocksource=tsc")
