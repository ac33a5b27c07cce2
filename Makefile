# Everything runs in .venv, from locked dependencies. Needed beforehand: Python 3.11 or newer, make, and a Python
# package registry (pip's own settings say which). Maps need a library that npm fetches; all else works without.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
UNFINISHED := $(VENV)/.unfinished
COMPILED := $(VENV)/.compiled
# -qq: errors only. The versions are fixed by the lock file, so pip has nothing else to tell.
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
SBOM := pipelines/sbom.cdx.json
MAPS := pipelines/views/maps
LIBRARY := $(MAPS)/vendor/map.js
PEERS := out/peers/bin/python
SUPPORTED := import sys; sys.exit(sys.version_info < (3, 11))

# Tests start hundreds of processes: without bytecode each of them would compile the project anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test check deep lint proofs library docs dist licences bench notebooks reference schema lock clean

help:  ## Show this list
	@echo "odsynth: synthetic commuting data with a certificate of privacy. Targets:"
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r target text; do \
		printf '%-14s %s\n' "$$target" "$$text"; done
	@echo "Tests of maps in a browser run where chromium is installed (Debian: apt-get install chromium)."

demo: $(STAMP) $(LIBRARY)  ## Set up, then release the built-in region into out/demo
	@$(BIN)/odsynth demo

# The tests of a file go to one process: what they share, as a browser or a service, is started once. There are more
# processes than the two processors that these tests are made for: many of them wait for a browser or for others.
test: lint $(COMPILED)  ## Set up, then run checks, tests and notebooks
	@$(BIN)/python -m pytest -n 4 --dist loadfile

check: lint  ## Set up, then run checks and quick tests of every room: a minute and a half
	@$(BIN)/python -m pytest -n 2 -m "quick and not slow and not deep" tests

deep: $(STAMP) $(LIBRARY)  ## Set up, then run the longer versions of some tests, which `make test` leaves out
	@$(BIN)/python -m pytest -n 2 -m deep

lint: $(STAMP) $(LIBRARY)  ## Set up, then check style, formatting, import rules and types
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/lint-imports --no-cache --no-logo
	@$(BIN)/mypy
	@if test -d $(MAPS)/node_modules; then cd $(MAPS) && node_modules/.bin/eslint js && node_modules/.bin/tsc; fi

# Needs Coq, and nothing of Python: docs/proofs/README.md names the packages.
proofs:  ## Check the machine-read proofs of the guarantee, with Coq (docs/proofs)
	@docs/proofs/check

# Set-up happens once, and again when what it installs has changed. An environment that this rule began and did not
# finish (the marker is still there), or one that cannot run a supported Python and pip, is made anew; any other
# environment found here is brought up to date in place. The pip that many an interpreter brings takes twice as long
# as a newer one.
$(STAMP): requirements-pip.lock requirements.lock pyproject.toml
	@if test -e $(UNFINISHED) || ! $(BIN)/python -c '$(SUPPORTED)' || ! $(BIN)/python -m pip --version; then \
		rm -rf $(VENV); fi >/dev/null 2>&1
	@if ! test -d $(VENV); then \
		$(PYTHON) -c '$(SUPPORTED)' 2>/dev/null || { \
			echo "odsynth needs Python 3.11 or newer, and \"$(PYTHON)\" is not: say which to use, as in" \
				"\"make PYTHON=python3.12 $(or $(firstword $(MAKECMDGOALS)),demo)\"." >&2; exit 1; }; \
		echo "Setting up $(VENV) (once, some minutes) ..."; \
		mkdir $(VENV) && touch $(UNFINISHED) && $(PYTHON) -m venv $(VENV); fi
	@touch $(UNFINISHED)
	@$(PIP) install --require-hashes -r requirements-pip.lock
	@$(PIP) install --no-compile --no-deps --require-hashes -r requirements.lock
	@$(PIP) uninstall -y odsynth >/dev/null 2>&1 || true  # the name that this project had; on the index it is another's
	@$(PIP) install --no-deps --no-build-isolation -e .
	@rm $(UNFINISHED)
	@touch $(STAMP)

# What Python and numba compile is kept. These tests call most kernels, in one process beside the check of types; else
# each process of the tests would compile all of them. Whether they pass is seen when they run with all others.
$(COMPILED): $(STAMP) $(wildcard synth/*.py synth/*/*.py) geo_data/_kernels.py
	@$(BIN)/python -m pytest -q tests -k "test_readers_take_it and (residents or geometric or noise or near)" >/dev/null 2>&1 || true
	@touch $(COMPILED)

library: $(LIBRARY)  ## Fetch the library that draws maps (MapLibre GL JS) and build their program, with npm

$(LIBRARY): $(MAPS)/package-lock.json $(wildcard $(MAPS)/js/*.js)
	@$(PYTHON) building/library.py && touch -c $@

# What only the site needs, beside what requirements.lock has, is installed when the site is first built.
docs: $(STAMP) notebooks  ## Build the documentation as a site, notebooks executed, into out/docs
	@$(PIP) install --require-hashes --no-deps -r requirements-docs.lock
	@rm -rf out/docs docs/site/reference/generated
	@$(BIN)/python -m sphinx -q -W --keep-going --fresh-env -j 2 -c docs/site -d out/docs-pages . out/docs
	@echo "The documentation is in out/docs: open out/docs/index.html."

# Two builds of a commit have the same bytes. The SBOM goes into the packages, so that certificates can name it, and is
# put beside them; in the checkout it does not stay, because it is of a package and not of code that changes.
dist: $(STAMP) $(LIBRARY)  ## Build wheel, source archive and SBOM (CycloneDX) into dist/, and check them
	@$(PIP) install --require-hashes --no-deps -r requirements-dist.lock
	@rm -rf dist build && mkdir dist
	@trap 'rm -f $(SBOM)' EXIT && $(BIN)/python building/sbom.py sbom $(SBOM) && \
		$(BIN)/python -m build --no-isolation --outdir dist . >/dev/null && \
		wheel=$$(echo dist/*.whl) && cp $(SBOM) $${wheel%-py3-none-any.whl}.cdx.json
	@$(BIN)/python -m twine check --strict dist/*.whl dist/*.tar.gz
	@$(BIN)/check-wheel-contents dist/*.whl
	@cd dist && sha256sum *

licences: $(STAMP)  ## Write docs/licences.md from the installed libraries
	@$(PIP) install --require-hashes --no-deps -r requirements-dist.lock
	@$(BIN)/python building/sbom.py licences

# "make bench FILL=yes" also puts the figures into the pages benchmarks/*.md.
bench: $(STAMP) $(PEERS)  ## Measure sampler, planner, certifier, whole releases and peers: time, memory, Dask tasks
	@mkdir -p out/benchmarks
	@$(BIN)/python -m pytest -c benchmarks/pytest.ini benchmarks --benchmark-json=out/benchmarks/suite.json
	@$(BIN)/python benchmarks/report.py out/benchmarks/suite.json $(if $(FILL),--page benchmarks/report.md)
	@$(BIN)/python benchmarks/startup.py --config examples/rhode_island.toml $(if $(FILL),--page benchmarks/startup.md)
	@$(BIN)/python benchmarks/rhode_island.py $(if $(FILL),--page benchmarks/rhode_island.md)
	@$(BIN)/python benchmarks/large_pools.py $(if $(FILL),--page benchmarks/large_pools.md)
	@$(BIN)/python benchmarks/comparison.py --python $(PEERS) $(if $(FILL),--page benchmarks/comparison.md)

# Other tools, in an environment of their own: they want other versions of what odsynth uses.
$(PEERS):
	@$(PYTHON) -m venv --clear out/peers
	@out/peers/bin/pip --disable-pip-version-check -qq install mbi==2.0.0 inf-tda==0.1 opendp==0.12.1 pyarrow || \
		{ rm -rf out/peers; exit 1; }

notebooks: $(STAMP)  ## Write notebooks/*.ipynb from the .py beside them, without outputs
	@$(BIN)/python notebooks/pair.py

reference: $(STAMP)  ## Write docs/configuration.md from the program
	@$(BIN)/python -c "from pipelines.config.reference import configuration_reference as r; print(r(), end='')" \
		> docs/configuration.md.new && mv docs/configuration.md.new docs/configuration.md

schema: $(STAMP)  ## Write docs/certificate.schema.json from the program
	@$(BIN)/python -c "import json; from pipelines.release.certificate import certificate_schema; print(json.dumps(certificate_schema(), indent=1))" \
		> docs/certificate.schema.json.new && mv docs/certificate.schema.json.new docs/certificate.schema.json

# Keeps the versions that still fit; "make lock LOCKFLAGS=--upgrade" takes the newest of everything.
lock: $(STAMP)  ## Write requirements.lock and the three beside it anew from pyproject.toml
	@test -x $(BIN)/uv || $(PIP) install uv
	@echo pip | $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		$(LOCKFLAGS) --output-file requirements-pip.lock -
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--extra test $(LOCKFLAGS) --output-file requirements.lock pyproject.toml
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--extra docs $(LOCKFLAGS) --constraint requirements.lock --output-file requirements-docs.lock \
		$$(sed -n 's/^\([a-z0-9._-]*\)==.*/--no-emit-package \1/p' requirements.lock) pyproject.toml
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--extra dist $(LOCKFLAGS) --constraint requirements.lock --output-file requirements-dist.lock \
		$$(sed -n 's/^\([a-z0-9._-]*\)==.*/--no-emit-package \1/p' requirements.lock) pyproject.toml

clean:  ## Remove the environment, caches and builds; keeps out/
	@rm -rf $(VENV) $(dir $(LIBRARY)) $(MAPS)/node_modules $(SBOM) docs/site/reference/generated build dist *.egg-info pipelines/_version.py .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find synth geo_data pipelines tests benchmarks examples notebooks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
