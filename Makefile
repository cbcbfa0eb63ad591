# Two commands on a fresh machine with Python 3.11 and make: `make demo` and `make test`. Each does its own set-up.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
OFFLINE := $(BIN)/python scripts/loopback_only.py

.PHONY: help demo test lint types live bench check-phoenix check-mlflow clean

help:
	@echo "make demo    run real Claude Code children on a scripted model server, and compare"
	@echo "make test    run the test suite"
	@echo "make live    run the tests against real harnesses (loopback only)"
	@echo "make lint    formatting, lint, import contracts"
	@echo "make types   mypy and pyright"
	@echo "make bench   the benchmark table"
	@echo "make check-phoenix, make check-mlflow    what these two show of a nested run (installs 850 MB each)"

$(VENV)/base: constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -q -c constraints.txt pip
	@touch $@

$(VENV)/demo: $(VENV)/base pyproject.toml Makefile
	$(PIP) install -q -c constraints.txt -e '.[cli,otel,claude]'
	@touch $@

$(VENV)/test: $(VENV)/base pyproject.toml Makefile
	$(PIP) install -q -c constraints.txt -e '.[cli,otel,acp,zstd,aiostream]' --group tests
	@touch $@

$(VENV)/dev: $(VENV)/demo $(VENV)/test pyproject.toml Makefile
	$(PIP) install -q -c constraints.txt -e '.[cli,otel,claude,acp,zstd,aiostream]' --group dev
	@touch $@

demo: $(VENV)/demo
	@$(BIN)/python scripts/loopback_only.py --best-effort $(BIN)/lastsay demo $(DEMO)

test: $(VENV)/test
	$(BIN)/python -m pytest -n auto --dist loadfile -m "not live" --ignore=tests/live $(TESTS)

lint: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: $(VENV)/dev
	$(BIN)/mypy
	PATH="$(CURDIR)/$(BIN):$$PATH" pyright --verifytypes lastsay --ignoreexternal

live: $(VENV)/dev
	$(BIN)/python scripts/install_harnesses.py
	$(OFFLINE) $(BIN)/python -m pytest -m live tests $(TESTS)

bench: $(VENV)/dev
	$(BIN)/python -m benchmarks $(BENCH)

check-phoenix check-mlflow: $(VENV)/dev
	$(BIN)/python scripts/$(subst -,_,$@).py --install
	$(OFFLINE) $(BIN)/python scripts/$(subst -,_,$@).py

clean:
	rm -rf $(VENV) .venv-* build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
