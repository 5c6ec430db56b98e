# SPDX-License-Identifier: Apache-2.0
"""The Grafana dashboard: a real Prometheus scrapes a real controller and answers each of its queries."""

import json
import pathlib
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from ..fabric import arp, ipv4, port_reading, vm_reading
from ..processes import PATIENCE_S, Controller, WireSwitch, free_port, wait_for

DASHBOARD = pathlib.Path(__file__).parents[3] / "docs" / "grafana" / "sdn-gcc.json"


def queries():
    """Return (panel, expression) of each query, with Grafana's variables filled in."""
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", ()):
            text = target["expr"].replace("$__rate_interval", "1m")
            yield panel["title"], re.sub(r"\$(switch|vm)\b", ".*", text)


def test_structure():
    document = json.loads(DASHBOARD.read_text())
    panels = document["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) == 23
    variables = {variable["name"] for variable in document["templating"]["list"]}
    assert variables == {"datasource", "switch", "vm"}
    for panel in panels:
        assert panel["type"] in ("row", "stat", "timeseries")
        for target in panel.get("targets", ()):
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            used = set(re.findall(r"\$([a-z]\w*)", target["expr"]))
            assert used <= variables, target["expr"]


def lost(before, after, path=""):
    """Yield the paths of what is in a document and not, or otherwise, in what was read of it."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            yield from lost(value, after.get(key), f"{path}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after)):
            yield from lost(one, other, f"{path}[{number}]")
    elif before != after:
        yield path


def test_grafana_reads_all_of_it():
    """By the models that Grafana publishes; a variable's `definition` is a text that only its editor shows."""
    register_default_plugins()
    document = json.loads(DASHBOARD.read_text())
    read = json.loads(json.dumps(Dashboard.from_json(document), cls=JSONEncoder))
    assert list(lost(document, read)) == [".templating.list[1].definition", ".templating.list[2].definition"]


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")
def test_prometheus_answers_every_query(tmp_path):
    controller = Controller(tmp_path, "ryu", poll_hypervisors="true")
    bridge = WireSwitch(0xA1, {1: b"tap0", 2: b"tap1"})
    bridge.vms = {1: vm_reading(1, 5_000_000, flags=3), 2: vm_reading(2, 0)}
    bridge.marks = {2: port_reading(2)}
    port = free_port()
    (tmp_path / "prometheus.yml").write_text(
        "scrape_configs:\n- {job_name: sdngcc, scrape_interval: 1s, static_configs: [{targets: ['"
        + controller.url[len("http://") :] + "']}]}\n"
    )  # fmt: skip
    prometheus = subprocess.Popen(
        ["prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/tsdb",
         f"--web.listen-address=127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def ask(query):
        url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
                return json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # it is still starting
                return []
            raise AssertionError(f"{query}: {error.read().decode()}") from None
        except OSError:
            return []

    try:
        bridge.connect(controller.address)
        wait_for(lambda: controller.get("/v1/status")["ready"], controller.log)
        bridge.packet_in(1, arp(1, 2))
        bridge.packet_in(2, arp(2, 1))
        bridge.packet_in(1, ipv4(1, 2))
        moved = [0]

        def answered():
            # Everything moves, so that rates have something to show.
            moved[0] += 50
            bridge.marks[2] = port_reading(2, count=moved[0])._replace(bytes=moved[0] * 1000)
            bridge.vms[1] = vm_reading(1, 5_000_000, flags=3)._replace(drops=moved[0])
            return [title for title, query in queries() if not ask(query)] == []

        wait_for(answered, lambda: str([title for title, query in queries() if not ask(query)]))
        [limited] = ask("sum(sdngcc_vm_congested)")
        assert limited["value"][1] == "1"
    finally:
        prometheus.terminate()
        prometheus.wait(PATIENCE_S)
        bridge.close()
        controller.stop()
