# `make demo` and `make test` are the two main commands; each target sets up the environment it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := .venv-peers
# two workers on two cores; each takes half of the tests and, when it is done, some of the other's
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(or $(WORKERS),2) --dist worksteal

.PHONY: demo test long fast lint check reproduce worth exam trust bench clean

$(READY): setup.cfg pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --no-deps --requirement requirements.lock
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --editable '.[dev]'
	touch $@

demo: $(READY)  ## learn beta offline and compare it with the baselines: table, plot, TensorBoard run
	$(BIN)/python scripts/demo.py $(ARGS)

test: $(READY)  ## tests and docstring examples, without the long ones
	$(PYTEST) -m 'not long' $(ARGS)

long: $(READY)  ## tests that take minutes each, and the properties with ten times as many examples
	$(PYTEST) -m 'long or hypothesis' --hypothesis-profile=long $(ARGS)

fast: $(READY)  ## tests that take seconds
	$(PYTEST) -m 'not slow and not long' $(ARGS)

lint: $(READY)  ## ruff, mypy --strict, the prose word list
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_prose.py

check: lint test  ## lint and test

$(PEERS)/.ready: benchmarks/peers.txt
	$(PYTHON) -m venv $(PEERS)
	-$(PEERS)/bin/pip install --quiet --disable-pip-version-check --requirement benchmarks/peers.txt
	touch $@

reproduce: $(READY)  ## all tables and figures of the paper, and results/REPORT.md (ARGS=--quick: small sizes)
	$(BIN)/python scripts/reproduce.py all $(ARGS)

worth: $(READY)  ## compare learned with tuned betas, results/WORTH.md (ARGS=--quick: small sizes)
	$(BIN)/python scripts/worth.py all $(ARGS)

exam: $(READY) $(PEERS)/.ready  ## UCI tables as bandits, nothing tuned, results/EXAM.md (ARGS=--quick: small sizes)
	$(BIN)/python scripts/exam.py all $(ARGS)

trust: $(READY)  ## measure the reliability goals, results/TRUST.md (ARGS=--quick: small sizes)
	$(BIN)/python scripts/trust.py $(ARGS)

bench: $(READY) $(PEERS)/.ready  ## benchmarks, as ratios measured side by side
	$(BIN)/python -m benchmarks $(ARGS)

clean:
	rm -rf $(VENV) $(PEERS) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
