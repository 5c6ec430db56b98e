# SPDX-License-Identifier: Apache-2.0
"""What the kernels for several CPUs are made of."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Dict

from sdngcc.testbed.build import parts
from sdngcc.testbed.fetch import numbers
from sdngcc.testbed.smp.build import HERE, KINDS, RT_APPLIED, STOCK, WANTED, _rt_patch, smp_parts

# As quilt writes it, and as git does.
QUILT = """Subject: one
---
 a.c |    2 +-
--- a/a.c
+++ b/a.c
@@ -1 +1 @@
-old a
+new a
--- a/drivers/absent.c
+++ b/drivers/absent.c
@@ -1 +1 @@
-old
+new
--- a/b.c
+++ b/b.c
@@ -1 +1 @@
-old b
+new b
"""
GIT = """Subject: two

diff --git a/new.c b/new.c
new file mode 100644
--- /dev/null
+++ b/new.c
@@ -0,0 +1 @@
+new file
--
2.40
"""


def package(folder: Path, patches: Dict[str, str]) -> None:
    """A Debian source package's tarball with these patches for PREEMPT_RT."""
    files = {**patches, "series": "# comment\n" + "".join(f"{name}\n" for name in patches)}
    with tarfile.open(folder / "linux_6.1.1-1.debian.tar.xz", "w:xz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(f"debian/patches-rt/{name}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))


def test_rt_patch_is_for_the_files_there_are(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in "ab":
        (source / f"{name}.c").write_text(f"old {name}\n")
    dropped = f"0003-{RT_APPLIED[0]}.patch"
    package(tmp_path, {"0001-one.patch": QUILT, "0002-two.patch": GIT, dropped: QUILT})
    patch = _rt_patch(tmp_path, source).decode()
    assert [line for line in patch.splitlines() if line.startswith("+++")] == ["+++ b/a.c", "+++ b/b.c", "+++ b/new.c"]
    assert "absent" not in patch


def test_versions_are_compared_by_number() -> None:
    names = ["linux-image-6.1.0-9-amd64", "linux-image-6.1.0-50-amd64", "linux-image-6.1.0-47-amd64"]
    assert max(names, key=numbers) == "linux-image-6.1.0-50-amd64"


def test_each_kernel_has_its_parts_and_no_name_is_the_testbeds() -> None:
    found = smp_parts()
    for kind in KINDS:
        assert {f"smp_{kind}", f"smp_{kind}_module", f"smp_{kind}_planted"} <= set(found)
    assert not set(found) & set(parts())
    # A folder is told from another part's by what stands before the first dash.
    assert all("-" not in name for name in found)
    assert len({part.key for part in found.values()}) == len(found)


def test_fragments_ask_for_what_each_kernel_is_for() -> None:
    for kind in set(KINDS) - set(STOCK):
        asked = WANTED.findall((HERE / "kernel" / f"{kind}.config").read_text())
        assert {"kcsan": "CONFIG_KCSAN=y", "lockdep": "CONFIG_PROVE_RCU=y", "rt": "CONFIG_PREEMPT_RT=y"}[kind] in asked
    base = (HERE / "kernel" / "base.config").read_text()
    assert "CONFIG_SMP=y" in WANTED.findall(base) and not any(line.endswith("=n") for line in WANTED.findall(base))
