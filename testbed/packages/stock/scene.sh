#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs inside the machine. Makes what a compute node has before sdn-gcc comes: the bridge br0 with the network card eth0
# and four virtual machines, tap0 to tap3, of which tap0's is behind a tap device and the others are namespaces. The
# card eth1, at the other end of eth0's cable, is all of the world outside, the namespace far.
#
#     scene.sh <what a machine sends if nothing limits it, kb/s> <the cards' speed, Mb/s>
set -eu

here=$(dirname "$0")
to=10.0.0.100

# Starts a program of traffic.py as a service $1, in the namespace $2.
start() {
	name=$1
	space=$2
	shift 2
	systemd-run --quiet --unit "$name" ip netns exec "$space" python3 -B "$here/traffic.py" "$@"
}

ip netns add far
ip link set eth1 netns far
ip -n far addr add $to/24 dev eth1
ip -n far link set eth1 up
ip -n far link set lo up
ip netns exec far tc qdisc add dev eth1 clsact
ethtool -s eth0 speed "$2" duplex full
ip link set eth0 up

ip tuntap add tap0 mode tap
ip link set tap0 up
ip -n far neigh add 10.0.0.10 lladdr 02:00:00:00:00:10 dev eth1
for n in 1 2 3; do
	ip netns add "vm$n"
	ip link add "tap$n" up type veth peer name eth0 netns "vm$n"
	ip -n "vm$n" link set eth0 address "02:00:00:00:00:1$n" up
	ip -n "vm$n" addr add "10.0.0.1$n/24" dev eth0
done
for n in 0 1 2 3; do
	ip netns exec far tc filter add dev eth1 ingress protocol ip flower src_ip "10.0.0.1$n" action pass
done

# After a boot the database has them all.
ovs-vsctl --may-exist add-br br0
for port in eth0 tap0 tap1 tap2 tap3; do
	ovs-vsctl --may-exist add-port br0 "$port"
done

start sink far sink
start count far count eth1 /run/count
mac=$(ip -n far -br link show dev eth1 | awk '{ print $3 }')
systemd-run --quiet --unit vm0 python3 -B "$here/traffic.py" tap tap0 02:00:00:00:00:10 10.0.0.10 "$mac" $to "$1"
start vm1 vm1 tcp $to "$1"
start vm2 vm2 udp $to "$1"
start vm3 vm3 udp $to "$1"
# Python takes its time to start on an emulated processor.
until [ -s /run/count ]; do sleep 0.1; done
