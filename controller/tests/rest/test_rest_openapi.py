# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document held against the real controller: whatever it allows is tried, and what it does not."""

import json
import subprocess
import sys

from ..databases.test_ovsdb import needs_ovsdb
from ..processes import wait_for
from .test_rest_process import TOKEN, ask, bridge, database, known, start, token_file

__all__ = ["bridge", "database", "token_file"]  # fixtures


@needs_ovsdb
def test_schemathesis_finds_no_fault(tmp_path, bridge, database, token_file):
    controller = start(tmp_path, bridge, ovsdb=database.remote, rest_token_file=token_file)
    try:
        wait_for(lambda: known(controller, "neutron-0"), controller.log)
        command = [
            sys.executable, "-m", "schemathesis.cli", "run", f"{controller.url}/v1/openapi.json",
            # The event stream has no end; test_rest_events.py and the tests below see to it.
            "-H", f"Authorization: Bearer {TOKEN}", "--checks", "all", "--exclude-path", "/v1/events",
            "--max-examples", "25", "--seed", "1", "--no-color", "--suppress-health-check", "all",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=540)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        status = json.load(ask(controller, "/v1/status"))
        assert status["counters"].get("internal_errors", 0) == 0, controller.log()
        assert TOKEN not in controller.log()
    finally:
        controller.stop()
