# Everything runs in .venv, from locked dependencies. Needed beforehand: Python 3.11 or newer, make, and a Python
# package registry (pip's own settings say which).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
UNFINISHED := $(VENV)/.unfinished
# -qq: errors only. The versions are fixed by the lock file, so pip has nothing else to tell.
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
SUPPORTED := import sys; sys.exit(sys.version_info < (3, 11))

.DEFAULT_GOAL := help
.PHONY: help demo test lint bench schema lock clean

help:  ## Show this list
	@echo "odsynth: synthetic commuting data with a certificate of privacy. Targets:"
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r target text; do \
		printf '%-12s %s\n' "$$target" "$$text"; done

demo: $(STAMP)  ## Set up, then release the built-in region into out/demo
	@$(BIN)/odsynth demo

test: lint  ## Set up, then run all checks and all tests
	@$(BIN)/python -m pytest -n 2

lint: $(STAMP)  ## Set up, then check style, formatting and types
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

# Set-up happens once, and again when what it installs has changed. An environment that this rule began and did not
# finish (the marker is still there), or one that cannot run a supported Python and pip, is made anew; any other
# environment found here is brought up to date in place.
$(STAMP): requirements.lock pyproject.toml
	@if test -e $(UNFINISHED) || ! $(BIN)/python -c '$(SUPPORTED)' || ! $(BIN)/python -m pip --version; then \
		rm -rf $(VENV); fi >/dev/null 2>&1
	@if ! test -d $(VENV); then \
		$(PYTHON) -c '$(SUPPORTED)' 2>/dev/null || { \
			echo "odsynth needs Python 3.11 or newer, and \"$(PYTHON)\" is not: say which to use, as in" \
				"\"make PYTHON=python3.12 $(or $(firstword $(MAKECMDGOALS)),demo)\"." >&2; exit 1; }; \
		echo "Setting up $(VENV) (once, about a minute) ..."; \
		mkdir $(VENV) && touch $(UNFINISHED) && $(PYTHON) -m venv $(VENV); fi
	@touch $(UNFINISHED)
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@rm $(UNFINISHED)
	@touch $(STAMP)

bench: $(STAMP)  ## Measure: the sampler, the bounds, and Rhode Island from csv.gz to checked release
	@$(BIN)/python benchmarks/sampler.py
	@$(BIN)/python benchmarks/tightness.py
	@$(BIN)/python benchmarks/rhode_island.py

schema: $(STAMP)  ## Write docs/certificate.schema.json from the program
	@$(BIN)/python -c "import json, pipelines; print(json.dumps(pipelines.certificate_schema(), indent=1))" \
		> docs/certificate.schema.json

# Keeps the versions that still fit; "make lock LOCKFLAGS=--upgrade" takes the newest of everything.
lock: $(STAMP)  ## Write requirements.lock anew from pyproject.toml
	@test -x $(BIN)/uv || $(PIP) install uv
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--extra test $(LOCKFLAGS) --output-file requirements.lock pyproject.toml

clean:  ## Remove the environment, caches and builds; keeps out/
	@rm -rf $(VENV) build dist *.egg-info pipelines/_version.py .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find synth geo_data pipelines tests benchmarks examples -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
