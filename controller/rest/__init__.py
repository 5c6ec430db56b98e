# SPDX-License-Identifier: Apache-2.0
"""REST under /v1, one file a resource: what every machine gets and why, and its policy.

Rates are bit/s, as in Open vSwitch.  Errors are JSON: {"error": what, "field": which, "allowed": range,
"in_force": what stays, "candidates": whom an ambiguous name may mean}.
"""
