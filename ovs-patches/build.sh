#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Applies the hooks to a source tree and copies our own files in:
#
#     build.sh linux <kernel source>
#     build.sh ovs <Open vSwitch source>
#
# Either gets the patches of its own version, without any fuzz.  The tree builds as always afterwards; Open vSwitch then
# needs automake, autoconf and libtool, because new files change its Makefile.  A tree that has the patches already only
# gets the files anew.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")

# Prints what was wrong and ends with status 1.
die() {
	echo "build.sh: $*" >&2
	exit 1
}

# Applies the series in folder $1 to tree $2, unless it is there already.
apply_series() {
	stamp=$2/.shim-patches
	names=$(grep -v '^#' "$1/series")
	# shellcheck disable=SC2086 # names in a series hold no spaces
	sum=$(cd "$1" && cat series $names | sha256sum)
	if [ -e "$stamp" ]; then
		[ "$(cat "$stamp")" = "$sum" ] ||
			die "$2 has other patches applied; start from a fresh source tree"
		return
	fi
	for name in $names; do
		patch -p1 -F0 -d "$2" --no-backup-if-mismatch -N -s -i "$1/$name" ||
			die "$1/$name does not apply to $2; start from a fresh source tree of the version in the folder's name"
	done
	echo "$sum" >"$stamp"
}

# Copies file $1 to $2 unless it is the same already, so that make rebuilds
# only what changed.
put() {
	cmp -s "$1" "$2" && return
	mkdir -p "$(dirname "$2")"
	cp "$1" "$2"
}

# Patches the kernel source $1.
build_linux() {
	[ -e "$1/net/openvswitch/vport.c" ] || die "$1 is no kernel source with net/openvswitch"
	version=$(sed -n 's/^VERSION = //p' "$1/Makefile").$(sed -n 's/^PATCHLEVEL = //p' "$1/Makefile")
	[ -e "$here/linux/$version/series" ] ||
		die "no patches for Linux $version; there are those for $(ls "$here/linux")"
	apply_series "$here/linux/$version" "$1"
	(cd "$root" && find shim/core shim/kernel -name '*.[ch]' -o -name '*.mk') | while read -r name; do
		put "$root/$name" "$1/net/openvswitch/$name"
	done
	# The Makefile builds what is there: what is no more must go.
	(cd "$1/net/openvswitch" && find shim -name '*.[ch]') | while read -r name; do
		[ -e "$root/$name" ] || rm "$1/net/openvswitch/$name"
	done
}

# Patches the Open vSwitch source $1.
build_ovs() {
	[ -e "$1/vswitchd/bridge.c" ] || die "$1 is no Open vSwitch source"
	version=$(sed -n 's/^AC_INIT(openvswitch, \([0-9]*\.[0-9]*\)\..*/\1/p' "$1/configure.ac")
	[ -e "$here/ovs/$version/series" ] ||
		die "no series for Open vSwitch $version; there are those for $(cd "$here/ovs" && echo [0-9]*)"
	apply_series "$here/ovs/$version" "$1"
	(cd "$here/ovs/files" && find . -type f) | while read -r name; do
		put "$here/ovs/files/$name" "$1/$name"
	done
	put "$root/shim/kernel/uapi/ovs_shim.h" "$1/include/linux/ovs_shim.h"
	# The userspace datapath has the shim's engine in it.
	(cd "$root" && find shim/core shim/user/list.h shim/user/memory.h -name '*.[ch]') | while read -r name; do
		put "$root/$name" "$1/lib/$name"
	done
}

[ $# = 2 ] || die "usage: build.sh linux|ovs <source directory>"
[ -d "$2" ] || die "$2 is no directory"
source=$(cd "$2" && pwd)
case $1 in
linux) build_linux "$source" ;;
ovs) build_ovs "$source" ;;
*) die "unknown target '$1'; there are: linux, ovs" ;;
esac
