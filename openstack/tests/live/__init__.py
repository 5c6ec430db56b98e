# SPDX-License-Identifier: Apache-2.0
"""Tests on a Debian that runs Neutron's own packages as services: ``make check-openstack`` starts them there."""
