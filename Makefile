# Everything a person types. Each target sets up what it needs in .venv.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed
# What a run needs, without the tools of developers, who have this one as well.
RUNS := .venv/runs
# Flower holds typer and rich to older versions than we have: it has a place of its own.
FLOWER := .venv-flower/bin
FLOWER_STAMP := .venv-flower/installed
# Byte code is made of what is imported, not of all of PyTorch: half the time.
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
INSTALL := $(BIN)/python $(PIP_INSTALL)
# An editable install knows which packages there are: it is made again for a new one.
PACKAGES := $(shell find src -name __init__.py)
SOURCES := pyproject.toml constraints.txt CMakeLists.txt $(PACKAGES) $(wildcard src/fediac/native/src/*.[ch])

.PHONY: help venv demo test test-flower lint format bench bench-flower mutants fuzz sanitize soak-network model docs dist try-dist clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

venv: $(STAMP)  ## create .venv and install everything into it

$(STAMP): $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) --editable '.[dev]'
	touch $(RUNS) $@

$(RUNS): $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) --editable '.[train]'
	touch $@

$(FLOWER_STAMP): $(SOURCES)
	test -x $(FLOWER)/python || $(PYTHON) -m venv .venv-flower
	$(FLOWER)/python $(PIP_INSTALL) --editable '.[dev-flower]'
	touch $@

demo: $(RUNS)  ## train a digit classifier with every algorithm, write a report
	$(BIN)/fediac demo

test: $(STAMP) test-flower  ## run all tests
	$(BIN)/python -m pytest -n 2 --cov --cov-report=
	$(BIN)/coverage report --include='*/fediac/core/*,*/fediac/compressors/*,*/fediac/switch/*,*/fediac/sessions/*,*/fediac/wire/*,*/fediac/sim/*,*/fediac/transports/*' --fail-under=95 --format=total

# What Flower and its libraries deprecate among themselves is not ours to mend.
test-flower: $(FLOWER_STAMP)  ## run those of Flower, and of the command line with its typer and rich
	$(FLOWER)/python -m pytest -W ignore::DeprecationWarning -W ignore::FutureWarning tests/flower
	$(FLOWER)/python -m pytest -W ignore::DeprecationWarning tests/integration/test_cli_entry.py -k 'wrong_command_line or has_help or without_a_command or cut_off and round'

lint: $(STAMP)  ## check style, types and layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)  ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)  ## kernels and the switch against a memcpy, the simulator against SimPy, training against loops, rounds over links against gloo
	$(BIN)/fediac bench
	$(BIN)/python -m benchmarks.bench_switch
	$(BIN)/python -m benchmarks.bench_udp
	$(BIN)/python -m benchmarks.bench_sim
	$(BIN)/python -m benchmarks.bench_training
	$(BIN)/python -m benchmarks.bench_round_network

bench-flower: $(FLOWER_STAMP)  ## the same training by fediac run and by Flower's simulation, with and without FediAC
	$(FLOWER)/python -m benchmarks.bench_flower

mutants: $(STAMP)  ## put mistakes into a copy of the code: the tests must notice each
	$(BIN)/python -m tests.mutants

FUZZ_SECONDS ?= 20
fuzz: $(STAMP)  ## search for packets that the compiled switch cannot bear; needs clang
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS)

sanitize: $(STAMP)  ## the tests of the C kernels, with a library that checks its addresses; needs GCC
	$(BIN)/python -m tests.sanitize

soak: $(STAMP)  ## clients, coordinators and switches in bad worlds, for millions of steps
	$(BIN)/python -m tests.property.sessions

model: $(STAMP)  ## search the models of the protocol with SPIN, and their mistakes
	$(BIN)/python -m models

docs: $(STAMP)  ## build the documentation's site into build/site; a warning is an error
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet --fresh-env --conf-dir docs . build/site

dist: $(STAMP)  ## build the wheels and the sdist into dist/
	rm -rf dist build/dist
	$(BIN)/python -m build --outdir build/dist .
	$(BIN)/python -m build --wheel --config-setting=wheel.cmake=false --outdir dist .
	cp build/dist/*.tar.gz dist/
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist build/dist/*.whl

try-dist:  ## install what is in dist/ into an empty environment, run the demo there
	$(PYTHON) tools/try_dist.py

soak-network: $(STAMP)  ## ten minutes of rounds with losses and kills: all equal, memory flat
	$(BIN)/python -m tests.soak_network

clean:  ## remove everything that was built
	rm -rf .venv .venv-flower build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks .coverage*
