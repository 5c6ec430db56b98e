# SPDX-License-Identifier: Apache-2.0
"""Known holes of pinned packages, by a made-up advisory database."""

import sys

import pytest
import yaml

from sdngcc.testbed import audit
from sdngcc.testbed.build import ROOT


def advise(database, package, number, **content):
    """Write an advisory."""
    folder = database / "vulns" / package
    folder.mkdir(parents=True, exist_ok=True)
    whole = {"id": f"PYSEC-{number}", "aliases": [f"CVE-{number}"],
             "affected": [{"package": {"ecosystem": "PyPI", "name": package}, **content}]}
    (folder / f"PYSEC-{number}.yaml").write_text(yaml.safe_dump(whole))


def events(*pairs):
    return {"ranges": [{"type": "ECOSYSTEM", "events": [{kind: text} for kind, text in pairs]}]}


@pytest.mark.parametrize("version, concerned", [("38.0.4", True), ("3.0", False), ("41.0.6", False), ("41.0.5", True),
                                                ("50.0.2", False), ("42.0.0", True), ("42.0.1", False)])
def test_a_version_is_judged_by_ranges(tmp_path, version, concerned):
    advise(tmp_path, "a", 1, **events(("introduced", "3.1"), ("fixed", "41.0.6"), ("introduced", "42"),
                                      ("last_affected", "42.0.0")))
    assert bool(list(audit.holes("a", version, tmp_path))) == concerned


def test_versions_that_are_listed_count_and_what_is_withdrawn_does_not(tmp_path):
    advise(tmp_path, "a", 1, versions=["1.0", "1.1"])
    (hole,) = audit.holes("a", "1.1", tmp_path)
    assert str(hole) == "a 1.1: PYSEC-1, CVE-1, mended in none"
    path = tmp_path / "vulns/a/PYSEC-1.yaml"
    path.write_text(path.read_text() + "withdrawn: 2026-01-01T00:00:00Z\n")
    assert not list(audit.holes("a", "1.1", tmp_path))
    path.write_text("[]")
    with pytest.raises(ValueError, match="no file of an advisory"):
        list(audit.holes("a", "1.1", tmp_path))


def test_pins_with_a_hole_fail_and_accepted_ones_have_a_reason(tmp_path, monkeypatch, capsys):
    pins = audit.pins(ROOT)
    assert {"cryptography", "pyopenssl", "ryu", "setuptools", "dogpile-cache"} <= set(pins)
    monkeypatch.setattr(sys, "argv", ["audit", str(tmp_path)])
    assert audit.main() == 2
    (tmp_path / "vulns").mkdir()
    assert audit.main() == 0
    advise(tmp_path, "cryptography", 7, **events(("introduced", "0")))
    assert audit.main() == 1
    monkeypatch.setitem(audit.ACCEPTED, "CVE-7", "it is not called")
    assert audit.main() == 0
    assert "not ours: it is not called" in capsys.readouterr().out
