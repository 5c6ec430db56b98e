# SPDX-License-Identifier: Apache-2.0
"""What speaks bytes: OpenFlow 1.3, the experimenter multiparts, signed messages to shims, packets."""
