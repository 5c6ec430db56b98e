# SPDX-License-Identifier: Apache-2.0
"""README.md's two commands on a release that has nothing of what they need, for a user with sudo and for root.

Each of the two has an own root and an own clone, and types both commands twice in a row.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Callable, Dict, Tuple

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

# Who types them: what goes before each command, and that user's home.
USERS: Dict[str, Tuple[Tuple[str, ...], str]] = {
    "user": (("runuser", "--user", "user", "--"), "/home/user"),
    "root": ((), "/root"),
}

Say = Callable[[str], None]


def check(release: Release, out: Path, say: Say) -> None:
    """Type the commands in roots of a release; out gets what they said. Raises CheckError and RootError."""
    out.mkdir(parents=True, exist_ok=True)
    for user, (become, home) in USERS.items():
        with root(release, _BASE) as one:
            environment = {**trust_outside(one), "HOME": home}
            one.run(["useradd", "--create-home", "--shell", "/bin/bash", "user"])
            one.path("/etc/sudoers.d/user").write_text("user ALL=(ALL) NOPASSWD: ALL\n", encoding="ascii")
            bundle = one.path("/tmp/project.bundle")
            subprocess.run(["git", "-C", str(ROOT), "bundle", "create", "--quiet", str(bundle), "HEAD"], check=True)
            clone = f"{home}/sdn-gcc"
            one.run([*become, "git", "clone", "--quiet", "/tmp/project.bundle", clone], environment=environment)
            for number in range(ROUNDS):
                for command in COMMANDS:
                    began = time.monotonic()
                    done = one.run([*become, "make", "-C", clone, command], environment=environment,
                                   timeout_s=LIMIT_S, check=False)
                    log = out / f"{release.suite}-{user}-{command}-{number + 1}.log"
                    log.write_text(done.stdout, encoding="utf-8")
                    ended = "\n".join(done.stdout.splitlines()[-_LINES:])
                    require(done.returncode == 0, f"{user}: make {command} failed, {log} ends with:\n{ended}")
                    say(f"{user}: make {command}, time {number + 1} of {ROUNDS}: {time.monotonic() - began:.0f} s")
