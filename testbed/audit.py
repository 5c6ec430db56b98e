# SPDX-License-Identifier: Apache-2.0
"""``make audit``: the pinned Python packages beside known holes, by the data that pip-audit asks a service for.

The data are a clone of PyPA's advisory database: files of OSV's format below vulns/, one a hole. A hole that is known
and does not concern us stands in ACCEPTED with the reason.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import yaml
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from sdngcc.testbed.build import ROOT

FILES = ("requirements.txt", "constraints.txt")

# By id or alias: why the hole is none here.
ACCEPTED: Dict[str, str] = {
    "CVE-2024-6345": "setuptools.package_index, which fetches by URL, is not called: pip builds from what it fetched",
    "CVE-2025-47273": "the same module",
}


@dataclass(frozen=True)
class Hole:
    """A known hole of a pinned package."""

    package: str
    version: str
    names: Tuple[str, ...]  # the id first
    fixed: Tuple[str, ...]

    @property
    def reason(self) -> str:
        """Why it does not concern us; empty if it does."""
        return next((ACCEPTED[name] for name in self.names if name in ACCEPTED), "")

    def __str__(self) -> str:
        """Return it on one line."""
        return (f"{self.package} {self.version}: {', '.join(self.names)}, mended in {', '.join(self.fixed) or 'none'}"
                + (f"; not ours: {self.reason}" if self.reason else ""))


def pins(root: Path) -> Dict[str, str]:
    """Return all pinned versions by the packages' canonical names."""
    found: Dict[str, str] = {}
    for name in FILES:
        text = (root / name).read_text(encoding="utf-8")
        for package, version in re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE):
            found[canonicalize_name(package)] = version
    return found


def holes(package: str, version: str, database: Path) -> Iterator[Hole]:
    """Yield the holes of a version of a package. Raises OSError, ValueError for a file that is none of OSV's."""
    for path in sorted((database / "vulns" / package).glob("*.yaml")):
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or "id" not in content:
            raise ValueError(f"{path} is no file of an advisory")
        if content.get("withdrawn"):
            continue
        affected = [one for one in content.get("affected", ()) if canonicalize_name(one["package"]["name"]) == package]
        if any(_concerns(one, version) for one in affected):
            events = [event for one in affected for events in _ranges(one) for event in events]
            fixed = [event["fixed"] for event in events if "fixed" in event]
            yield Hole(package, version, (content["id"], *content.get("aliases", ())), tuple(dict.fromkeys(fixed)))


def _ranges(affected: Dict[str, Any]) -> List[List[Dict[str, str]]]:
    return [one["events"] for one in affected.get("ranges", ()) if one["type"] == "ECOSYSTEM"]


def _concerns(affected: Dict[str, Any], version: str) -> bool:
    """Return whether a version is one of those that an advisory lists, or in one of its ranges."""
    if version in map(str, affected.get("versions", ())):
        return True
    return any(_within(events, Version(version)) for events in _ranges(affected))


def _within(events: List[Dict[str, str]], version: Version) -> bool:
    """Return whether a version is behind the last event that is not later, and that is an introduction."""
    inside = False
    for event in events:
        ((kind, text),) = event.items()
        try:
            at = Version(str(text))
        except InvalidVersion:
            continue
        if kind == "introduced" and version >= at:
            inside = True
        elif kind == "fixed" and version >= at or kind == "last_affected" and version > at:
            inside = False
    return inside


def main() -> int:
    """Run as a program; 1 when a hole concerns us, 2 when the data cannot be read."""
    parser = argparse.ArgumentParser(prog="sdngcc.testbed.audit", description=__doc__)
    parser.add_argument("database", type=Path, help="a clone of PyPA's advisory-database")
    chosen = parser.parse_args()
    if not (chosen.database / "vulns").is_dir():
        print(f"audit: {chosen.database} has no folder vulns", file=sys.stderr)
        return 2
    pinned = pins(ROOT)
    found = [hole for package, version in sorted(pinned.items()) for hole in holes(package, version, chosen.database)]
    for hole in found:
        print(hole)
    ours = [hole for hole in found if not hole.reason]
    print(f"audit: {len(pinned)} pins, {len(ours)} with a hole that concerns us, {len(found) - len(ours)} accepted")
    return int(bool(ours))


if __name__ == "__main__":
    sys.exit(main())
