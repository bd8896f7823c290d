# Every target works in a clean clone with nothing but Python 3.11 or later and make.
#
#   make demo     the scheduler at work on a cluster in memory, in a minute
#   make test     all tests, with the same examples every time
#   make fuzz     look for new examples that break a law, before a release (MINUTES=10)
#   make mutants  small changes of the core, each of which a test should notice (SAMPLE=300 SEED=0)
#   make without-proportion  the tests in a copy without that plugin, another policy in its place
#   make check    everything a change must pass: format, lint, types, imports, spelling, tests, docs
#   make example  the example plugins, installed and tested as third parties' would be
#   make bench    the benchmarks
#   make chaos    churn and faults with two replicas, MINUTES=20 SEED=by chance
#   make sharing  churn and faults of pods that share GPUs, MINUTES=20 SEED=by chance
#   make claims   churn and faults of pods with claims on devices, MINUTES=20 SEED=by chance
#   make lock     the lock files again, after a change of pyproject.toml (UPGRADE=1: newest versions)
#   make wheel    the wheels of kaisched and of the API server that it plays with, below dist/
#   make sbom     what is installed at run time, with licences, as build/sbom.cdx.json
#   make site     the documentation as a site, build/site/site/index.html; fails at a dead link
#   make release  what a release consists of, below dist/: wheels, list of parts, chart, image, sums, signatures
#   make clean    remove what the above made

PYTHON ?= python3
VENV ?= .venv
# Arguments for pytest, as in: make test ARGS="-k gang"
ARGS ?=
# Tests at a time: one more than two cores, since some wait for servers and clocks.
WORKERS ?= 3

# How long `make fuzz` looks (10 minutes unless given; ARGS="--seed 7" begins with the same examples
# again), and `make chaos`, `make sharing` and `make claims` go on (20), and the seed of what happens there.
MINUTES ?= $(if $(filter fuzz,$(MAKECMDGOALS)),10,20)
SEED ?=

# Stamps: what they stand for is installed, and they are newer than the lock files it came from.
BASE := $(VENV)/.stamp-base
PACKAGE := $(VENV)/.stamp-package
DEV := $(VENV)/.stamp-dev
# A virtual environment without this file was made by somebody else and is never deleted.
OURS := $(VENV)/.made-by-make
FOREIGN := $(if $(wildcard $(OURS)),,$(wildcard $(VENV)/bin/python))

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input
# Hashes cover the build backend too, so that nothing unlocked is fetched for the package itself.
LOCKED := $(PIP) install --require-hashes
EDITABLE := $(PIP) install --no-deps --no-build-isolation

# A PYTHON that was asked for is taken or refused; otherwise the first that will do is looked for.
CANDIDATES := $(PYTHON) $(if $(filter file,$(origin PYTHON)),python3.14 python3.13 python3.12 python3.11)

# The interpreter to use, or "missing: " and what to install. Debian ships venv as its own package,
# named after the version unless the interpreter is the default one.
INTERPRETER = $(shell \
  told="missing: $(PYTHON) was not found; apt-get install python3 python3-venv"; \
  for python in $(CANDIDATES); do \
    command -v "$$python" >/dev/null 2>&1 || continue; \
    version=`"$$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null`; \
    if ! "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
      test -n "$$old" || old="missing: $$python is Python $$version, 3.11 or later is needed; apt-get install python3.11 python3.11-venv, or make PYTHON=<newer one>"; \
    elif "$$python" -c 'import ensurepip' 2>/dev/null; then \
      echo "$$python"; exit; \
    elif test -z "$$bare"; then \
      package="python$$version-venv"; \
      test "`basename "$$python"`" != python3 || package=python3-venv; \
      bare="missing: $$python cannot make virtual environments; apt-get install $$package"; \
    fi; \
  done; \
  echo "$${bare:-$${old:-$$told}}")

# Stops make with that one line before anything is touched; otherwise expands to the interpreter.
require = $(if $(filter missing:,$(firstword $(1))),$(error $(1)),$(1))

# Compiled once, and not again by each of the hundreds of processes that the tests start.
unexport PYTHONDONTWRITEBYTECODE

# Two pips in one environment would trip over each other.
.NOTPARALLEL:

.PHONY: demo test fuzz mutants without-proportion check static format lint types imports spelling docs example bench chaos sharing claims lock wheel sbom site release clean help

help:
	@sed -n 's/^#   \(make .*\)/\1/p' Makefile

demo: $(PACKAGE)
	$(BIN)/kaisched demo

test: $(PACKAGE) $(DEV)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

fuzz: $(PACKAGE) $(DEV)
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) $(ARGS)

# SAMPLE of them in a copy of the tree, all of ARGS="ledger quotas" or of every part: hours.
mutants: $(PACKAGE) $(DEV)
	$(BIN)/python -m tests.mutants --sample $(or $(SAMPLE),300) --seed $(or $(SEED),0) $(ARGS)

# A minute or two less than `test`, and no part of it.
without-proportion: $(PACKAGE) $(DEV)
	$(BIN)/python -m tests.without_proportion -n $(WORKERS) --dist worksteal $(ARGS)

# The tests under tests/reference are the tests of the docs; they are part of `test`.
check: static test

static: format lint types imports spelling

format: $(PACKAGE) $(DEV)
	$(BIN)/ruff format --check .

lint: $(PACKAGE) $(DEV)
	$(BIN)/ruff check .

types: $(PACKAGE) $(DEV)
	$(BIN)/mypy

imports: $(PACKAGE) $(DEV)
	$(BIN)/lint-imports

spelling: $(PACKAGE) $(DEV)
	$(BIN)/codespell

docs: $(PACKAGE) $(DEV)
	$(BIN)/python -m pytest tests/reference $(ARGS)

# Taken out again, so that it is not among the installed plugins of the other tests.
example: $(PACKAGE) $(DEV)
	$(EDITABLE) ./plugins/example ./plugins/example-policy
	@status=0; for folder in example example-policy; do \
	    (cd plugins/$$folder && $(abspath $(BIN))/python -m pytest $(ARGS)) || status=$$?; done; \
	  $(PIP) uninstall --yes kaisched-plugin-example kaisched-example-policy; exit $$status

bench: $(PACKAGE) $(DEV)
	$(BIN)/python -m tests.benchmarks $(ARGS)

wheel: $(PACKAGE)
	rm -rf dist
	$(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist . ./plugins/apiserver

sbom: $(PACKAGE)
	@mkdir -p build
	$(BIN)/python deploy/image/sbom.py \
	  $(VENV)/lib/python3*/site-packages requirements/runtime.lock > build/sbom.cdx.json

# What is missing, such as docker, is said and left out. IMAGE_BASE, SIGN, COSIGN_KEY and REGISTRY:
# deploy/release.py.
release: wheel
	$(BIN)/python deploy/release.py dist $(VENV)/lib/python3*/site-packages

# An environment of its own: what it needs is no part of any other.
SITE := build/site-env
site: $(SITE)/.stamp
	$(SITE)/bin/python docs/site/build.py build/site

$(SITE)/.stamp: requirements/site.lock
	@rm -rf "$(SITE)"
	@$(call require,$(INTERPRETER)) -m venv "$(SITE)"
	$(SITE)/bin/python -m pip --quiet --disable-pip-version-check --no-input install --require-hashes \
	  -r requirements/site.lock
	@touch $@

chaos: $(PACKAGE) $(DEV)
	$(BIN)/python -m tests.chaos --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

sharing: $(PACKAGE) $(DEV)
	$(BIN)/python -m tests.sharing --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

claims: $(PACKAGE) $(DEV)
	$(BIN)/python -m tests.chaos.claims --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
  --fork-strategy fewest --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)

# One numpy for every Python (fewest forks): decisions must not depend on the interpreter.
lock: $(BASE)
	$(LOCKED) -r requirements/tools.lock
	$(COMPILE) pyproject.toml -o requirements/runtime.lock
	$(COMPILE) --group pyproject.toml:build -c requirements/runtime.lock -o requirements/build.lock
	$(COMPILE) pyproject.toml --extra dev --extra dask --group build \
	  -c requirements/runtime.lock -c requirements/build.lock -o requirements/dev.lock
	$(COMPILE) --group pyproject.toml:lock -o requirements/tools.lock
	$(COMPILE) --group pyproject.toml:site -c requirements/dev.lock -o requirements/site.lock

# A changed lock makes the environment anew, so that what it no longer names is gone. The dev lock
# counts only where it has been installed. Our mark comes first: an interrupted run is ours too.
$(BASE): requirements/runtime.lock requirements/build.lock $(if $(wildcard $(DEV)),requirements/dev.lock)
ifneq ($(FOREIGN),)
	@echo "using $(VENV) as it is: it was not made by this Makefile"
else
	@echo "making $(VENV) with $(call require,$(INTERPRETER))"
	@if test -e "$(OURS)"; then rm -rf "$(VENV)"; fi
	@test -d "$(VENV)" || { mkdir -p "$(VENV)" && touch "$(OURS)"; }
	@$(INTERPRETER) -m venv "$(VENV)"
endif
	$(LOCKED) -r requirements/runtime.lock -r requirements/build.lock
	@touch $@

# With the API server in memory, which the playground and the tests need.
$(PACKAGE): $(BASE) pyproject.toml plugins/apiserver/pyproject.toml
	$(EDITABLE) --editable . --editable ./plugins/apiserver
	@touch $@

$(DEV): $(BASE) requirements/dev.lock
	$(LOCKED) -r requirements/dev.lock
	@touch $@

clean:
	@if test -e "$(OURS)"; then rm -rf "$(VENV)"; fi
	rm -rf build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
