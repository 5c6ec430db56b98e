# SPDX-License-Identifier: Apache-2.0
"""The rim to Ryu or os-ken.

``reader`` reads connections, ``admission`` lets them in, ``identities`` tells whose a datapath id is: plain objects.
``connections`` ties them to sockets and the framework, whose names are in ``names``; ``hub`` waits for sockets, ``tls``
has the keys, ``launcher`` starts it all.
"""
