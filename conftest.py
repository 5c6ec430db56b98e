# SPDX-License-Identifier: Apache-2.0
"""Settings of all tests: a busy machine makes Hypothesis slow, never wrong; files with keys are for their owner."""

import os
from typing import List

import pytest
from hypothesis import HealthCheck, settings

from sdngcc.testbed.programs import search_path

settings.register_profile("shared-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared-machine")
# Debian has daemons, ovsdb-server say, where the PATH of who is not root does not lead.
# setup.sh unpacked others into the cache.
os.environ["PATH"] = search_path()
# A key that everybody may read is refused.
os.umask(0o027)

# Marks of tests that take long, the longest first.
LONG = ("release", "uml", "slow")


def pytest_collection_modifyitems(items: List[pytest.Item]) -> None:
    """Put tests that take long before the others: workers share what is left, and none ends long after the rest."""
    items.sort(key=lambda item: next((place for place, mark in enumerate(LONG) if item.get_closest_marker(mark)),
                                     len(LONG)))
