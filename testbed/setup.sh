#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Prepares a machine with Debian 12 or 13: Debian packages (as root or through sudo, only when some are missing), then a
# virtual environment .venv with the pinned Python packages and this project in editable mode.
# Run by `make setup`; a second run finds everything in place and takes a fraction of a second.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Compilers and what the builds of the UML kernel, its module tools and ovs-vswitchd call; those fetch the sources.
packages=(gcc g++ make flex bison bc patch perl xz-utils bzip2 rsync pkg-config autoconf automake libtool
	libc6-dev dpkg-dev libelf-dev libssl-dev libcap-ng-dev)
# What boots the kernels for several CPUs (make smp).
packages+=(qemu-system-x86)
# What runs inside the virtual testbed. openvswitch-switch's service is not needed, its programs are.
packages+=(openvswitch-switch mininet iperf iperf3 iproute2 iputils-ping ethtool net-tools tcpdump socat
	procps psmisc kmod util-linux)
# Servers and clients of experiments; their services are not needed either.
packages+=(memcached nginx-light wrk apache2-utils)
# Neutron's OVN agent is tested beside these, without their services.
packages+=(ovn-common ovn-central ovn-host)
# Mark source sonic is tested against the database that SONiC switches run.
packages+=(redis-server)
# What judges the controller's metrics, and the browser (with a font) that its web page is tested in.
packages+=(prometheus chromium chromium-driver fonts-dejavu-core)
# The engine's fuzzers (make fuzz, and a minute of them in make test): libFuzzer, sanitizers, coverage.
packages+=(clang-19 libclang-rt-19-dev llvm-19)
# Python with headers (cffi), checkers, and certificates for the package index.
packages+=(python3 python3-venv python3-dev python3-openvswitch sparse ca-certificates git)

# Packages for the proofs alone, with `setup.sh prove`: a quarter of a gigabyte that nothing else needs.
[ "${1:-}" != prove ] || packages+=(frama-c-base why3 z3 cvc4)

say() { printf '%s %s\n' "setup:" "$*"; }

missing=()
for package in "${packages[@]}"; do
	state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
	[ "$state" = installed ] || missing+=("$package")
done

if [ ${#missing[@]} -gt 0 ]; then
	say "installing ${#missing[@]} Debian packages: ${missing[*]}"
	run=()
	if [ "$(id -u)" != 0 ]; then
		if ! command -v sudo >/dev/null; then
			say "cannot install them: neither root nor sudo here. As root: apt-get install ${missing[*]}" >&2
			exit 1
		fi
		run=(sudo)
	fi
	# RUNLEVEL=1 keeps invoke-rc.d from starting services in containers without an init; systemd ignores it.
	"${run[@]}" apt-get -q update
	"${run[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
		apt-get -q install -y --no-install-recommends "${missing[@]}"
fi

python=${PYTHON:-/usr/bin/python3}
stamp=$({
	"$python" --version
	pwd
	cat requirements.txt constraints.txt setup.py pyproject.toml testbed/setup.sh controller/ryu-manager.pth
	cat controller/native/*.[ch] shim/core/siphash.[ch] shim/core/types.h
} | sha256sum | cut -c1-16)

if [ "$(cat .venv/.stamp 2>/dev/null)" = "$stamp" ]; then
	say ".venv is up to date"
	exit 0
fi

say "preparing .venv from $python (pinned by requirements.txt and constraints.txt)"
if [ ! -x .venv/bin/python ] || ! .venv/bin/python -c pass 2>/dev/null; then
	"$python" -m venv --clear --system-site-packages .venv
fi
pip=(.venv/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt)
# Ryu 4.34 builds with these and with nothing newer, hence no build isolation. They must sit in .venv
# itself: without --ignore-installed pip would be content with other versions of the system's.
"${pip[@]}" --ignore-installed setuptools wheel pbr
"${pip[@]}" --no-build-isolation --requirement requirements.txt
say "installing sdngcc in editable mode"
"${pip[@]}" --no-build-isolation --no-deps --editable .
# ryu-manager needs mending before it imports anything; `sdngcc controller` does it by itself.
cp controller/ryu-manager.pth "$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/"
.venv/bin/sdngcc --version >/dev/null
printf '%s\n' "$stamp" > .venv/.stamp
say "done: .venv/bin/sdngcc"
