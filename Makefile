# `make demo` and `make test` need nothing but Python 3.10 to 3.13 and pip on Linux: they make .venv first.

PYTHON ?= python3
ROBOT ?= ur5
# Default: those of the command.
ITERATIONS ?=
SEED ?= 0

BIN := .venv/bin
INSTALLED := .venv/installed

# A sourced ROS 2 would mix its libraries with those of the wheels.
unexport PYTHONPATH LD_LIBRARY_PATH AMENT_PREFIX_PATH RMW_IMPLEMENTATION

.PHONY: venv demo test lint bench bench-learning clean

venv: $(INSTALLED)

# A new pip, for the resolver of older ones does not come to an end on Python 3.10.
# PyTorch first: without CUDA, from an index that pip is set up with or from PyTorch's own, else what PyPI has.
$(INSTALLED): setup.py constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; (3, 10) <= v <= (3, 13) or sys.exit("error: Python %d.%d: ROS 2 has wheels for Python 3.10 to 3.13; choose one by make PYTHON=..." % v)'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q --upgrade pip
	$(BIN)/pip install -qqq -c constraints.txt torch \
	  || $(BIN)/pip install -qqq -c constraints.txt torch --retries 1 --index-url https://download.pytorch.org/whl/cpu \
	  || $(BIN)/pip install -q torch
	$(BIN)/pip install -q -e '.[ros,test,dev]'
	touch $@

demo: venv
	mkdir -p runs
	$(BIN)/realitygrad demo --robot $(ROBOT) $(addprefix --iterations ,$(ITERATIONS)) --seed $(SEED) --json runs/demo.json

test: venv
	$(BIN)/python -m pytest

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: venv
	mkdir -p runs
	$(BIN)/realitygrad bench physics --robot $(ROBOT) --json runs/bench_physics.json
	$(BIN)/realitygrad bench policy --robot $(ROBOT) --json runs/bench_policy.json
	$(BIN)/realitygrad bench recorder --robot $(ROBOT) --json runs/bench_recorder.json
	$(BIN)/realitygrad bench physics --robot anymal_c --json runs/bench_physics_anymal_c.json
	$(BIN)/realitygrad bench contact --out runs/bench_contact

# Takes an hour; what it has trained is not trained again.
bench-learning: venv
	mkdir -p runs
	$(BIN)/realitygrad bench learning --json runs/bench_learning.json --out runs/bench_learning

# Keeps runs/.
clean:
	rm -rf .venv build install log *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find realitygrad_ros test launch -name __pycache__ -prune -exec rm -rf {} +
