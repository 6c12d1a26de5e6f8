# The project's commands. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help check fmt

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */\1\t/' | expand -t 12

$(STAMP): pyproject.toml
	test -x $(BIN)/python || python3 -m venv $(VENV)
	$(BIN)/python -m pip install -q uv
	$(BIN)/uv pip install -q --python $(BIN)/python -e '.[api,otel]' --group dev
	touch $@

check: $(STAMP) ## format, lint, import contracts, types and fast tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	PYTHONPATH=.:cli $(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/pytest -q tests/unit

fmt: $(STAMP) ## format and mend what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
