# SPDX-License-Identifier: Apache-2.0
"""What CPUs are lent: no more passes than a bucket lets pass, nothing is lost, and what is read is exact."""

import subprocess
from pathlib import Path

import pytest

from sdngcc.shim import core as binding

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the program that draws an order of CPUs, ticks and packets."""
    path = tmp_path_factory.mktemp("leases") / "leases"
    subprocess.run(["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-fsanitize=address,undefined",
                    "-fno-sanitize-recover=all", "-o", str(path), str(HERE / "leases.c"),
                    *map(str, binding.sources() + binding.host_sources())], check=True)
    return path


@pytest.mark.parametrize("law", ["static", "eyeq", "hygenicc"])
@pytest.mark.parametrize("limiter", ["police", "pace"])
@pytest.mark.parametrize("cpus", [1, 2, 4])
def test_leases_pass_what_the_bucket_would_and_lose_nothing(program: Path, limiter: str, law: str, cpus: int) -> None:
    """The bound of lease.c, counters, all of the rate, and that all comes back, for some orders."""
    for seed in (1, 2, 3):
        done = subprocess.run([str(program), limiter, law, str(cpus), str(seed)], capture_output=True, text=True,
                              timeout=300)
        assert done.returncode == 0, f"seed {seed}: {done.stdout}{done.stderr}"
