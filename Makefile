# The project's commands. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= auto

.PHONY: help check test fmt

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */\1\t/' | expand -t 12

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; name one: make PYTHON=/path/to/python3.12"; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV) || \
		{ echo "Python cannot make virtual environments; on Debian: apt-get install python3-venv"; exit 1; }
	$(BIN)/pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python -e '.[api,otel]' --group dev
	@touch $@

check: $(STAMP) ## format, lint, import contracts, types and fast tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/sqlfluff lint --disable-progress-bar sql
	PYTHONPATH=.:cli $(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/pytest -q tests/unit

# Its last line is pytest's own summary. WORKERS=0 runs all tests in one process.
test: $(STAMP) ## the whole test suite; it starts the servers it needs (Kafka wants Java 17 and Maven)
	$(BIN)/pytest -m "not scale" -n $(WORKERS) --maxprocesses 4

fmt: $(STAMP) ## format and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
