# SPDX-License-Identifier: Apache-2.0
"""The core for the tests, and Hypothesis's patience: deterministic, and shorter under sanitizers."""

import os
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from sdngcc.shim import core as binding

# Examples of each property; what a release must pass has six times as many.
EXAMPLES = 600 if "SDNGCC_RELEASE" in os.environ else 100

settings.register_profile("core", max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
                          suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("core-sanitized", parent=settings.get_profile("core"), max_examples=EXAMPLES // 4)
settings.load_profile(os.environ.get("SDNGCC_CORE_PROFILE", "core"))


@pytest.fixture(scope="session")
def core() -> Any:
    """ffi and lib of the core, with the flags the environment asks for."""
    ffi, lib = binding.load()
    return SimpleNamespace(ffi=ffi, lib=lib)
