#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Adds the series of ovs-patches/ovs to Debian's own source package of Open vSwitch, as patches of its debian/patches
# and with a version of its own:
#
#     apt-get source openvswitch
#     packaging/openvswitch/prepare.sh openvswitch-3.1.0
#     cd openvswitch-3.1.0 && dpkg-buildpackage --build=binary --no-sign
#
# dpkg-buildpackage applies them, without any fuzz, before it builds.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$(dirname "$here")")

# Prints what was wrong and ends with status 1.
die() {
	echo "prepare.sh: $*" >&2
	exit 1
}

[ $# = 1 ] || die "usage: prepare.sh <unpacked source package of Open vSwitch>"
[ -e "$1/debian/changelog" ] || die "$1 is no unpacked source package"
source=$(cd "$1" && pwd)
version=$(dpkg-parsechangelog -l "$source/debian/changelog" -S Version)
suite=$(dpkg-parsechangelog -l "$source/debian/changelog" -S Distribution)
minor=$(printf '%s\n' "$version" | sed -n 's/^\([0-9]*:\)\{0,1\}\([0-9]*\.[0-9]*\)\..*/\2/p')
series=$root/ovs-patches/ovs/$minor
[ -e "$series/series" ] || die "no series for Open vSwitch $version; there are those for $(cd "$root/ovs-patches/ovs" && echo [0-9]*)"
case $version in *+~sdngcc*) die "$1 has the series already" ;; esac

# What is new comes as one patch: Debian's format of source packages knows no files beside patches.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/a" "$work/b/include/linux"
cp -R "$root/ovs-patches/ovs/files/." "$work/b/"
cp "$root/shim/kernel/uapi/ovs_shim.h" "$work/b/include/linux/"
cp -R "$root/shim/core" "$work/b/lib/shim/"
cp "$root/shim/user/list.h" "$root/shim/user/memory.h" "$work/b/lib/shim/user/"
# Not 1970: patch takes that for a file that is not there.
find "$work/b" -type f -exec touch -d '2000-01-01 00:00:00 UTC' {} +
patches=$source/debian/patches
mkdir -p "$patches/sdngcc"
{
	printf 'Description: Add the files of sdn-gcc\n What the other patches of this folder build and call.\nForwarded: no\n\n'
	(cd "$work" && TZ=UTC diff -ruN a b) || [ $? = 1 ]
} >"$patches/sdngcc/0000-add-the-files-of-sdn-gcc.patch"
echo sdngcc/0000-add-the-files-of-sdn-gcc.patch >>"$patches/series"
grep -v '^#' "$series/series" | while read -r name; do
	cp "$series/$name" "$patches/sdngcc/"
	echo "sdngcc/${name##*/}" >>"$patches/series"
done

# apt is told to keep these packages where Debian has newer ones, which have no shim.
cp "$here/sdngcc-openvswitch.pref" "$source/debian/"
echo debian/sdngcc-openvswitch.pref etc/apt/preferences.d >>"$source/debian/openvswitch-common.install"

# "+~": later than the version it is made of, earlier than each update of Debian's of that, on every release.
{
	printf 'openvswitch (%s+~sdngcc1) %s; urgency=medium\n\n' "$version" "$suite"
	printf '  * Add the shim: settings in the database, counters, multipart messages.\n\n'
	printf ' -- sdn-gcc authors <maintainers@sdn-gcc.example>  %s\n\n' \
		"$(LC_ALL=C date -u -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}" '+%a, %d %b %Y %H:%M:%S +0000')"
	cat "$source/debian/changelog"
} >"$work/changelog"
cat "$work/changelog" >"$source/debian/changelog"
echo "prepare.sh: $source is openvswitch $version+~sdngcc1"
