# SPDX-License-Identifier: Apache-2.0
"""An engine for each test, and the account after it: nothing leaks, nothing that must not be was seen."""

import os
from types import SimpleNamespace
from typing import Any, Callable, Iterator, List

import pytest
from hypothesis import HealthCheck, settings

from sdngcc.shim import core as binding

from .host import Host

settings.register_profile("engine", max_examples=60, deadline=None, derandomize=True, database=None,
                          suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
settings.register_profile("engine-sanitized", parent=settings.get_profile("engine"), max_examples=15)


@pytest.fixture(scope="session")
def core() -> Any:
    """ffi and lib of the core, with the flags the environment asks for."""
    ffi, lib = binding.load()
    return SimpleNamespace(ffi=ffi, lib=lib)


@pytest.fixture(scope="session")
def effort() -> Any:
    """Hypothesis's settings: fewer examples under sanitizers."""
    return settings.get_profile("engine-sanitized" if "SDNGCC_CORE_PROFILE" in os.environ else "engine")


@pytest.fixture(autouse=True)
def account(core: Any) -> Iterator[None]:
    """The clock begins anew before a test; after it, all memory is free and no warning came."""
    lib = core.lib
    lib.shim_host_clock_ns = 10**9
    lib.shim_host_fail_at = lib.shim_host_fail_count = lib.shim_host_lock_ns = 0
    warnings = lib.shim_host_warnings
    allocated = lib.shim_host_allocated
    yield
    lib.shim_host_fail_at = 0
    assert lib.shim_host_warnings == warnings, "WARN_ON_ONCE() came"
    assert lib.shim_host_allocated == allocated, "objects leaked"


@pytest.fixture
def hosts(core: Any, account: None) -> Iterator[Callable[..., Host]]:
    """A maker of engines, which are removed after the test."""
    made: List[Host] = []

    def make(**settings_of: int) -> Host:
        made.append(Host(core, sender=len(made) + 1, **settings_of))
        return made[-1]

    yield make
    for host in made:
        host.close()


@pytest.fixture
def host(hosts: Callable[..., Host]) -> Host:
    """One engine."""
    return hosts()
