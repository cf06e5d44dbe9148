# Everything runs in .venv, which each target makes if it is not there.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test lint types unit docs setup clean

# The main job: fit a network to every image, learn from the networks' weights, report.
demo: $(READY)
	$(BIN)/weightspace demo

# Everything that must pass before a change lands.
test: lint types unit docs

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

# One thread a worker: the tests' tensors are small, and two workers fill two cores.
unit: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

# The site, in docs/_build/html. Its tutorials are run; whatever fails is an error.
docs: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build -E -W --keep-going -b html docs docs/_build/html

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt -e '.[dev]'
	touch $(READY)

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache demo-out
