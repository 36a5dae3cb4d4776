# Everything a developer runs. A fresh machine needs make and Python 3.11 or newer; `make e2e` needs Go as well.
PYTHON ?= python3
export PYTHON

# make parity: verdicts for each filter plugin (a fifth of it score vectors, and cases of the allocator of devices; a twentieth
# preemptions), and where cases start.
N ?= 10000
SEED ?= 1
# make e2e: which tests.
E2E ?= e2e

VENV := .venv/bin
READY := .venv/ready
BUILD_PROGRAM := $(VENV)/python -m e2e.controlplane.build

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo test cluster lint types unit e2e parity generate bench clean

help: ## say what can be made
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## simulate a small GPU cluster: live view here, report in build/demo.html
	@mkdir -p build
	$(VENV)/ai-scheduler simulate examples/demo --report build/demo.html --exit-zero

test: lint types unit e2e ## everything that must hold before a change lands

cluster: $(READY) ## a real API server with played nodes and the scheduler, until Ctrl-C
	$(VENV)/python -m e2e.cluster

lint: $(READY) ## style, layers, and generated files
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/lint-imports
	$(VENV)/python -m scheduler.cli.generate --check

types: $(READY) ## static types
	$(VENV)/mypy

unit: $(READY) ## the tests that need nothing but Python (pure and protocol)
	$(VENV)/pytest -m "not slow" tests

e2e: $(READY) ## the tests against a real API server, built once with Go
	@$(BUILD_PROGRAM) >/dev/null; code=$$?; \
	if [ $$code -eq 3 ]; then \
		echo "The end-to-end tests were NOT run: the line above says what they lack." >&2; \
		if [ "$$CI" = true ]; then exit 3; else exit 0; fi; \
	elif [ $$code -ne 0 ]; then exit $$code; fi; \
	set -x; $(VENV)/pytest $(E2E)

parity: $(READY) ## the same verdicts and scores as the real kube-scheduler plugins (N=100000 verdicts for the whole proof)
	@$(VENV)/python -m e2e.oracle.build >/dev/null; code=$$?; \
	if [ $$code -eq 3 ]; then \
		echo "Parity was NOT tested: the line above says what that lacks." >&2; \
		if [ "$$CI" = true ]; then exit 3; else exit 0; fi; \
	elif [ $$code -ne 0 ]; then exit $$code; fi; \
	set -x; $(VENV)/python -m e2e.oracle --verdicts $(N) --seed $(SEED) --keep build/parity

generate: $(READY) ## write the files that are derived from code (crds/, docs/)
	$(VENV)/python -m scheduler.cli.generate

bench: $(READY) ## measure against the budgets, and beside kube-scheduler (half an hour or more; needs Go)
	$(VENV)/python -m benchmarks
	@mkdir -p build
	$(VENV)/python -m benchmarks.peers -o build/peers.json

clean: ## remove what was made here (caches outside this folder stay)
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements-dev.lock requirements-build.lock pyproject.toml .ci/environment hatch_build.py scheduler/state/_loops.c
	@.ci/environment
