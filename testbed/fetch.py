# SPDX-License-Identifier: Apache-2.0
"""Fetches packages of Debian into a part of the cache, from where this machine's apt does; nothing is installed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import List, Sequence

from sdngcc.testbed.build import Build, BuildError

# What Debian's archives are signed by.
DEBIAN_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def apt_options(build: Build, suites: Sequence[str] = ()) -> List[str]:
    """Return options with which apt knows Debian's packages and sources; its lists stay in the part.

    They are those of each suite of Debian that this machine installs from, and of further suites of its main archive.
    Raises BuildError when there is none.
    """
    lists = build.folder / "lists"
    (lists / "partial").mkdir(parents=True)
    targets = subprocess.run(["apt-get", "indextargets", "--format", "$(LABEL)|$(SITE)|$(RELEASE)",
                              "Created-By: Packages", "Component: main"], capture_output=True, text=True, check=True)
    known = [line.split("|") for line in targets.stdout.splitlines()]
    wanted = sorted({f"{site} {release}" for _, site, release in known if "debian" in site} |
                    {f"{site} {suite}" for label, site, _ in known if label == "Debian" for suite in suites})
    if not wanted:
        raise BuildError(f"{build.part.name}: apt knows no archive of Debian")
    signed = f"[signed-by={DEBIAN_KEYS}] " if DEBIAN_KEYS.exists() else ""
    sources = build.folder / "sources.list"
    sources.write_text("".join(f"{kind} {signed}{line} main\n" for line in wanted for kind in ("deb", "deb-src")))
    options = ["-q", "-o", f"Dir::Etc::sourcelist={sources}", "-o", "Dir::Etc::sourceparts=-",
               "-o", f"Dir::State::lists={lists}", "-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache=",
               "-o", "APT::Sandbox::User=root"]
    build.run(["apt-get", *options, "update"], "asking Debian")
    return options


def numbers(text: str) -> List[int]:
    """Return the numbers in a version, by which versions are compared."""
    return [int(number) for number in re.findall(r"\d+", text)]


def newest(build: Build, options: Sequence[str], pattern: str) -> str:
    """Return the package whose whole name fits a pattern and whose numbers are the highest. BuildError for none."""
    told = subprocess.run(["apt-cache", *options, "pkgnames"], capture_output=True, text=True, check=True)
    found = [name for name in told.stdout.split() if re.fullmatch(pattern, name)]
    if not found:
        raise BuildError(f"{build.part.name}: Debian serves no package {pattern}")
    return max(found, key=numbers)
