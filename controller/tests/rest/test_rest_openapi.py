# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document held against the real controller: whatever it allows is tried, and what it does not."""

import json
import subprocess
import sys

import pytest

from ..databases.test_ovsdb import needs_ovsdb
from ..processes import wait_for
from .test_rest_process import TOKEN, ask, bridge, database, known, start, token_file

__all__ = ["bridge", "database", "token_file"]  # fixtures


# The event stream has no end; test_rest_events.py sees to it. A drained controller is not ready, and says so with 503,
# so draining comes by itself.
# DELETE takes a VM's policy back; the VM is there as before, which that check takes for a fault.
REST = ["--exclude-path", "/v1/events", "--exclude-path", "/v1/drain", "--exclude-checks", "use_after_free"]
DRAIN = ["--include-path", "/v1/drain", "--phases", "coverage,fuzzing"]  # there are no links to follow


@needs_ovsdb
@pytest.mark.parametrize("paths", [REST, DRAIN], ids=["all else", "drain"])
def test_schemathesis_finds_no_fault(tmp_path, bridge, database, token_file, paths):
    token_file.write_text(f"alice {TOKEN} admin\n")
    controller = start(tmp_path, bridge, ovsdb=database.remote, rest_token_file=token_file,
                       tenant_file=tmp_path / "tenants.json")  # fmt: skip
    try:
        wait_for(lambda: known(controller, "neutron-0"), controller.log)
        wait_for(lambda: json.load(ask(controller, "/v1/status"))["ready"], controller.log)
        command = [
            sys.executable, "-m", "schemathesis.cli", "run", f"{controller.url}/v1/openapi.json",
            "-H", f"Authorization: Bearer {TOKEN}", "--checks", "all", *paths,
            "--max-examples", "25", "--seed", "1", "--no-color", "--suppress-health-check", "all",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=1200)
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        status = json.load(ask(controller, "/v1/status"))
        assert status["counters"].get("internal_errors", 0) == 0, controller.log()
        assert TOKEN not in controller.log()
    finally:
        controller.stop()
