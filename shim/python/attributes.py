# SPDX-License-Identifier: Apache-2.0
"""The attributes of the generic netlink family ovs_shim, by message: ovs_shim.h as pyroute2 wants it."""

from __future__ import annotations

from pyroute2.netlink import genlmsg, nla

#: Counters of a port, as OVS_SHIM_STATS in ovs_shim.h lists them.
STATS = """
    TX_PACKETS TX_BYTES TX_ECT TX_PACED RX_PACKETS RX_BYTES RX_CE RX_RESTORED DROP_POLICE DROP_HORIZON
    DROP_SEGMENT DROP_MEMORY DROP_FORGED MESSAGES MESSAGE_MARKS REFUSED_SHORT REFUSED_FORM REFUSED_TAG
    REFUSED_REPLAY REFUSED_ADDRESS REFUSED_PEER REFUSED_LAW REPORTS REPORT_BYTES REPORTS_SENT REPORT_BYTES_SENT
    REPORTS_UNSENT REPORTS_NO_KEY DROP_PEER PEERS_FULL PEERS_NO_MEMORY PEERS_COLLECTED RX_WINDOWS FLOWS_FULL
    FLOWS_NO_MEMORY FLOWS_COLLECTED DROP_SOURCE DROP_SPOOFED TX_CE_CLEARED REFUSED_PORT REFUSED_ORIGIN
    MESSAGES_OTHER_KEY PEERS_EVICTED DROP_SHARED FLOWS_EVICTED DROP_WAITING REPORTS_OVERDUE STRAY_PACKETS
    STRAY_BYTES STRAY_PACED STRAY_DROP_POLICE STRAY_DROP_HORIZON STRAY_DROP_WAITING DROP_PATH PATHS_FULL
    PATHS_NO_MEMORY DROP_EARLY TX_AHEAD RX_CE_LOST DROP_UNANSWERED DROP_SIZE REPORTS_DEFERRED
""".split()


class SettingsMessage(genlmsg):
    """SETTINGS_GET and SETTINGS_SET."""

    prefix = "OVS_SHIM_SETTINGS_"
    nla_map = (
        ("OVS_SHIM_SETTINGS_UNSPEC", "none"),
        ("OVS_SHIM_SETTINGS_PAD", "hex"),
        ("OVS_SHIM_SETTINGS_LAW", "asciiz"),
        ("OVS_SHIM_SETTINGS_PERIOD", "uint64"),
        ("OVS_SHIM_SETTINGS_LIMITER", "uint32"),
        ("OVS_SHIM_SETTINGS_BURST", "uint32"),
        ("OVS_SHIM_SETTINGS_QUANTUM", "none"),
        ("OVS_SHIM_SETTINGS_HORIZON", "uint64"),
        ("OVS_SHIM_SETTINGS_SEGMENT", "none"),
        ("OVS_SHIM_SETTINGS_ECN", "uint8"),
        ("OVS_SHIM_SETTINGS_INACTIVE", "uint64"),
        ("OVS_SHIM_SETTINGS_PROTOCOL", "uint8"),
        ("OVS_SHIM_SETTINGS_ACCEPT_V0", "uint8"),
        ("OVS_SHIM_SETTINGS_KEY", "cdata"),
        ("OVS_SHIM_SETTINGS_KEY_SET", "flag"),
        ("OVS_SHIM_SETTINGS_KNOBS", "knobs|nested"),
        ("OVS_SHIM_SETTINGS_LAWS", "laws"),
        ("OVS_SHIM_SETTINGS_OF", "asciiz"),
        ("OVS_SHIM_SETTINGS_PEERS_MAX", "uint32"),
        ("OVS_SHIM_SETTINGS_PEER_IDLE", "uint64"),
        ("OVS_SHIM_SETTINGS_KEY_OTHER", "cdata"),
        ("OVS_SHIM_SETTINGS_KEY_OTHER_SET", "flag"),
        ("OVS_SHIM_SETTINGS_CODEPOINT", "uint8"),
        ("OVS_SHIM_SETTINGS_WAITING_MAX", "uint32"),
        ("OVS_SHIM_SETTINGS_OTHER_KEY_SENDERS", "senders"),
        ("OVS_SHIM_SETTINGS_CONVERSATIONS", "uint8"),
        ("OVS_SHIM_SETTINGS_EARLY", "none"),
        ("OVS_SHIM_SETTINGS_AHEAD", "uint8"),
        ("OVS_SHIM_SETTINGS_BURST_US", "uint32"),
    )

    class knobs(nla):
        """Nest of knobs."""

        nla_map = (("OVS_SHIM_KNOBS_UNSPEC", "none"), ("OVS_SHIM_KNOBS_KNOB", "knob|nested"))

        class knob(nla):
            """One knob."""

            prefix = "OVS_SHIM_KNOB_"
            nla_map = (
                ("OVS_SHIM_KNOB_UNSPEC", "none"),
                ("OVS_SHIM_KNOB_PAD", "hex"),
                ("OVS_SHIM_KNOB_NAME", "asciiz"),
                ("OVS_SHIM_KNOB_VALUE", "uint64"),
                ("OVS_SHIM_KNOB_DEFAULT", "uint64"),
                ("OVS_SHIM_KNOB_MIN", "uint64"),
                ("OVS_SHIM_KNOB_MAX_VALUE", "uint64"),
                ("OVS_SHIM_KNOB_UNIT", "asciiz"),
                ("OVS_SHIM_KNOB_HELP", "asciiz"),
                ("OVS_SHIM_KNOB_SOURCE", "asciiz"),
            )

    class laws(nla):
        """Nest of law names."""

        nla_map = (("OVS_SHIM_LAWS_UNSPEC", "none"), ("OVS_SHIM_LAWS_NAME", "asciiz"))

    class senders(nla):
        """Nest of senders."""

        nla_map = (("OVS_SHIM_SENDERS_UNSPEC", "none"), ("OVS_SHIM_SENDERS_SENDER", "sender"))

        class sender(nla):
            """One sender."""

            prefix = "OVS_SHIM_SENDER_"
            nla_map = (
                ("OVS_SHIM_SENDER_UNSPEC", "none"),
                ("OVS_SHIM_SENDER_ID", "uint32"),
                ("OVS_SHIM_SENDER_SILENT", "uint32"),
            )


class PortMessage(genlmsg):
    """PORT_GET, PORT_SET, PORT_DEL and MESSAGE."""

    prefix = "OVS_SHIM_PORT_"
    nla_map = (
        ("OVS_SHIM_PORT_UNSPEC", "none"),
        ("OVS_SHIM_PORT_PAD", "hex"),
        ("OVS_SHIM_PORT_IFINDEX", "uint32"),
        ("OVS_SHIM_PORT_NAME", "asciiz"),
        ("OVS_SHIM_PORT_ROLE", "uint32"),
        ("OVS_SHIM_PORT_WEIGHT", "uint32"),
        ("OVS_SHIM_PORT_MIN_RATE", "uint64"),
        ("OVS_SHIM_PORT_MAX_RATE", "uint64"),
        ("OVS_SHIM_PORT_CAPACITY", "uint64"),
        ("OVS_SHIM_PORT_STATS", "stats"),
        ("OVS_SHIM_PORT_LAW", "asciiz"),
        ("OVS_SHIM_PORT_ADDRESSES", "addresses|nested"),
        ("OVS_SHIM_PORT_QDISC", "uint32"),
        ("OVS_SHIM_PORT_MESSAGE", "cdata"),
        ("OVS_SHIM_PORT_OVERHEAD", "uint32"),
    )

    class stats(nla):
        """Nest of counters."""

        prefix = "OVS_SHIM_STAT_"
        nla_map = (
            ("OVS_SHIM_STAT_UNSPEC", "none"),
            ("OVS_SHIM_STAT_PAD", "hex"),
            *((f"OVS_SHIM_STAT_{name}", "uint64") for name in STATS),
        )

    class addresses(nla):
        """Nest of addresses."""

        nla_map = (("OVS_SHIM_ADDRESSES_UNSPEC", "none"), ("OVS_SHIM_ADDRESSES_ADDRESS", "address|nested"))

        class address(nla):
            """One address, or all with its first bits."""

            prefix = "OVS_SHIM_ADDRESS_"
            nla_map = (
                ("OVS_SHIM_ADDRESS_UNSPEC", "none"),
                ("OVS_SHIM_ADDRESS_VALUE", "cdata"),
                ("OVS_SHIM_ADDRESS_PREFIX", "uint8"),
            )


class LimiterMessage(genlmsg):
    """LIMITER_GET."""

    prefix = "OVS_SHIM_LIMITER_"
    nla_map = (
        ("OVS_SHIM_LIMITER_UNSPEC", "none"),
        ("OVS_SHIM_LIMITER_PAD", "hex"),
        ("OVS_SHIM_LIMITER_VM", "uint32"),
        ("OVS_SHIM_LIMITER_UPLINK", "uint32"),
        ("OVS_SHIM_LIMITER_RATE", "uint64"),
        ("OVS_SHIM_LIMITER_SHARE", "uint64"),
        ("OVS_SHIM_LIMITER_SENT_RATE", "uint64"),
        ("OVS_SHIM_LIMITER_TX_BYTES", "uint64"),
        ("OVS_SHIM_LIMITER_TX_PACKETS", "uint64"),
        ("OVS_SHIM_LIMITER_DROPS", "uint64"),
        ("OVS_SHIM_LIMITER_ACTIVE", "uint8"),
        ("OVS_SHIM_LIMITER_CONGESTED", "uint8"),
        ("OVS_SHIM_LIMITER_TIME", "uint64"),
        ("OVS_SHIM_LIMITER_WEIGHT", "uint32"),
        ("OVS_SHIM_LIMITER_MIN_RATE", "uint64"),
        ("OVS_SHIM_LIMITER_MAX_RATE", "uint64"),
        ("OVS_SHIM_LIMITER_MESSAGES", "uint64"),
        ("OVS_SHIM_LIMITER_MESSAGE_MARKS", "uint64"),
        ("OVS_SHIM_LIMITER_REFUSED", "uint64"),
    )


class PeerMessage(genlmsg):
    """PEER_GET, PEER_SET and PEER_DEL."""

    prefix = "OVS_SHIM_PEER_"
    nla_map = (
        ("OVS_SHIM_PEER_UNSPEC", "none"),
        ("OVS_SHIM_PEER_PAD", "hex"),
        ("OVS_SHIM_PEER_VM", "uint32"),
        ("OVS_SHIM_PEER_VM_NAME", "asciiz"),
        ("OVS_SHIM_PEER_ADDRESS", "cdata"),
        ("OVS_SHIM_PEER_WEIGHT", "uint32"),
        ("OVS_SHIM_PEER_RATE", "uint64"),
        ("OVS_SHIM_PEER_TX_BYTES", "uint64"),
        ("OVS_SHIM_PEER_TX_PACKETS", "uint64"),
        ("OVS_SHIM_PEER_DROPS", "uint64"),
        ("OVS_SHIM_PEER_RX_BYTES", "uint64"),
        ("OVS_SHIM_PEER_RX_PACKETS", "uint64"),
        ("OVS_SHIM_PEER_RX_MARKS", "uint64"),
        ("OVS_SHIM_PEER_TIME", "uint64"),
        ("OVS_SHIM_PEER_SINCE", "uint64"),
        ("OVS_SHIM_PEER_LOCAL", "cdata"),
        ("OVS_SHIM_PEER_UPLINK", "uint32"),
        ("OVS_SHIM_PEER_VLAN", "uint16"),
        ("OVS_SHIM_PEER_TUNNEL", "cdata"),
        ("OVS_SHIM_PEER_TUNNEL_ID", "uint64"),
    )


class PathMessage(genlmsg):
    """PATH_GET."""

    prefix = "OVS_SHIM_PATH_"
    nla_map = (
        ("OVS_SHIM_PATH_UNSPEC", "none"),
        ("OVS_SHIM_PATH_PAD", "hex"),
        ("OVS_SHIM_PATH_VM", "uint32"),
        ("OVS_SHIM_PATH_PREFIX", "cdata"),
        ("OVS_SHIM_PATH_BITS", "uint8"),
        ("OVS_SHIM_PATH_SCOPE", "uint8"),
        ("OVS_SHIM_PATH_RATE", "uint64"),
        ("OVS_SHIM_PATH_SENT_RATE", "uint64"),
        ("OVS_SHIM_PATH_TX_BYTES", "uint64"),
        ("OVS_SHIM_PATH_TX_PACKETS", "uint64"),
        ("OVS_SHIM_PATH_HELD", "uint64"),
        ("OVS_SHIM_PATH_LIMITED", "uint8"),
        ("OVS_SHIM_PATH_TIME", "uint64"),
    )
