# SPDX-License-Identifier: Apache-2.0
"""README.md's two commands on a release that has nothing of what they need: a user with sudo, and root in a container.

Each of the two has an own root and an own clone, and types both commands twice in a row. The container is confined as
engines do by default (plain.py).
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Callable, Dict, NamedTuple, Sequence, Tuple

from sdngcc.testbed.build import ROOT
from sdngcc.testbed.packages.check import require
from sdngcc.testbed.packages.roots import Release, root, trust_outside

# What README.md asks for, and sudo, which Debian's installer brings.
_BASE = ("ca-certificates", "git", "make", "sudo")

COMMANDS = ("demo", "test")
ROUNDS = 2
LIMIT_S = 2 * 3600.0  # of one command, with everything to be built

# How many lines of a command that failed are told.
_LINES = 40



class User(NamedTuple):
    """Who types commands."""

    become: Tuple[str, ...]  # what goes before each of them
    home: str
    contained: bool


USERS: Dict[str, User] = {
    "root": User((), "/root", True),
    "user": User(("runuser", "--user", "user", "--"), "/home/user", False),
}

Say = Callable[[str], None]


def check(release: Release, out: Path, say: Say, commands: Sequence[str] = COMMANDS) -> None:
    """Type commands in roots of a release; out gets what they said. Raises CheckError and RootError."""
    out.mkdir(parents=True, exist_ok=True)
    for name, user in USERS.items():
        with root(release, _BASE) as one:
            environment = {**trust_outside(one), "HOME": user.home}
            one.run(["useradd", "--create-home", "--shell", "/bin/bash", "user"])
            one.path("/etc/sudoers.d/user").write_text("user ALL=(ALL) NOPASSWD: ALL\n", encoding="ascii")
            one.path("/etc/hosts").write_text("127.0.0.1 localhost\n", encoding="ascii")  # as every machine has it
            bundle = one.path("/tmp/project.bundle")
            subprocess.run(["git", "-C", str(ROOT), "bundle", "create", "--quiet", str(bundle), "HEAD"], check=True)
            clone = f"{user.home}/sdn-gcc"
            one.run([*user.become, "git", "clone", "--quiet", "/tmp/project.bundle", clone], environment=environment)
            for number in range(ROUNDS):
                for command in commands:
                    began = time.monotonic()
                    done = one.run([*user.become, "make", "-C", clone, command], environment=environment,
                                   contained=user.contained, timeout_s=LIMIT_S, check=False)
                    log = out / f"{release.suite}-{name}-{command}-{number + 1}.log"
                    log.write_text(done.stdout, encoding="utf-8")
                    ended = "\n".join(done.stdout.splitlines()[-_LINES:])
                    require(done.returncode == 0, f"{name}: make {command} failed, {log} ends with:\n{ended}")
                    say(f"{name}: make {command}, time {number + 1} of {ROUNDS}: {time.monotonic() - began:.0f} s")
