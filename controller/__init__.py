# SPDX-License-Identifier: Apache-2.0
"""The controller: it polls switches for ECN marks and tells the virtual machines that caused them.

``engine`` ties plain policy objects together; ``app`` is the only module that knows an OpenFlow
framework, through ``framework/``.  Rates are bytes/s and times nanoseconds, except where REST and OVSDB,
like Open vSwitch itself, speak bit/s.
"""
