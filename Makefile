# The two commands of this project are `make demo` and `make test`; both set up everything they need in .venv.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-slow fuzz lint bench docs clean

demo: .venv/core
	$(BIN)/asymrl demo

test: .venv/dev lint
	$(BIN)/pytest -n 2

test-slow: .venv/dev
	$(BIN)/pytest -n 2 -m slow

# Damaged .pomdp files, two million: by our own mutations, and guided by coverage where atheris can be installed.
fuzz: .venv/dev
	$(BIN)/python -m tests.adapters.files.fuzz
	$(INSTALL) atheris && $(BIN)/python -m tests.adapters.files.fuzz --engine atheris

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: .venv/core
	$(BIN)/python benchmarks/worlds.py

docs: .venv/dev
	$(INSTALL) -e ".[docs]" --no-build-isolation
	$(BIN)/mkdocs build --strict

# The build backend comes first and pinned too, so that nothing is fetched outside the constraints.
.venv/core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) hatchling editables
	$(INSTALL) --no-build-isolation -e .
	touch $@

.venv/dev: .venv/core
	$(INSTALL) --no-build-isolation -e ".[dev]"
	touch $@

clean:
	rm -rf .venv build dist site .pytest_cache .ruff_cache
