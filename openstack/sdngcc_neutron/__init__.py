# SPDX-License-Identifier: Apache-2.0
"""Extensions for Neutron's agents: QoS policies become weight, guarantee and ceiling of sdn-gcc's shim.

``mapping`` decides and imports nothing of Neutron; the other modules are the rim towards Neutron and OVSDB.
"""
