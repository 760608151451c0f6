# The two commands of this project are `make demo` and `make test`; both set up everything they need in .venv.
PYTHON ?= python3
# Its name must be .venv, where pyright looks; only its place may be another.
VENV ?= .venv
BIN := $(VENV)/bin
# Everything but this package comes as wheels, in the versions of constraints.txt: nothing is built on the way.
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --only-binary :all: --no-compile -c constraints.txt
# Byte code is compiled on all cores afterwards; pip would do it on one.
COMPILE := $(BIN)/python -W ignore -m compileall -qq -j 0 -x '/tests?/' $(VENV)/lib || true
# Each worker begins with a half of its own, so that a file's tests mostly share what they compile, and then helps out.
PYTEST := $(BIN)/pytest -n auto --maxprocesses 4 --dist worksteal

.PHONY: demo test test-slow lint types fuzz mutants bench docs clean

demo: $(VENV)/core
	$(BIN)/asymrl demo

# Types are checked while the tests run; their report comes last.
test: $(VENV)/dev lint
	@$(BIN)/pyright --venvpath $(dir $(VENV)) > $(VENV)/types.txt 2>&1 & types=$$!; \
	echo $(PYTEST); $(PYTEST); tests=$$?; \
	wait $$types; types=$$?; echo pyright; cat $(VENV)/types.txt; exit $$((tests + types))

test-slow: $(VENV)/slow docs
	$(PYTEST) -m slow

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev
	$(BIN)/pyright --venvpath $(dir $(VENV))

# Damaged .pomdp files, two million: by our own mutations, and guided by coverage where atheris can be installed.
fuzz: $(VENV)/dev
	$(BIN)/python -m tests.envs.pomdp_files.fuzz
	$(PIP) atheris && $(BIN)/python -m tests.envs.pomdp_files.fuzz --engine atheris

# Forty deliberate mistakes, one at a time: does a test find each? Half an hour.
mutants: $(VENV)/dev
	$(BIN)/python scripts/mutants.py

bench: $(VENV)/core
	$(BIN)/python benchmarks/worlds.py

docs: $(VENV)/slow
	$(BIN)/python scripts/commands_page.py
	$(BIN)/mkdocs build --strict

# The build backend comes first and pinned too, so that nothing is fetched outside the constraints.
$(VENV)/backend: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) hatchling editables
	@touch $@

$(VENV)/core: $(VENV)/backend
	$(PIP) --no-build-isolation -e .
	@$(COMPILE); touch $@

$(VENV)/dev: $(VENV)/backend
	$(PIP) --no-build-isolation -e ".[dev]"
	@$(COMPILE); touch $@ $(VENV)/core

$(VENV)/slow: $(VENV)/dev
	$(PIP) --no-build-isolation -e ".[dev,docs,extras]"
	@$(COMPILE); touch $@

clean:
	rm -rf $(VENV) build dist site .pytest_cache .ruff_cache
