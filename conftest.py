# SPDX-License-Identifier: Apache-2.0
"""Settings of all tests: a busy machine makes Hypothesis slow, never wrong; files with keys are for their owner."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("shared-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared-machine")
# A key that everybody may read is refused.
os.umask(0o027)
