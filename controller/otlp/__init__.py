# SPDX-License-Identifier: Apache-2.0
"""OpenTelemetry metrics: a receiver in a process of its own, and what passes between it and the controller."""
