# Two commands do everything, environment included: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := .venv-peers

.PHONY: demo test long fast lint check reproduce worth bench clean

$(READY): setup.cfg pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: $(READY)  ## learn beta offline, play it and its rivals; table, plot, TensorBoard run
	$(BIN)/python scripts/demo.py $(ARGS)

test: $(READY)  ## the tests and the examples in the docstrings
	$(BIN)/python -m pytest -q -m 'not long' $(ARGS)

long: $(READY)  ## the tests that take minutes each; .ci/run runs them too
	$(BIN)/python -m pytest -q -m long $(ARGS)

fast: $(READY)  ## the tests that take seconds
	$(BIN)/python -m pytest -q -m 'not slow and not long' $(ARGS)

lint: $(READY)  ## ruff, mypy --strict, the prose word list
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_prose.py

check: lint test  ## lint, types, doctests, tests

$(PEERS)/.ready: benchmarks/peers.txt
	$(PYTHON) -m venv $(PEERS)
	-$(PEERS)/bin/pip install --quiet --disable-pip-version-check --requirement benchmarks/peers.txt
	touch $@

reproduce: $(READY)  ## every table and figure of the paper, and results/REPORT.md (ARGS=--quick: small sizes)
	$(BIN)/python scripts/reproduce.py all $(ARGS)

worth: $(READY)  ## is learning worth it? results/WORTH.md (ARGS=--quick: small sizes)
	$(BIN)/python scripts/worth.py all $(ARGS)

bench: $(READY) $(PEERS)/.ready  ## how fast it is, as ratios measured side by side
	$(BIN)/python -m benchmarks $(ARGS)

clean:
	rm -rf $(VENV) $(PEERS) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
