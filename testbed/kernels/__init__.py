# SPDX-License-Identifier: Apache-2.0
"""The shim on other kernels than the testbed's: patches of the testbed's own for them, and ``make check-kernels``."""
