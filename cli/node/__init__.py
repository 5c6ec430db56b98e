# SPDX-License-Identifier: Apache-2.0
"""A compute node: what it is set up with, and whether that is in force.

``host`` runs commands and reads files, ``facts`` are what it finds, ``findings`` judges facts, ``queues`` decides which
queuing disciplines an uplink needs, ``setup`` plans changes, applies them and takes them back.
"""
