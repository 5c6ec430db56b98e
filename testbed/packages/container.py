# SPDX-License-Identifier: Apache-2.0
"""Builds the controller's container image of packages, and asks the controller that it runs: ``make check-container``.

The image's base is a root that mmdebstrap makes, under the name of Debian's own image, so no registry is needed.
buildah keeps all of it in a folder that is deleted at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Sequence, Tuple

from sdngcc.testbed.build import ROOT
from sdngcc.testbed.packages.check import CheckError, require
from sdngcc.testbed.packages.roots import Release, root_archive

DEFINITION = ROOT / "packaging" / "container" / "Containerfile"

# Wall time that the controller may take until it answers, s: it starts Python beside whatever else the machine does.
START_S = 120

# Run by sh: a network with nothing but a loopback device for what follows.
_ALONE = 'ip link set lo up; exec "$@"'


class Store:
    """Images and containers of buildah in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        settings = folder / "storage.conf"
        settings.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n',
                            encoding="utf-8")
        self.environment: Dict[str, str] = {**os.environ, "CONTAINERS_STORAGE_CONF": str(settings)}

    def buildah(self, *argv: str, prefix: Sequence[str] = ()) -> str:
        """Run buildah, behind a prefix of other programs, and return what it wrote. Raises CheckError when it fails."""
        done = subprocess.run([*prefix, "buildah", *argv], env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace")
        require(done.returncode == 0, f"buildah {' '.join(argv)} failed:\n{(done.stdout + done.stderr)[-4000:]}")
        return done.stdout.strip()

    def build(self, release: Release, packages: Path) -> str:
        """Build the image of a folder of packages; return the name of a container of it."""
        base = self.buildah("from", "scratch")
        self.buildah("add", base, str(root_archive(release, ())), "/")
        self.buildah("commit", base, f"docker.io/library/debian:{release.suite}-slim")
        self.buildah("bud", "--pull-never", "--isolation", "chroot", "--build-arg", f"SUITE={release.suite}",
                     "--tag", "sdn-gcc-controller", "--file", str(DEFINITION), str(packages))
        return self.buildah("from", "--pull-never", "sdn-gcc-controller")

    @contextlib.contextmanager
    def running(self, container: str, settings: Path) -> Iterator[Tuple[Callable[..., str], Callable[[], None]]]:
        """Run what the image runs, with its settings in a folder.

        Gives two functions: one that runs a command beside it, and one that raises CheckError if it has ended.
        """
        image = json.loads(self.buildah("inspect", container))["OCIv1"]["config"]
        run = ["run", "--isolation", "chroot", "--volume", f"{settings}:/etc/sdn-gcc:ro", container, "--"]
        with open(self.folder / "controller.log", "wb") as log:
            controller = subprocess.Popen(
                ["unshare", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", _ALONE, "alone", "buildah", *run,
                 *image["Entrypoint"], *image["Cmd"]], env=self.environment, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT)

            def beside(*argv: str) -> str:
                return self.buildah(*run, *argv, prefix=["nsenter", f"--net=/proc/{controller.pid}/ns/net"])

            def look() -> None:
                ended = f"the controller ended:\n{(self.folder / 'controller.log').read_text(errors='replace')[-4000:]}"
                require(controller.poll() is None, ended)

            try:
                yield beside, look
            finally:
                controller.kill()
                controller.wait()


def missing() -> List[str]:
    """Return what keeps images from being built here, a sentence each."""
    return [] if shutil.which("buildah") else ["buildah is missing: install the Debian package buildah"]


def check(release: Release, packages: Path, say: Callable[[str], None]) -> None:
    """Build the image and ask its controller. Raises CheckError and RootError."""
    for sentence in missing():
        raise CheckError(sentence)
    with tempfile.TemporaryDirectory(prefix="sdn-gcc-container-", dir="/var/tmp") as folder:
        store = Store(Path(folder))
        container = store.build(release, packages)
        say("the image is built")
        inside = Path(store.buildah("mount", container))
        require(not (inside / "etc/sdn-gcc/key").exists(), "the image has a key, which all who run it would share")
        settings = store.folder / "settings"
        settings.mkdir()
        shutil.copy(inside / "etc/sdn-gcc/controller.yaml", settings)
        owner = (inside / "var/lib/sdn-gcc").stat()
        key = settings / "key"
        key.write_text(secrets.token_hex(16) + "\n", encoding="ascii")
        key.chmod(0o640)
        os.chown(key, 0, owner.st_gid)
        with store.running(container, settings) as (beside, look):
            user = beside("id", "-u")
            require(user == str(owner.st_uid) and user != "0", f"the image's user is {user}, not its state's owner")
            _wait(beside, look)
        say("its controller answers, as a user of its own, with settings and key of the host")


def _wait(beside: Callable[..., str], look: Callable[[], None]) -> None:
    """Wait until the controller answers `sdngcc vm list`. Raises CheckError when it has ended, or does not."""
    end = time.monotonic() + START_S
    while True:
        look()
        try:
            beside("sdngcc", "vm", "list")
            return
        except CheckError:
            if time.monotonic() > end:
                raise
        time.sleep(1)
