# SPDX-License-Identifier: Apache-2.0
"""Law vcc under real TCP stacks: data arrive whole, and who uses ECN, scale, SACK and timestamps is as it should be.

Arguments: the traffic generator (not used), the module that the shim is part of.
"""

from __future__ import annotations

import time

from lab import BRIDGE, MODULE, U_6, V1, V1_6, Lab, U, check, equal, main, run, unload
from stacks import MIB, Transfer, addresses, connection, marks, shape, sysctl_ecn, transfer

from sdngcc.shim.netlink import ShimClient, ShimRefused

# Bits of tcpi_options.
TIMESTAMPS, SACK, SCALE, ECN, ECN_SEEN = 1, 2, 4, 8, 16
USUAL = TIMESTAMPS | SACK | SCALE

lab = Lab()
WAYS = (("v1", U, "s3", ""), ("v1", U_6, "s3", ""), ("u", V1, "e3", "u"), ("u", V1_6, "e3", "u"))
addresses()
# Both directions send at 100 Mb/s, and mark or drop from 20 kB on.
shape("s3", "")
shape("e3", "u")
# u has no shim that would give back an ECT(1), and Linux refuses ECN to a SYN that has it.
lab.shim.settings_set(law="vcc", ecn=False)


@check
def virtual() -> None:
    """A guest without ECN and a peer with it: marks instead of drops, both ways, single packets and 64 KiB ones"""
    for peer in (1, 2):
        sysctl_ecn(0, peer)
        for segments in (1, 65535):
            for device, name in (("e1", "v1"), ("e3", "u")):
                run(f"ip -n {name} link set {device} gso_max_segs {segments}")
            for sender, address, device, name in WAYS:
                if sender == "u" and peer == 2:
                    continue  # nobody asks
                what = f"{sender} to {address}, tcp_ecn {peer}, {segments} segments"
                marked = marks(device, name)
                client, server = transfer(sender, address)
                guest, other = (client, server) if sender == "v1" else (server, client)
                equal(guest.options & (ECN | ECN_SEEN), 0, f"{what}: the guest's ECN")
                equal(other.options & ECN, ECN, f"{what}: the peer's ECN")
                equal((client.options & USUAL, server.options & USUAL), (USUAL, USUAL), f"{what}: options")
                assert marks(device, name) > marked, f"{what}: no marks"
                equal(client.retransmitted, 0, f"{what}: retransmissions")


@check
def refused() -> None:
    """A peer without ECN: no ECN, data arrive"""
    sysctl_ecn(0, 0)
    for sender, address, _, _ in WAYS:
        client, server = transfer(sender, address)
        equal((client.options, server.options), (USUAL, USUAL), f"{sender} to {address}")


@check
def own() -> None:
    """A guest with ECN is left alone"""
    sysctl_ecn(1, 1)
    before = lab.stats("s1")["rx_windows"]
    for sender, address, device, name in WAYS:
        marked = marks(device, name)
        client, server = transfer(sender, address)
        equal(client.options & ECN, ECN, f"{sender} to {address}: sender")
        equal(server.options, USUAL | ECN | ECN_SEEN, f"{sender} to {address}: receiver")
        assert marks(device, name) > marked, f"{sender} to {address}: no marks"
    equal(lab.stats("s1")["rx_windows"], before, "windows lowered")


@check
def bad_path() -> None:
    """Lost, doubled and reordered packets, and 64 KiB ones: data arrive whole and in time"""
    sysctl_ecn(0, 1)
    netem = "netem delay 2ms 1ms loss 1% duplicate 1% reorder 10% limit 1000 rate 100mbit"
    for device, name in (("s3", ""), ("e3", "ip netns exec u ")):
        run(f"{name}tc qdisc replace dev {device} root {netem}")
    try:
        # One transfer may meet two timeouts of 200 ms where another meets none.
        took = {"none": 0.0, "vcc": 0.0}
        for sender, address, _, _ in WAYS * 3:
            for law in took:
                lab.shim.settings_set(law=law)
                started = time.monotonic()
                transfer(sender, address)
                took[law] += time.monotonic() - started
        print(f"# {took} s", flush=True)
        assert took["vcc"] < 4 * took["none"], took
    finally:
        for device, name in (("s3", ""), ("e3", "u")):
            run(f"{'ip netns exec u ' if name else ''}tc qdisc del dev {device} root")
            shape(device, name)


@check
def dctcp() -> None:
    """Target 1 between a guest without ECN and one side of DCTCP"""
    sysctl_ecn(0, 1)
    lab.shim.settings_set(knobs={"target": 1})
    for sender, address, device, name in WAYS:
        marked = marks(device, name)
        client, _ = transfer(sender, address)
        equal(client.retransmitted, 0, f"{sender} to {address}: retransmissions")
        assert marks(device, name) > marked, f"{sender} to {address}: no marks"
    lab.shim.settings_set(knobs={"target": 0})


@check
def late() -> None:
    """Connections that began without a law go on under vcc and without it, untouched"""
    for vm, peer in ((0, 1), (1, 1)):
        sysctl_ecn(vm, peer)
        lab.shim.settings_set(law="none")
        for sender, address, _, _ in WAYS:
            lab.shim.settings_set(law="none")
            with connection(sender, address) as (client, server):
                moving = Transfer(client, server, 4 * MIB)
                time.sleep(0.05)
                before = lab.stats("s1")["rx_windows"]
                lab.shim.settings_set(law="vcc")
                moving.end()
                equal(lab.stats("s1")["rx_windows"], before, f"{sender} to {address}: windows lowered")


@check
def shared() -> None:
    """A window-total of 64 kB holds one connection to it, a late one too, never below"""
    sysctl_ecn(0, 0)
    run("tc qdisc replace dev s3 root netem delay 10ms rate 100mbit limit 10000")
    try:
        for begin in ("vcc", "none"):
            lab.shim.settings_set(law=begin)
            with connection("v1", U) as (client, server):
                if begin == "none":
                    Transfer(client, server, 4 * MIB).end()
                lab.shim.settings_set(law="vcc", knobs={"window-total": 64000})
                Transfer(client, server, 2 * MIB).end()
                started = time.monotonic()
                Transfer(client, server, 8 * MIB).end()
                mbps = 8 * MIB * 8 / (time.monotonic() - started) / 1e6
            print(f"# {begin}: {mbps:.1f} Mb/s", flush=True)
            assert mbps > 0.9 * 64000 * 8 / 0.0105 / 1e6, f"{begin}: {mbps:.1f} Mb/s is too little"
            if begin == "vcc":
                assert mbps < 1.1 * 64000 * 8 / 0.010 / 1e6, f"{mbps:.1f} Mb/s is too much"
    finally:
        lab.shim.settings_set(law="vcc", knobs={"window-total": 0})
        run("tc qdisc del dev s3 root")
        shape("s3", "")


@check
def changes() -> None:
    """Laws and roles come and go under connections; their data arrive"""
    sysctl_ecn(0, 1)
    with connection("v1", U) as first, connection("u", V1_6) as second:
        moving = [Transfer(*first, 16 * MIB), Transfer(*second, 16 * MIB)]
        for number in range(40):
            if number % 4 == 3:
                lab.shim.port_del("s1")
                time.sleep(0.01)
                lab.shim.port_set("s1", role="vm")
            else:
                lab.shim.settings_set(law=("vcc", "static", "none")[number % 3])
            time.sleep(0.02)
        lab.shim.settings_set(law="vcc")
        for one in moving:
            one.end()


@check
def module_unloaded() -> None:
    """The module is unloaded with connections that go on when it is back"""
    lab.shim.close()
    sysctl_ecn(0, 1)
    with ShimClient() as lab.shim:
        lab.roles()
        lab.shim.settings_set(law="vcc", ecn=False)
    with connection("v1", U) as (client, server):
        moving = Transfer(client, server, 8 * MIB)
        time.sleep(0.1)
        run("ovs-appctl exit")
        time.sleep(0.5)
        unload()
        run(f"insmod {MODULE}")
        run("ovs-vswitchd --pidfile --detach --log-file=/run/vswitchd.log")
        lab.route()
        shape("s3", "")
        with ShimClient() as lab.shim:
            try:
                lab.roles()
            except ShimRefused as error:
                raise AssertionError(f"roles on {BRIDGE}: {error}") from error
            lab.shim.settings_set(law="vcc", ecn=False)
        moving.end()


main()
