#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# First process inside the virtual machine: mounts what programs expect, then runs the Python module
# SDNGCC_MAIN (the agent, for an experiment) and powers off.
#
# The host's files are the root, read-only; what is written goes to tmpfs, except below the one directory given
# by SDNGCC_OUT, which is mounted from the host read-write. The kernel passes its unknown parameters as environment.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C.UTF-8
# Behind the system's programs those that it lacks, which setup.sh unpacked.
PATH=$(dirname "$SDNGCC_PYTHON"):$PATH:$SDNGCC_PROGRAMS/links
export PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t debugfs debug /sys/kernel/debug
for directory in /run /var/log; do
	mount -t tmpfs none "$directory"
done
mkdir -p /dev/pts /run/netns /run/openvswitch /run/lock /run/out
mount -t devpts devpts /dev/pts
mount -t hostfs none /run/out -o "$SDNGCC_OUT"
unset SDNGCC_OUT # no run may depend on where its results go
mkdir -p /dev/shm 2>/dev/null && mount -t tmpfs none /dev/shm
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
# What lies below /tmp on the host (a checkout, a build cache) stays readable; writes go to tmpfs.
mkdir -p /run/overlay/upper /run/overlay/work
mount -t overlay overlay /tmp -o lowerdir=/tmp,upperdir=/run/overlay/upper,workdir=/run/overlay/work
ip link set lo up
# All machines of the experiment share one CPU and its input queue. With 32 senders their bursts of one instant
# overflow the default of 1000 packets, and what is lost then, control connections included, no network lost.
echo 1000000 >/proc/sys/net/core/netdev_max_backlog
# They share one limit of TCP memory, too, in pages: under it, no machine of the experiment feels another's buffers.
# The agent fails a run in which one did.
echo "900000 900000 900000" >/proc/sys/net/ipv4/tcp_mem

if [ -n "$SDNGCC_TERMINAL" ]; then
	"$SDNGCC_PYTHON" -m "$SDNGCC_MAIN" /run/out/job.json
else
	"$SDNGCC_PYTHON" -m "$SDNGCC_MAIN" /run/out/job.json </dev/null
fi
echo "sdngcc-exit $?"
poweroff -f
