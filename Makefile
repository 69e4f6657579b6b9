# opjoule. `make` alone lists what there is.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.PHONY: help demo demo-stack openssl test test-arm check schemas bench-study bench-truth bench-outage bench-runner bench-meter clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.demo ## real OpenSSL operations become joules, for about a minute (power is SIMULATED)
	@exec $(BIN)/opjoule demo $(ARGS)

openssl: $(VENV)/.demo ## build OpenSSL 3.5 LTS into the user's cache, where every command finds it
	@exec $(BIN)/python -m runner.openssl.build

test: $(VENV)/.dev ## every test
	$(BIN)/python -m pytest $(ARGS)

test-arm: $(VENV)/.dev ## the runner's tests on emulated ARM, 32 and 64 bits (ARGS="armhf -- -k lib")
	@$(BIN)/python -m tests.arm $(ARGS)

check: $(VENV)/.dev ## lint and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

schemas: $(VENV)/.dev ## write schemas/json and schemas/asyncapi.yaml anew
	$(BIN)/opjoule schemas

demo-stack: $(VENV)/.dev ## the stack without Docker: TLS broker, influxd, all services; seconds to the first result
	@$(BIN)/python benchmarks/demo_stack.py $(ARGS)

bench-study: $(VENV)/.demo ## how fast a study is replayed (OPJOULE_RECORDINGS=FOLDER)
	@$(BIN)/python benchmarks/bench_study.py

bench-truth: $(VENV)/.dev ## trains of known energy: bias, coverage of U95, what is not called good (ARGS=--seed N)
	@$(BIN)/python benchmarks/bench_truth.py $(ARGS)

bench-outage: $(VENV)/.dev ## InfluxDB away for 10 minutes under 100 boards, broker killed (ARGS=--factor 1: real time)
	@$(BIN)/python benchmarks/bench_outage.py $(ARGS)

bench-runner: $(VENV)/.dev ## the runner against openssl speed and a shell, its memory, CPU, silence and edges (5 minutes)
	@$(BIN)/python benchmarks/bench_runner.py $(ARGS)

bench-meter: $(VENV)/.dev ## meters (SIMULATED): bytes, sample times, load of eight, a day (9 minutes; ARGS=--short: 2)
	@$(BIN)/python benchmarks/bench_meter.py $(ARGS)

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "opjoule needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "cannot make a virtual environment; on Debian and its relatives: sudo apt install python3-venv"; exit 1; }

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing opjoule into $(VENV) (once, about a minute)"
	@$(PIP) install --constraint constraints.txt --editable '.[all]'
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing opjoule and its test tools into $(VENV) (once)"
	@$(PIP) install --constraint constraints.txt --editable '.[dev]'
	@touch $@ $(VENV)/.demo
