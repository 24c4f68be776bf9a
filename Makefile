# One command each: `make help` lists them. Each makes `.venv` first if it is not there.

PYTHON ?= $(shell for p in python3.11 python3; do $$p -c '' 2>/dev/null && echo $$p && break; done)
JOBS ?= 2
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/installed
OLDEST := .venv-oldest

.DEFAULT_GOAL := help
.PHONY: help install check format test test-fast test-oldest demo bench docs release-check clean

help:  ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(READY)  ## make .venv with the tested versions of everything

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "StrataGP needs Python 3.11 to build its environment; none was found"; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV) || \
		{ rm -rf $(VENV); echo "$(PYTHON) cannot make virtual environments: install python3-venv"; exit 1; }
	@echo "Installing the tested versions into $(VENV) (a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

check: $(READY)  ## format, lint, types, layers and sizes
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m pytest tests/test_size.py

format: $(READY)  ## write files in the house format and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: $(READY)  ## every test and every example in a docstring
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal --durations=10

test-fast: $(READY)  ## the tests that take two minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m 'not slow' tests

test-oldest: $(OLDEST)/installed  ## the fast tests with the oldest supported versions, in an environment of their own
	OMP_NUM_THREADS=1 $(OLDEST)/bin/python -m pytest -n $(JOBS) --dist worksteal -m 'not slow' -W ignore::DeprecationWarning \
		-W ignore::FutureWarning tests

$(OLDEST)/installed: pyproject.toml constraints-oldest.txt
	@$(PYTHON) -m venv $(OLDEST)
	@echo "Installing the oldest versions into $(OLDEST) (torch brings some gigabytes; remove it with make clean)"
	@$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-oldest.txt \
		-e . beartype hypothesis openpyxl pytest pytest-xdist
	@touch $@

demo: $(READY)  ## fit, predict, evaluate and report on data that ships with the package
	$(BIN)/python examples/demo.py

bench: $(READY)  ## the quick benchmarks
	$(BIN)/python benchmarks/linalg.py --quick

docs: $(READY)  ## build the documentation site into out/site
	@$(BIN)/python -c 'import mkdocs, material, mkdocstrings_handlers.python' 2>/dev/null || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "Site: out/site/index.html"

release-check: $(READY)  ## build the package, install it in an empty environment and try it there
	@$(BIN)/python -c 'import build, twine, pyright' 2>/dev/null || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[release]'
	$(BIN)/python tools/release_check.py

clean:  ## remove the environment and every cache
	rm -rf $(VENV) $(OLDEST) dist build .mypy_cache .ruff_cache .import_linter_cache .hypothesis
