# SPDX-License-Identifier: Apache-2.0
"""The rim to Ryu or os-ken: names, the reader of connections, TLS, the launcher."""
