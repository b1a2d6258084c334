# Targets install what they need; see `make help`.
BIN := .venv/bin
# The Python of .venv if it exists, unless another one is given.
PYTHON ?= $(if $(wildcard $(BIN)/python),$(BIN)/python,python3)

.PHONY: help demo test test-slow test-long campaign coverage docs lint format bench clean core dev
.NOTPARALLEL:
.DEFAULT_GOAL := help

help:
	@echo "make demo       set up, train a small ALBERT from scratch and write a report"
	@echo "make test       set up and run the tests"
	@echo "make test-slow  run the slow tests: kills at random moments, whole workflows, the site"
	@echo "make test-long  run the longest of them, of which make test-slow runs a quarter for each commit"
	@echo "make campaign   interrupt, damage and flood everything: make campaign MINUTES=10 SEED=0"
	@echo "make coverage   run all tests and write the line coverage to build/coverage/"
	@echo "make docs       build the documentation as a site, in build/site/"
	@echo "make lint       check style, types and the import layers"
	@echo "make format     format the code"
	@echo "make bench      run two of the benchmarks"
	@echo "make clean      remove the environment and all build products"
	@echo
	@echo "To use another Python: make demo PYTHON=python3.12"

# tools/environment.py installs only if something changed.
core dev:
	@"$(PYTHON)" -c "" >/dev/null 2>&1 || { echo "setup: '$(PYTHON)' does not run; give a Python 3.11 to 3.13, as in: make demo PYTHON=python3.12" >&2; exit 2; }
	@"$(PYTHON)" tools/environment.py $(if $(filter dev,$@),dev)

demo: core
	@$(BIN)/albertine demo

test: dev
	@$(BIN)/pytest -n auto --maxprocesses 4 --dist worksteal --durations 10 -m "not slow"

# Another quarter of the long tests for each commit.
test-slow: dev
	@$(BIN)/pytest -n auto --maxprocesses 4 --dist worksteal --durations 20 -vv -m slow \
		--long-part $(or $(shell git rev-list --count HEAD 2>/dev/null),0)

test-long: dev
	@$(BIN)/pytest -n auto --maxprocesses 4 --dist worksteal --durations 20 -vv -m long

MINUTES ?= 10
SEED ?= 0
campaign: dev
	@$(BIN)/python -m tests.campaign --minutes $(MINUTES) --seed $(SEED)

coverage: dev
	@$(BIN)/pytest -n auto --maxprocesses 4 --cov --cov-report term --cov-report html:build/coverage
	@echo "build/coverage/index.html"

docs: dev
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

lint: dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: dev
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

bench: dev
	@$(BIN)/albertine bench startup
	@$(BIN)/albertine bench model --precision fp32

clean:
	@rm -rf .venv dist build .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
