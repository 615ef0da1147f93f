# Everything a newcomer needs: `make demo` and `make test` set themselves up in .venv and need only Python 3.11.
PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet --retries 10

COMPOSE := $(shell docker compose version >/dev/null 2>&1 && echo docker compose || echo docker-compose)

.PHONY: help demo test check format results bench audit lock clean image image-scan up down test-containers
.DEFAULT_GOAL := help

help:
	@echo "make demo    a coordinator and five simulated hospitals as real services: a study in front of you"
	@echo "make up      the same in containers: each hospital on a network of its own, the coordinator on PostgreSQL"
	@echo "make down    end and remove what make up started"
	@echo "make image   the container image alone; make image-scan looks for shells, secrets and rights in it"
	@echo "make test    checks and tests"
	@echo "make test-containers   tests that cut wires and kill nodes of the containers (minutes; needs an engine)"
	@echo "make check   the checks alone: format, lint, types, import rules"
	@echo "make audit   the full privacy audit (minutes, with a progress bar)"
	@echo "make results every benchmark, and docs/results.md from it (a quarter of an hour; wants CROSSWARD_DATA)"
	@echo "make bench   speed against scikit-learn and diffprivlib (minutes)"
	@echo "make format  format the code"
	@echo "make lock    write requirements/*.txt anew from pyproject.toml"
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

test: check
	$(BIN)/pytest -n auto
	@echo "container tests: make test-containers"

# One federation for all of them, one after the other. What one broke, the next would only stumble over: hence -x.
test-containers: $(VENV)/.dev
	@if docker info >/dev/null 2>&1; then deploy/build && $(BIN)/pytest -n 0 -x --durations=10 tests/containers; \
	else echo "no container engine answers here: the container tests did not run"; fi

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

results: $(VENV)/.plots
	@$(BIN)/crossward bench report docs

bench: $(VENV)/.runtime
	@$(BIN)/crossward bench speed

lock: $(VENV)/.lock
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --group build pyproject.toml --output-file requirements/runtime.txt
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --group dev pyproject.toml --output-file requirements/dev.txt
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header requirements/bench-peers.in --output-file requirements/bench-peers.txt
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --group pyproject.toml:plots --constraint requirements/runtime.txt --output-file requirements/plots.txt

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

$(VENV)/.plots: $(VENV)/.runtime requirements/plots.txt
	@$(PIP) install --require-hashes -r requirements/plots.txt
	@touch $@

$(VENV)/.lock: $(VENV)/bin/python
	@$(PIP) install uv
	@touch $@
