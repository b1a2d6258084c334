# make demo and make test do all their set-up alone; see `make help`.
BIN := .venv/bin
# The Python that the environment was made with, until another one is named.
PYTHON ?= $(if $(wildcard $(BIN)/python),$(BIN)/python,python3)

.PHONY: help demo test coverage docs lint format bench clean core dev
.NOTPARALLEL:
.DEFAULT_GOAL := help

help:
	@echo "make demo     set up, then make an ALBERT from nothing and write a report"
	@echo "make test     set up and run the tests"
	@echo "make coverage run the tests and say which lines they never reach, in build/coverage/"
	@echo "make docs     build the documentation as a site, in build/site/"
	@echo "make lint     style, types and the floors of the house"
	@echo "make format   bring the code into the house style"
	@echo "make bench    measure side by side with peers"
	@echo "make clean    remove the environment and every build product"
	@echo
	@echo "Another Python: make demo PYTHON=python3.12"

# tools/environment.py installs only when something changed.
core dev:
	@"$(PYTHON)" -c "" >/dev/null 2>&1 || { echo "set-up: '$(PYTHON)' does not run here; name a Python 3.11 to 3.13, as in: make demo PYTHON=python3.12" >&2; exit 2; }
	@"$(PYTHON)" tools/environment.py $(if $(filter dev,$@),dev)

demo: core
	@$(BIN)/albertine demo

test: dev
	@$(BIN)/pytest -n auto --maxprocesses 4

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
