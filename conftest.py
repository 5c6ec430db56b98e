# SPDX-License-Identifier: Apache-2.0
"""Settings of all tests: a busy machine makes Hypothesis slow, never wrong."""

from hypothesis import HealthCheck, settings

settings.register_profile("shared-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared-machine")
