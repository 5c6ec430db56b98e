# SPDX-License-Identifier: Apache-2.0
"""Lays out what packages have of Python: run by packaging/debian/rules, with the folders that it made.

/usr/lib/sdn-gcc is a virtual environment without activation: pyvenv.cfg lets the interpreter that is linked beside it
look into its site-packages first, then into Debian's own packages. Other programs see nothing of it.
"""

from __future__ import annotations

import argparse
import email.message
import email.parser
import shutil
from pathlib import Path
from typing import List

PRIVATE = Path("usr/lib/sdn-gcc")

# What is in no package: the virtual testbed needs compilers, sources and Mininet.
TESTBED = ("sdngcc/testbed", "sdngcc/topologies", "sdngcc/experiments", "sdngcc/commands/testbed.py",
           "sdngcc/commands/simulate.py")

# What belongs to the controller's package.
CONTROLLER = ("sdngcc/controller",)

# Of others' packages: tests, what nobody calls, and what was said about their installation.
_UNWANTED = ("tests", "*/tests", "falcon/bench", "oslo_config/sources/templates", "*.dist-info/RECORD",
             "*.dist-info/INSTALLER", "*.dist-info/REQUESTED", "*.dist-info/direct_url.json",
             "*.dist-info/entry_points.txt", "*.dist-info/top_level.txt")

_START = """#!/usr/lib/sdn-gcc/bin/python3
# SPDX-License-Identifier: Apache-2.0
import sys

from sdngcc.main import main

sys.exit(main(prog_name="sdngcc"))
"""


def lay_out(everything: Path, vendor: Path, python: str, debian: Path) -> None:
    """Fill the packages' folders below ``debian``.

    ``everything`` has sdngcc as pip installs it, ``vendor`` others' packages; python is the interpreter's version, as
    "3.11".
    """
    common, controller = debian / "sdngcc-common", debian / "sdngcc-controller"
    inside = PRIVATE / "lib" / f"python{python}" / "site-packages"
    _take(vendor / "common", common / inside)
    _take(vendor / "controller", controller / inside)
    _take(everything, common / inside)
    for name in TESTBED:
        _remove(common / inside / name)
    for name in CONTROLLER:
        (controller / inside / name).parent.mkdir(parents=True, exist_ok=True)
        (common / inside / name).rename(controller / inside / name)
    # dh_installsystemd has the units.
    shutil.rmtree(controller / inside / "sdngcc/controller/systemd")
    folder = common / PRIVATE
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    (folder / "bin" / "python3").symlink_to(f"/usr/bin/python{python}")
    (folder / "pyvenv.cfg").write_text(
        f"home = /usr/bin\ninclude-system-site-packages = true\nversion = {python}\n", encoding="utf-8")
    program = common / "usr/bin/sdngcc"
    program.parent.mkdir(parents=True)
    program.write_text(_START, encoding="utf-8")
    program.chmod(0o755)
    for package in (common, controller):
        listed = package / "usr/share/doc" / package.name / "python-packages.txt"
        listed.parent.mkdir(parents=True)
        listed.write_text(inventory(package / inside), encoding="utf-8")


def _take(source: Path, target: Path) -> None:
    """Copy Python packages, without what no package needs, and without programs."""
    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns("__pycache__", "*.pyc", "bin"))
    for pattern in _UNWANTED:
        for path in target.glob(pattern):
            _remove(path)
    for path in target.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(0o644)
            if path.suffix == ".py" and path.read_bytes().startswith(b"#!"):
                path.write_bytes(b"#" + path.read_bytes())  # no program; lines keep their numbers


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def inventory(site: Path) -> str:
    """Return a line for each Python package in a folder: name, version, licence and home."""
    lines: List[str] = []
    for metadata in sorted(site.glob("*.dist-info/METADATA")):
        fields = email.parser.Parser().parsestr(metadata.read_text(encoding="utf-8"), headersonly=True)
        lines.append(f"{fields['Name']} {fields['Version']}: {licence(fields)}")
    return "\n".join(lines) + "\n"


def licence(fields: email.message.Message[str, str]) -> str:
    """Return what a package's metadata tell of its licence, on one line."""
    classifiers = [value.split(" :: ")[-1] for value in fields.get_all("Classifier", [])
                   if value.startswith("License :: ") and not value.endswith("OSI Approved")]
    stated = fields["License-Expression"] or ", ".join(classifiers) or fields["License"] or "see its files"
    return " ".join(stated.split())[:120]


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("everything", type=Path)
    parser.add_argument("vendor", type=Path)
    parser.add_argument("python")
    parser.add_argument("debian", type=Path)
    chosen = parser.parse_args()
    lay_out(chosen.everything, chosen.vendor, chosen.python, chosen.debian)


if __name__ == "__main__":
    main()
