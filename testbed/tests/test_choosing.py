# SPDX-License-Identifier: Apache-2.0
"""The page that helps to choose a law: it is what the command makes of the rows kept beside it."""

import json
from pathlib import Path

import pytest

from sdngcc.experiments.own import choosing
from sdngcc.testbed.build import ROOT

PAGE = ROOT / "docs" / "choosing-a-law.md"
ROW = {"throughput": 0.5, **{f"{percent} {kind}": 12.345 for percent in ("p50", "p99")
                             for kind in ("small", "middle", "large")},
       "link used": 0.954, "queue p99, kB": 29.1, "control, kB/s": 5414.2, "rivals, Mb/s": {}}


def test_the_page_is_as_the_command_writes_it():
    rows = json.loads(PAGE.with_suffix(".json").read_text())
    assert rows and choosing.refresh(PAGE.read_text(), rows) == PAGE.read_text()
    assert (PAGE.parent / "figures" / "choosing-a-law.png").exists()


def test_a_row_without_flows_of_a_class_says_so():
    row = {**ROW, "p99 large": None}
    assert choosing.table({"eyeq": row}).splitlines()[-1] == (
        "| eyeq | 0.5 | 12.3 / 12.3 / 12.3 | 12.3 / 12.3 / - | 0.954 | 29.1 | 5,414 |")


def test_new_rows_stand_beside_those_that_were_there(tmp_path, monkeypatch):
    page, result = tmp_path / "page.md", tmp_path / "result.json"
    page.write_text(f"Before.\n{choosing.BEGIN}old\n{choosing.END}\nAfter.\n")
    (tmp_path / "figures").mkdir()
    (tmp_path / "page.json").write_text(json.dumps({"first": {"eyeq": ROW}, "10000 Mb/s, 8 VMs, load 30%, seed 3": {
        "eyeq": ROW, "scc": {**ROW, "throughput": 0.25}}}))
    parameters = {"link_mbps": 10000.0, "senders": 8}
    result.write_text(json.dumps({"experiment": "tournament", "seed": 3, "label": "scc, load 30%", "variants": [],
                                  "parameters": parameters}))
    monkeypatch.setattr(choosing.tournament, "rows", lambda runs: {label: ROW for label, _ in runs})
    assert choosing.main([str(page), str(result)]) == 0
    text = page.read_text()
    assert text.startswith("Before.\n") and text.endswith(f"{choosing.END}\nAfter.\n") and "old" not in text
    assert text.index("### 10000 Mb/s, 8 VMs, load 30%, seed 3\n") < text.index("| eyeq | 0.5") \
        < text.index("| scc | 0.5") < text.index("### first\n")
    assert (tmp_path / "figures" / "page.png").stat().st_size > 1000


@pytest.mark.parametrize("text, result, said", [
    ("no marks", None, "needs one <!-- tournament -->"),
    (f"{choosing.END}{choosing.BEGIN}", None, "needs one <!-- tournament -->"),
    (f"{choosing.BEGIN}{choosing.END}", {"experiment": "share"}, "a result of share"),
    (f"{choosing.BEGIN}{choosing.END}", [], "nothing was written"),
])
def test_what_cannot_be_taken_leaves_the_page_alone(tmp_path, capsys, text, result, said):
    page = tmp_path / "page.md"
    page.write_text(text)
    Path(tmp_path / "result.json").write_text(json.dumps(result))
    assert choosing.main([str(page), *([str(tmp_path / "result.json")] if result is not None else [])]) == 2
    assert said in capsys.readouterr().err and page.read_text() == text and not (tmp_path / "page.json").exists()
