#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Prepares a machine with Debian 12 or 13 for `make demo` or for all else, with a list of Debian packages for each:
#
#     setup.sh demo     what the demo builds and runs
#     setup.sh test     and what tests, linters and all experiments need (the default)
#     setup.sh prove    and what the proofs need: a quarter of a gigabyte that nothing else does
#
# Tools that build are installed by apt (as root or through sudo, only when some are missing). Programs that run inside the
# virtual machine or for tests, daemons among them, are unpacked into the cache and never installed: their packages would
# start them as services of this machine. Then a virtual environment .venv gets the pinned Python packages and this project
# in editable mode. A second run finds everything in place and takes a fraction of a second.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

wanted=${1:-test}
case $wanted in
demo | test | prove) ;;
*)
	echo "setup: there is no list '$wanted'; there are demo, test and prove" >&2
	exit 2
	;;
esac

# Compilers and what the builds of the UML kernel, its module tools and ovs-vswitchd call, and Python.
tools=(gcc make flex bison bc patch perl xz-utils autoconf automake libtool pkg-config
	libc6-dev libssl-dev libcap-ng-dev python3 python3-venv ca-certificates)
# What runs inside the virtual machine, which has this machine's files.
programs=(mininet iproute2 ethtool procps kmod python3-openvswitch)
# What tells Python's extensions among them where their libraries are.
programs+=(patchelf)
if [ "$wanted" != demo ]; then
	# Further compilers; what boots the kernels for several CPUs (make smp); checkers; headers (cffi); suites' builds.
	tools+=(g++ dpkg-dev libelf-dev bzip2 qemu-system-x86 sparse git python3-dev)
	# The engine's fuzzers (make fuzz, and a minute of them in make test): libFuzzer, sanitizers, coverage.
	tools+=(clang-19 libclang-rt-19-dev llvm-19)
	# The browser that the controller's web page is tested in, with a font.
	tools+=(fonts-dejavu-core)
	programs+=(chromium chromium-driver)
	programs+=(rsync iperf iperf3 iputils-ping net-tools tcpdump socat psmisc openvswitch-switch)
	# Servers and clients of experiments.
	programs+=(memcached nginx-light wrk)
	# Neutron's OVN agent is tested beside these, mark source sonic against the database that SONiC switches run, and the
	# controller's metrics by Prometheus.
	programs+=(ovn-common ovn-central ovn-host redis-server prometheus)
fi
[ "$wanted" != prove ] || tools+=(frama-c-base why3 z3 cvc4)

say() { printf '%s %s\n' "setup:" "$*"; }

# Prints which of some Debian packages are not installed, a line each.
lacking() {
	local package state
	for package; do
		state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
		[ "$state" = installed ] || echo "$package"
	done
}

# Runs a command as root.
as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		sudo "$@"
	fi
}

# Installs what is missing of the tools. None of these packages has a service; policy-rc.d keeps one from
# starting that a package of another release may bring.
install_tools() {
	local missing policy=/usr/sbin/policy-rc.d
	mapfile -t missing < <(lacking "${tools[@]}")
	[ ${#missing[@]} -gt 0 ] || return 0
	say "installing ${#missing[@]} Debian packages: ${missing[*]}"
	if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
		say "cannot install them: neither root nor sudo here. As root: apt-get install ${missing[*]}" >&2
		exit 1
	fi
	as_root apt-get -q update
	as_root env DEBIAN_FRONTEND=noninteractive sh -c '
		policy=$1; shift
		if [ ! -e "$policy" ]; then
			trap "rm -f $policy" EXIT
			trap "exit 1" HUP INT TERM
			printf "#!/bin/sh\nexit 101\n" >"$policy"
			chmod 755 "$policy"
		fi
		apt-get -q install -y --no-install-recommends "$@"' policy "$policy" "${missing[@]}"
}

# The folder of unpacked programs: all their files, and in links/ a link or a starter for each program.
unpacked=${SDNGCC_CACHE:-$HOME/.cache/sdn-gcc}/programs

# Prints where the file is that a path of an unpacked package leads to: links of packages may begin at the root.
follow() {
	local path=$1 target
	while [ -L "$path" ]; do
		target=$(readlink "$path")
		case $target in
		/*) path=$unpacked$target ;;
		*) path=${path%/*}/$target ;;
		esac
	done
	echo "$path"
}

# Makes the links and starters. A program that needs libraries, or data, that are in the folder alone is told where; called/
# has the names of those that do what they are called by.
link_programs() {
	local program file name folder=$unpacked/links.new libraries
	libraries=$(find "$unpacked"/{usr/lib,lib} -maxdepth 3 -name 'lib*.so*' -printf '%h\n' 2>/dev/null | sort -u |
		paste -sd :) || true
	rm -rf "$folder"
	mkdir -p "$folder/called"
	# Debian's ovs-vswitchd is an alternative, which its package makes when it is installed, and its chromium in usr/bin a
	# script that looks for this one below /usr.
	for program in "$unpacked"/{usr/sbin,usr/bin,sbin,bin,usr/lib/openvswitch-switch}/* "$unpacked/usr/lib/chromium/chromium"; do
		name=${program##*/}
		file=$(follow "$program")
		[ -f "$file" ] && [ -x "$file" ] || continue
		ln -sf "$file" "$folder/called/$name"
		rm -f "$folder/$name"
		if [[ $(head -c 64 "$file" | tr -d '\0' | head -n 1) =~ ^#!.*python ]]; then
			printf '#!/bin/sh\nPYTHONPATH=%q exec %q "$@"\n' "$unpacked/usr/lib/python3/dist-packages" "$file" >"$folder/$name"
		elif [[ $name = ov[sn]* ]] || [[ $(ldd "$file" 2>/dev/null) = *"not found"* ]]; then
			{
				printf '#!/bin/sh\nexport LD_LIBRARY_PATH=%q OVS_PKGDATADIR=%q OVN_PKGDATADIR=%q\n' "$libraries" \
					"$unpacked/usr/share/openvswitch" "$unpacked/usr/share/ovn"
				[ -e /etc/fonts/fonts.conf ] || printf 'export FONTCONFIG_FILE=%q\n' "$unpacked/etc/fonts/fonts.conf"
				printf 'exec %q "$@"\n' "$unpacked/links/called/$name"
			} >"$folder/$name"
		else
			ln -sf "$file" "$folder/$name"
			continue
		fi
		chmod 755 "$folder/$name"
	done
	# Extensions of Python have no starter: where their libraries are is written into them.
	while read -r file; do
		[[ $(ldd "$file" 2>/dev/null) != *"not found"* ]] ||
			PATH=$PATH:$unpacked/usr/bin patchelf --force-rpath --set-rpath "$libraries" "$file"
	done < <(find "$unpacked/usr/lib/python3/dist-packages" -name '*.so' 2>/dev/null)
	rm -rf "$unpacked/links"
	mv "$folder" "$unpacked/links"
}

# Unpacks what is missing of the programs, with all that they need and this machine lacks.
unpack_programs() {
	local missing stamp work package
	mapfile -t missing < <(lacking "${programs[@]}")
	[ ${#missing[@]} -gt 0 ] || return 0
	stamp=$(printf '%s\n' "${missing[@]}" "$(sha256sum testbed/setup.sh)" | sha256sum | cut -c1-16)
	[ ! -e "$unpacked/.$stamp" ] || return 0
	mkdir -p "$unpacked"
	exec 9>"$unpacked.lock"
	flock 9
	work=$(mktemp -d "$unpacked/download.XXXXXX")
	mapfile -t packages < <(apt-get -s install --no-install-recommends "${missing[@]}" |
		sed -n 's/^Inst \([^ ]*\) (\([^ ]*\) .*/\1=\2/p')
	(cd "$work" && apt-get -q download "${packages[@]}" >log 2>&1) || {
		cat "$work/log" >&2
		say "cannot fetch them; \`apt-get update\`, as root, may help" >&2
		rm -rf "$work"
		exit 1
	}
	say "unpacking ${#packages[@]} Debian packages ($(du -cm "$work"/*.deb | tail -n 1 | cut -f 1) MB) into $unpacked:" \
		"${packages[@]%%=*}"
	for package in "$work"/*.deb; do
		dpkg-deb --fsys-tarfile "$package" | tar -x -C "$unpacked" --no-same-owner
	done
	rm -rf "$work"
	link_programs
	touch "$unpacked/.$stamp"
	exec 9>&-
}

install_tools
unpack_programs

python=${PYTHON:-/usr/bin/python3}
stamp=$({
	"$python" --version
	pwd
	echo "$unpacked"
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
# Mininet and Open vSwitch's Python package, where they are not installed: pip takes what is there for what it is asked for.
site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
printf '%s\n' "$unpacked/usr/lib/python3/dist-packages" >"$site/sdngcc-programs.pth"
pip=(.venv/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt)
# Ryu 4.34 builds with these and with nothing newer, hence no build isolation. They must sit in .venv
# itself: without --ignore-installed pip would be content with other versions of the system's.
"${pip[@]}" --ignore-installed setuptools wheel pbr
"${pip[@]}" --no-build-isolation --requirement requirements.txt
say "installing sdngcc in editable mode"
"${pip[@]}" --no-build-isolation --no-deps --editable .
# ryu-manager needs mending before it imports anything; `sdngcc controller` does it by itself.
cp controller/ryu-manager.pth "$site/"
.venv/bin/sdngcc --version >/dev/null
printf '%s\n' "$stamp" > .venv/.stamp
say "done: .venv/bin/sdngcc"
