# Everything a newcomer needs: `make demo` and `make test` set themselves up in .venv and need only Python 3.11.
PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet --retries 10

# Compiled once: the tests start hundreds of processes, and each would compile every file anew.
unexport PYTHONDONTWRITEBYTECODE

COMPOSE := $(shell docker compose version >/dev/null 2>&1 && echo docker compose || echo docker-compose)

.PHONY: help demo test check format results bench audit lock clean image image-scan up down test-containers
.PHONY: test-install test-pythons test-hard
.DEFAULT_GOAL := help

help:
	@echo "make demo    a coordinator and five simulated hospitals as real services: a study in front of you"
	@echo "make up      the same in containers: each hospital on a network of its own, the coordinator on PostgreSQL"
	@echo "make down    end and remove what make up started"
	@echo "make image   the container image alone; make image-scan looks for shells, secrets and rights in it"
	@echo "make test    checks and tests"
	@echo "make test-containers   tests that cut wires and kill nodes of the containers (minutes; needs an engine)"
	@echo "make test-hard         10,000 simulated disasters, and every planted fault (half an hour on two cores)"
	@echo "make test-install      the wheel in a fresh environment, with the library's own packages and no more"
	@echo "make test-pythons      the library's tests on every Python of 3.11, 3.12 and 3.13 that is here (minutes)"
	@echo "make check   the checks alone: format, lint, types, import rules"
	@echo "make audit   the full privacy audit (minutes, with a progress bar)"
	@echo "make results every benchmark, and docs/results.md from it (a quarter of an hour; wants CROSSWARD_DATA)"
	@echo "make bench   start-up, speed and the vault, against scikit-learn, diffprivlib and pyarrow (minutes)"
	@echo "make format  format the code"
	@echo "make lock    write requirements/*.txt anew from pyproject.toml; make lock UPGRADE= keeps what is pinned"
	@echo "make clean   remove everything make made"

demo: $(VENV)/.runtime
	@$(BIN)/crossward demo

# -- containers: docker-compose.yml, docs/deploy.md -------------------------------------------------------------------
image:
	@deploy/build

image-scan:
	@python3 deploy/scan.py $${CROSSWARD_IMAGE:-crossward:latest}

# The federation stays; `study` prints the table, and how it ended is how this ends.
up: image
	@$(COMPOSE) up --detach
	@study=$$($(COMPOSE) ps --all --quiet study) && docker logs --follow $$study; exit $$(docker wait $$study)

down:
	@$(COMPOSE) down --volumes --remove-orphans

# One process more than there are cores, because tests wait for services a good part of the time; one thread in each.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --dist worksteal \
	-n $$($(BIN)/python -c 'import os; print(os.cpu_count() + 1)')
test: check
	$(PYTEST)
	@echo "container tests: make test-containers"

# One federation for all of them, one after the other. What one broke, the next would only stumble over: hence -x.
test-containers: $(VENV)/.dev
	@if docker info >/dev/null 2>&1; then deploy/build && $(BIN)/pytest -n 0 -x --durations=10 tests/containers; \
	else echo "no container engine answers here: the container tests did not run"; fi

# Thousands of histories, each from its seed: HISTORIES=100000 SEED=1 for more, or for others.
HISTORIES ?= 10000
SEED ?= 1
test-hard: $(VENV)/.dev
	@$(BIN)/crossward simulate disasters --histories $(HISTORIES) --seed $(SEED)
	$(PYTEST) tests/simulation

# Fresh environments in a temporary folder, from the lock files with their hashes; they need the package index.
test-install: $(VENV)/.dev
	@$(BIN)/python tests/install/fresh.py library

test-pythons: $(VENV)/.dev
	@$(BIN)/python tests/install/fresh.py pythons $(PYTHONS)

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

audit: $(VENV)/.runtime
	@$(BIN)/crossward audit

results: $(VENV)/.lab
	@$(BIN)/crossward bench report docs

bench: $(VENV)/.runtime
	@$(BIN)/crossward bench startup
	@$(BIN)/crossward bench speed
	@$(BIN)/crossward bench vault

# One lock file for each thing that is installed; what is already pinned is preferred unless it is upgraded.
UPGRADE ?= --upgrade
COMPILE := $(BIN)/uv pip compile --quiet $(UPGRADE) --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header
lock: $(VENV)/.lock
	$(COMPILE) pyproject.toml --output-file requirements/library.txt
	$(COMPILE) pyproject.toml --group library-tests --output-file requirements/library-tests.txt
	$(COMPILE) pyproject.toml --extra services --group build --output-file requirements/runtime.txt
	$(COMPILE) pyproject.toml --extra lab --group build --output-file requirements/lab.txt
	$(COMPILE) pyproject.toml --extra lab --group dev --output-file requirements/dev.txt
	$(COMPILE) requirements/bench-peers.in --output-file requirements/bench-peers.txt

clean:
	rm -rf $(VENV) .venv-bench .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist

# -- the virtual environment, installed from the lock files with their hashes ---------------------------------------
$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "Crossward needs Python 3.11: install it, or name yours with make PYTHON=..."; exit 1; }
	@echo "setting up $(VENV) (once) ..."
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: $(VENV)/bin/python requirements/runtime.txt pyproject.toml
	@$(PIP) install --require-hashes -r requirements/runtime.txt
	@$(PIP) install --no-build-isolation --no-deps --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements/dev.txt
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.lab: $(VENV)/.runtime requirements/lab.txt
	@$(PIP) install --require-hashes -r requirements/lab.txt
	@touch $@

$(VENV)/.lock: $(VENV)/bin/python
	@$(PIP) install uv
	@touch $@
