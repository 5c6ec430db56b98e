# SPDX-License-Identifier: Apache-2.0
"""The files of settings that packages bring: every setting with its default, commented out but for what differs."""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path
from typing import Any, Dict, Mapping, Type

import pydantic
import yaml

from sdngcc.controller.settings import Settings as Controller
from sdngcc.tracker.settings import Settings as Tracker

# What the packages' services have of their own. Their controller leaves forwarding to whoever does it: hosts tell it
# who talks to whom and what was marked, and this machine's database connects by itself (`sdngcc node setup`).
CONTROLLER: Dict[str, Any] = {
    "forwarding": "none", "mark_source": "shim", "ovsdb_listen": "127.0.0.1:6639", "key_file": "/etc/sdn-gcc/key",
    "audit_file": "/var/log/sdn-gcc/audit.jsonl"}
TRACKER: Dict[str, Any] = {"divisions": {"all": {"weight": 1, "objective": "cs"}}}

_HEAD = """# SPDX-License-Identifier: Apache-2.0
# Settings of the sdn-gcc {name}. /usr/share/doc/sdn-gcc/{name}.md tells more of each, with the range.
# `systemctl reload sdngcc-{name}` reads them again; those that need a restart are named in the log then.
# What is commented out has the value that is in force without it.
"""


def document(name: str, settings: Type[pydantic.BaseModel], own: Mapping[str, Any]) -> str:
    """Return the file of a program's settings."""
    lines = [_HEAD.format(name=name)]
    for key, field in settings.model_fields.items():
        lines.append(textwrap.fill(field.description or key.replace("_", " "), 110, initial_indent="# ",
                                   subsequent_indent="# ", break_on_hyphens=False))
        if key in own:
            lines.append(_entry(key, own[key]))
        else:
            default = pydantic.TypeAdapter(Any).dump_python(field.get_default(call_default_factory=True), mode="json")
            lines.append(f"#{_entry(key, default)}")
        lines.append("")
    return "\n".join(lines)


def _entry(key: str, value: Any) -> str:
    if value is None:
        return f"{key}:"
    # A value alone is a document, which YAML ends with dots.
    return f"{key}: " + yaml.safe_dump(value, default_flow_style=True, width=10_000).removesuffix("...\n").rstrip()


def write(folder: Path) -> None:
    """Write controller.yaml and tracker.yaml into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "controller.yaml").write_text(document("controller", Controller, CONTROLLER), encoding="utf-8")
    (folder / "tracker.yaml").write_text(document("tracker", Tracker, TRACKER), encoding="utf-8")


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    write(parser.parse_args().folder)


if __name__ == "__main__":
    main()
