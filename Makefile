# Two commands do everything: `make run` and `make test`. The logic is in llamaweb/run/bootstrap.py.
PYTHON ?= python3.11
BIN := $(CURDIR)/.venv/bin
BOOTSTRAP := $(PYTHON) -m llamaweb.run.bootstrap
# The locked Node is in the virtual environment.
NPM := PATH="$(BIN):$$PATH" npm --prefix frontend run --silent
UV := .uv/bin/uv
COMPILE := $(UV) pip compile --python $(BIN)/python --generate-hashes --no-header --no-annotate --quiet
N ?= 50
# Whole modules side by side, so that what a module starts is started once; one more than cores,
# because the long ones wait much. A dead worker isn't replaced: a new one that gets a module of one
# test waits for a second one for ever.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
PARALLEL ?= --numprocesses $(WORKERS) --maxprocesses 4 --dist loadscope --no-loadscope-reorder --max-worker-restart 0
ARGS ?=

# Containers like to set it; then every process compiles all that it imports: ours are seven.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run dev install install-dev test test-python test-frontend check fmt types bench bench-chat bench-engine bench-models llama-server faults equality cuts soak screenshots messages lock clean

help: ## List the commands
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: install ## Install what is missing, start the server, print its address
	@exec $(BIN)/python -m llamaweb.run $(ARGS)

dev: install-dev ## As run, and reload Python and front-end code when it changes
	@exec env LLAMAWEB_DEBUG=1 $(BIN)/python -m llamaweb.run --dev $(ARGS)

install: ## Only install and build
	@$(BOOTSTRAP)

install-dev: ## As install, with the development tools
	@$(BOOTSTRAP) --dev

test: test-frontend test-python ## Run all tests

test-frontend: install-dev
	@$(NPM) test

test-python: install-dev
	@$(BIN)/python -m pytest $(PARALLEL) $(if $(SECOND_LOOK),--second-look) $(ARGS)

check: install-dev ## Everything but tests: format, lint, types, import contracts, migrations
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy -p inference.protocol -p inference.text -p inference.engine -p inference.queues \
		-p inference.worker -p llamaweb.lib
	$(BIN)/mypy
	$(BIN)/python manage.py makemigrations --check --dry-run --settings llamaweb.settings_check
	$(BIN)/python manage.py check --fail-level WARNING --settings llamaweb.settings_check
	$(NPM) check
	$(NPM) lint
	$(NPM) format:check

fmt: install-dev ## Format all code
	$(BIN)/ruff check --fix --select I .
	$(BIN)/ruff format .
	$(NPM) format

types: install-dev ## Write the front end's types from the server's schemas
	@$(BIN)/python manage.py app_schema --write-types --settings llamaweb.settings_check

bench: install-dev bench-chat ## Measure engine and server, side by side (minutes)
	@$(BIN)/python -m tests.bench run --write $(ARGS)
	@$(BIN)/python -m tests.bench families --write

bench-chat: install-dev ## Only what a chat costs: commits, bytes, elements of a page
	@$(BIN)/python -m tests.bench chat --write

bench-engine: install-dev ## Measure the engine, against llama-server too (LLAMA_SERVER, or ours of its source)
	@$(BIN)/python -m tests.bench constrained --write
	@$(BIN)/python -m tests.bench parser --write
	@$(BIN)/python -m tests.bench embeddings --write
	@$(BIN)/python -m tests.bench engine --write $(ARGS)

bench-models: install-dev ## Measure loading and swapping models, and what routing costs (minutes)
	@$(BIN)/python -m tests.bench.models_bench --write $(ARGS)

llama-server: install-dev ## Build llama-server from the locked llama.cpp; print where it is
	@$(BIN)/python -m tests.bench.peer_build

faults: install-dev ## Kill processes in the middle of answers, N schedules (N=50)
	@$(BIN)/python -m tests.faults --schedules $(N) $(ARGS)

equality: install-dev ## Compare every way to an answer with a plain run, both models (an hour)
	@$(BIN)/python -m tests.model.prove_equality --write $(ARGS)

cuts: install-dev ## Cut every recorded output in two in every way: is it read the same? (minutes)
	@$(BIN)/python -m tests.text.answer.prove_cuts --write $(ARGS)

soak: install-dev ## Random traffic for 20 minutes: does anything stay behind?
	@$(BIN)/python -m tests.soak --write $(ARGS)

screenshots: install-dev ## Draw docs/screenshots anew
	@$(BIN)/python -m tests.browser.screenshots

messages: install-dev ## Bring locale/ up to date with the texts of the sources
	@$(BIN)/python -m tests.messages

lock: install-dev ## Write all locks anew from pyproject.toml and package.json
	$(COMPILE) pyproject.toml -o requirements.lock
	$(COMPILE) --extra dev pyproject.toml -o requirements-dev.lock
	PATH="$(BIN):$$PATH" npm --prefix frontend install --package-lock-only

clean: ## Remove what was built and installed here; data in var/ stays
	rm -rf .venv .uv .cache build frontend/dist frontend/node_modules
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
