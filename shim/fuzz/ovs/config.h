/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/shim-frame.c of the Open vSwitch series reads and writes the frames of the fuzzers.  These
 * headers have, under Open vSwitch's names, the few things that it takes from there.  Its own
 * lib/shim-host.h is left out: the engine's host is user space.
 */
#define SHIM_HOST_H 1

/* A frame; see dp-packet.h. */
struct dp_packet;
