# SPDX-License-Identifier: Apache-2.0
"""The packages' version and their changelog, by CHANGELOG.md and git."""

from __future__ import annotations

import dataclasses
import email.utils
import re
import subprocess
import textwrap
from pathlib import Path
from typing import List

from sdngcc.testbed.packages.roots import Release

MAINTAINER = "sdn-gcc authors <maintainers@sdn-gcc.example>"

_HEADING = re.compile(r"^## (\d+\.\d+\.\d+)\b", re.MULTILINE)


class VersionError(Exception):
    """The version cannot be told; the text says why."""


@dataclasses.dataclass(frozen=True)
class Version:
    """A version of the tree: ``upstream`` as Debian writes it, and when its last commit was made."""

    upstream: str
    time_s: int  # since 1970
    changes: List[str]  # of CHANGELOG.md, one a line, for this version

    def debian(self, release: Release) -> str:
        """Return the packages' version for a release of Debian."""
        return f"{self.upstream}+{release.suffix}"

    def changelog(self, release: Release) -> str:
        """Return debian/changelog."""
        lines = "\n".join(textwrap.fill(change, 76, initial_indent="  * ", subsequent_indent="    ")
                          for change in self.changes) or "  * See CHANGELOG.md."
        date = email.utils.formatdate(self.time_s)
        return (f"sdn-gcc ({self.debian(release)}) {release.suite}; urgency=medium\n\n{lines}\n\n"
                f" -- {MAINTAINER}  {date}\n")


def newest(changelog: str) -> str:
    """Return the newest version that CHANGELOG.md has a section of. VersionError when there is none."""
    found = _HEADING.search(changelog)
    if found is None:
        raise VersionError("CHANGELOG.md has no section of a version: a line like `## 1.2.3`")
    return found[1]


def changes(changelog: str, version: str) -> List[str]:
    """Return the points of a version's section, each on one line."""
    section = changelog.split(f"## {version}", 1)[-1].split("\n## ", 1)[0]
    return [" ".join(point.split()) for point in re.split(r"^- ", section, flags=re.MULTILINE)[1:]]


def tree_version(top: Path) -> Version:
    """Return the version of a work tree.

    At the tag ``v1.2.3`` it is 1.2.3, which must be the newest of CHANGELOG.md. Before that it is 1.2.3~git with the
    last commit's time and name, so that each later commit sorts later and the tagged one last; ``.x`` at its end
    says that files differ from that commit. Raises VersionError.
    """
    text = (top / "CHANGELOG.md").read_text(encoding="utf-8")
    base = newest(text)
    stamp, name = _git(top, "log", "-1", "--format=%ct %h", "--abbrev=8").split()
    changed = bool(_git(top, "status", "--porcelain"))
    tags = _git(top, "tag", "--points-at", "HEAD").split()
    released = [tag for tag in tags if re.fullmatch(r"v\d+\.\d+\.\d+", tag)]
    if released and f"v{base}" not in released:
        raise VersionError(f"the tag is {', '.join(released)}, but CHANGELOG.md's newest version is {base}")
    upstream = base if released else f"{base}~git{stamp}.{name}"
    return Version(upstream + (".x" if changed else ""), int(stamp), changes(text, base))


def _git(top: Path, *argv: str) -> str:
    done = subprocess.run(["git", "-C", str(top), *argv], capture_output=True, text=True)
    if done.returncode:
        raise VersionError(f"git {argv[0]}: {done.stderr.strip()}")
    return done.stdout.strip()
