# SPDX-License-Identifier: Apache-2.0
# Two commands to know: `make demo` (the paper's figure) and `make test` (what every change must pass).
# Both do their own set-up and reuse builds by content hash (~/.cache/sdn-gcc, or $SDNGCC_CACHE).

PY := .venv/bin/python
SDNGCC := .venv/bin/sdngcc
# Tests, and linters, that run side by side: a number, 0 for none. One more than processors, for many only wait.
JOBS ?= $(shell expr $$(nproc) + 1)
# Where setup.sh unpacks programs that it does not install.
PROGRAMS := $(or $(SDNGCC_CACHE),$(HOME)/.cache/sdn-gcc)/programs
export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin:$(PROGRAMS)/links
PYTEST := $(PY) -m pytest --numprocesses $(JOBS) --dist loadgroup --durations 15

.DEFAULT_GOAL := help
.PHONY: help setup build demo reproduce simulation test test-all lint unit integration bench-controller bench-datapath bench-destinations bench-instructions bench-limiter bench-overhead \
	bench-tick fuzz fuzz-parsers audit prove sanitize smp check-kernels packages openvswitch-packages check-packages check-container check-openstack check-stock check-setup \
	check-fresh check-ovs \
	check-suites soak clean

help:  ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

setup:  ## Install the Debian packages that build, unpack those whose programs run in machines and tests, make .venv
	@testbed/setup.sh test

build: setup  ## Build the UML kernel, openvswitch.ko, congestion.ko, ovs-vswitchd and the traffic generator
	@$(SDNGCC) testbed build

demo:  ## Reproduce SDN-GCC's Fig. 4: no shim, static, sdngcc against tcp, dctcp, udp
	@testbed/setup.sh demo
	@$(SDNGCC) testbed build
	@$(PY) -m sdngcc.testbed.demo --out results/demo

# How many seeds, parameters of all experiments, and a folder of earlier results whose verdicts are compared: SET=kernel=6.12.
SEEDS ?= 1
SET ?=
AGAINST ?=

reproduce: build  ## Run every experiment of the papers, write docs/reproduction.md (resumable; SEEDS=10, SET=NAME=VALUE)
	@$(PY) -m sdngcc.testbed.reproduction --seeds $(SEEDS) $(addprefix --set ,$(SET)) $(if $(AGAINST),--against $(AGAINST))

simulation: build  ## Validate the simulators, run all their scenarios, write docs/simulation.md's tables and figures (resumable)
	@$(PY) -m sdngcc.testbed.simulation.everything --out results/simulation --docs docs

lint: build  ## ruff, mypy, checkpatch, sparse, gcc warnings
	@JOBS=$(JOBS) .ci/lint

unit: setup  ## Unit tests only (no kernel is booted)
	@$(PYTEST) -m 'not uml and not slow and not release'

integration: build  ## Tests that need the builds, most inside User Mode Linux
	@$(PYTEST) -m '(uml or slow) and not release'

test: lint  ## Linters, unit tests, builds, tests inside User Mode Linux: what every change must pass
	@$(PYTEST) -m 'not release'

test-all: lint  ## `make test`, what only a release needs, the sanitizers, the machines with several CPUs
	@SDNGCC_RELEASE=1 $(PYTEST)
	@$(PY) -m sdngcc.testbed.sanitizers
	@$(PY) -m sdngcc.testbed.sanitizers --beside devices lifetime messages origin overlay
	@$(PY) -m sdngcc.testbed.smp
	@$(PY) -m sdngcc.testbed.smp --beside

bench-datapath: build  ## Packet rates beside unpatched Open vSwitch, all rows or those of ROWS=NAME,...
	@$(PY) -m sdngcc.testbed.bench.datapath --out results/bench-datapath --rows '$(ROWS)'

# Version of the kernel that instructions are counted in.
KERNEL ?= 6.1

bench-instructions: build  ## Instructions a packet in Debian's own kernel under QEMU, all rows or those of ROWS=NAME,... (KERNEL=6.12)
	@$(PY) -m sdngcc.testbed.instructions --out results/bench-instructions --rows '$(ROWS)' --kernel $(KERNEL)

bench-destinations: build  ## CPU time of a packet with 1 to 10,000 limiters: law eyeq's, HTB's, fq's
	@$(PY) -m sdngcc.testbed.bench.destinations --out results/bench-destinations

# Limiters to measure, with commas: all.
LIMITERS ?=

bench-limiter: build  ## Rate, burst, jitter, TCP and waiting behind one's own flows, beside other limiters (LIMITERS=shim,htb)
	@$(PY) -m sdngcc.testbed.bench.limiter --out results/bench-limiter --limiters '$(LIMITERS)'

bench-overhead: build  ## Cost a packet of Seawall's shim beside a null shim and unpatched OVS
	@$(PY) -m sdngcc.testbed.bench.overhead --out results/bench-overhead

bench-controller: setup  ## Polls, packet-ins and messages a CPU second of the controller, a large network's events, rates by path
	@$(PY) -m sdngcc.testbed.bench.controller --out results/bench-controller
	@$(PY) -m sdngcc.testbed.bench.size --out results/bench-controller
	@$(PY) -m sdngcc.testbed.bench.paths --out results/bench-controller
	@$(PY) -m sdngcc.testbed.bench.by_path --out results/bench-controller

bench-tick: setup  ## CPU share of the laws' ticks with 10,000 VMs, time of a division, threads on one limiter
	@$(PY) -m sdngcc.testbed.bench.tick --out results/bench-tick

# Time of each fuzzer.
SECONDS ?= 60

fuzz: setup  ## Fuzz messages, packets, laws and divisions with sanitizers; coverage of shim/core (SECONDS=60 for each)
	@$(PY) -m sdngcc.testbed.fuzz --seconds $(SECONDS) --out results/fuzz

fuzz-parsers: setup  ## Fuzz the parsers in Python; the lines of each that were reached (SECONDS=60 for each program)
	@$(PY) -m sdngcc.testbed.fuzz.parsers --seconds $(SECONDS) --out results/fuzz-parsers

# A clone of PyPA's advisory-database.
DATABASE ?= advisory-database

audit: setup  ## Compare the pinned Python packages with known holes (DATABASE=FOLDER)
	@$(PY) -m sdngcc.testbed.audit $(DATABASE)

prove:  ## Prove the bucket, messages and replay by Frama-C, which this installs
	@testbed/setup.sh prove
	@$(PY) -m sdngcc.testbed.prove

sanitize: build  ## The datapath's tests in a kernel with KASAN, lockdep and kmemleak (slow)
	@$(PY) -m sdngcc.testbed.sanitizers
	@$(PY) -m sdngcc.testbed.sanitizers --beside devices lifetime messages origin overlay

smp: build  ## The datapath on two CPUs: Debian's kernels, KCSAN, lockdep, PREEMPT_RT (slow; builds three kernels once)
	@$(PY) -m sdngcc.testbed.smp
	@$(PY) -m sdngcc.testbed.smp --beside

# Kernels to check, with commas: all that the shim is for.
KERNELS ?= 6.1,6.8,6.12,7.3
# And what to do with each, in this order.
STEPS ?= stock,tree,booted

check-kernels: build  ## The shim built for stock kernels, tests and `share` on those the testbed can boot (slow; KERNELS=6.12)
	@$(PY) -m sdngcc.testbed.kernels --kernels $(KERNELS) --steps $(STEPS)

# Debian releases that packages are made for, with commas.
RELEASES ?= bookworm,trixie

packages: setup  ## Build Debian packages in roots of their own, into results/packages (as root; RELEASES=trixie)
	@$(PY) -m sdngcc.testbed.packages build --releases $(RELEASES)

check-packages: packages  ## Install, start, upgrade, remove and purge these packages in roots of their own
	@$(PY) -m sdngcc.testbed.packages check --releases $(RELEASES)

openvswitch-packages: setup  ## Build Debian's Open vSwitch with the series (a quarter of an hour for each release)
	@$(PY) -m sdngcc.testbed.packages openvswitch --releases $(RELEASES)

check-container: packages  ## Build the controller's container image of these packages, and ask the controller in it (with buildah)
	@$(PY) -m sdngcc.testbed.packages container --releases $(RELEASES)

check-openstack: setup  ## The extensions in a release's own Neutron, OVN and Open vSwitch (as root; RELEASES=trixie)
	@$(PY) -m sdngcc.testbed.packages openstack --releases $(RELEASES)

check-stock: packages openvswitch-packages  ## Install what these targets made on a release's own kernel in QEMU: README's commands, upgrade, remove
	@$(PY) -m sdngcc.testbed.packages stock --releases $(RELEASES)

check-setup: setup  ## What setup.sh installs and unpacks in a root of a release, and that nothing is enabled (as root)
	@$(PY) -m sdngcc.testbed.packages setup --releases $(RELEASES)

# README's commands that check-fresh types, with commas.
COMMANDS ?= demo,test

check-fresh: setup  ## README's commands twice in roots of a release: root in a container, a user with sudo (hours; COMMANDS=demo)
	@$(PY) -m sdngcc.testbed.packages fresh --releases $(RELEASES) --commands $(COMMANDS)

# Versions of Open vSwitch, with commas.
VERSIONS ?= 3.1,3.3,3.5,4.0

check-ovs: build  ## Build versions of Open vSwitch, run their own tests and an experiment on each (VERSIONS=3.1,3.3,3.5,4.0)
	@$(PY) -m sdngcc.testbed.ovs --versions $(VERSIONS)

# Suites of check-suites, and tests of kmod (numbers and ranges), with commas: all.
SUITES ?= selftests,kmod
TESTS ?=

check-suites: build  ## The kernel's and Open vSwitch's tests of the datapath, with the shim and without (slow; TESTS=1-50)
	@$(PY) -m sdngcc.testbed.suites --suites '$(SUITES)' --tests '$(TESTS)'

# Virtual time of a soak.
HOURS ?= 24

soak: build  ## Virtual hours of mixed tenants, changes and faults, after which all is as it was (HOURS=1)
	@$(PY) -m sdngcc.testbed.soak --hours $(HOURS)

clean:  ## Remove .venv and results (the build cache stays; see `sdngcc testbed build --help`)
	rm -rf .venv results build *.egg-info .mypy_cache .ruff_cache .pytest_cache
