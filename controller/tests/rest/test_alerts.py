# SPDX-License-Identifier: Apache-2.0
"""The alerts for Prometheus: that it takes them, that they fire when they should, and name metrics there are."""

import pathlib
import re
import shutil
import subprocess

import pytest
import yaml

from .rest_bench import Bench

FOLDER = pathlib.Path(__file__).parents[3] / "docs" / "prometheus"
RULES = FOLDER / "sdn-gcc.rules.yml"
PAGE = FOLDER.parent / "monitoring.md"
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")


def alerts():
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


@needs_promtool
@pytest.mark.parametrize("words", [["check", "rules", RULES.name], ["test", "rules", "sdn-gcc.rules.test.yml"]],
                         ids=" ".join)  # fmt: skip
def test_promtool_takes_the_alerts_and_they_fire_when_they_should(words):
    result = subprocess.run(["promtool", *words], cwd=FOLDER, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr


def test_each_metric_of_an_alert_is_there(tmp_path):
    bench = Bench(tmp_path)
    families = set(re.findall(r"^# TYPE (\S+)", bench.get("/metrics").text, re.M))
    elsewhere = {"sdngcc_ovsdb_connections_refused_total", "sdngcc_node_conflicts_total"}  # with ovsdb_listen
    for rule in alerts():
        for name in re.findall(r"\bsdngcc_\w+", rule["expr"]):
            base = re.sub("_(bucket|count)$", "", name)
            assert base in families or name in elsewhere, (rule["alert"], name)
        for event in re.findall(r'event=~?"([^"]+)"', rule["expr"]):
            assert all(f'event="{one}"' in bench.get("/metrics").text for one in event.split("|")), event


def test_the_page_names_each_alert():
    text = PAGE.read_text()
    assert [rule["alert"] for rule in alerts() if f"`{rule['alert']}`" not in text] == []
    assert "prometheus/sdn-gcc.rules.yml" in text
