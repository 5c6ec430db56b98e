# SPDX-License-Identifier: Apache-2.0
"""What the tests that need builds and a booted kernel share."""

import pytest

from sdngcc.testbed.build import Artifacts, build


@pytest.fixture(scope="session")
def artifacts() -> Artifacts:
    """Everything built; `make test` has built it before."""
    return build()


@pytest.fixture(scope="session")
def stock_modules(artifacts: Artifacts) -> list:
    """The modules with the distribution's openvswitch.ko in the place of the patched one."""
    return [*artifacts.modules[:-1], str(artifacts.kernel_build / "net" / "openvswitch" / "openvswitch.ko")]
