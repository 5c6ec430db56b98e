# SPDX-License-Identifier: Apache-2.0
# Two commands to know: `make demo` (the paper's figure) and `make test` (everything that is checked).
# Both do their own set-up and reuse builds by content hash (~/.cache/sdn-gcc, or $SDNGCC_CACHE).

PY := .venv/bin/python
SDNGCC := .venv/bin/sdngcc

.DEFAULT_GOAL := help
.PHONY: help setup build demo reproduce test lint unit integration bench-controller bench-datapath bench-overhead sanitize clean

help:  ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

setup:  ## Install missing Debian packages, make .venv
	@testbed/setup.sh

build: setup  ## Build the UML kernel, openvswitch.ko, congestion.ko, ovs-vswitchd and the traffic generator
	@$(SDNGCC) testbed build

demo: build  ## Reproduce SDN-GCC's Fig. 4: no shim, static, sdngcc against tcp, dctcp, udp
	@$(PY) -m sdngcc.testbed.demo --out results/demo

reproduce: build  ## Run every experiment of the papers, write docs/reproduction.md (resumable)
	@$(PY) -m sdngcc.testbed.reproduce

lint: build  ## ruff, mypy, checkpatch, sparse, gcc warnings
	@.ci/lint

unit: setup  ## Unit tests only (no kernel is booted)
	@$(PY) -m pytest -q -m 'not uml and not slow'

integration: build  ## Tests that need the builds, most inside User Mode Linux
	@$(PY) -m pytest -v -m 'uml or slow'

test: lint  ## Linters, unit tests, builds, tests inside User Mode Linux
	@$(PY) -m pytest -v

bench-datapath: build  ## Packets per second of our limiter beside OVS meter, tc police and HTB
	@$(PY) -m sdngcc.testbed.bench.datapath --out results/bench-datapath

bench-overhead: build  ## Cost a packet of Seawall's shim beside a null shim and unpatched OVS
	@$(PY) -m sdngcc.testbed.bench.overhead --out results/bench-overhead

bench-controller: setup  ## Polls, packet-ins and messages a CPU second of the controller, beside simple_monitor_13
	@$(PY) -m sdngcc.testbed.bench.controller --out results/bench-controller

sanitize: build  ## The datapath's tests in a kernel with KASAN, lockdep and kmemleak (slow)
	@$(PY) -m sdngcc.testbed.sanitizers

clean:  ## Remove .venv and results (the build cache stays; see `sdngcc testbed build --help`)
	rm -rf .venv results build *.egg-info .mypy_cache .ruff_cache .pytest_cache
