# SPDX-License-Identifier: Apache-2.0
"""The datapath on several CPUs: kernels that look for races and lock mistakes, and what they run."""
