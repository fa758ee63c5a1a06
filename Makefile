# make train and make test are complete on a fresh machine with Python and make.
PYTHON ?= python3
VENV := .venv
TORCH_VENV := .venv-torch
BIN := $(VENV)/bin
WHEEL := $(VENV)/wheel
TRAIN_ARGS ?=
PYTEST_ARGS ?= -n 2 --dist worksteal
BENCH_ARGS ?=

.PHONY: venv train test test-all test-torch lint format bench gallery tables clean

venv: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test,lint]"
	touch $@

$(TORCH_VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(TORCH_VENV)
	$(TORCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[test,bench,huggingface,onnx]"
	touch $@

train: venv
	$(BIN)/tinygrad-lite train $(TRAIN_ARGS)

test: venv
	$(BIN)/python -m pytest -m "not slow" $(PYTEST_ARGS)

test-all: venv
	$(BIN)/python -m pytest $(PYTEST_ARGS)

test-torch: $(TORCH_VENV)/.installed
	$(TORCH_VENV)/bin/python -m pytest -m "torch or onnx" $(PYTEST_ARGS)

# The type and layering checkers follow no import hook, so they read the wheel, where ir/ is tinygrad_lite/ir/.
lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build $(WHEEL)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(WHEEL) .
	cd $(WHEEL) && ../bin/mypy --config-file ../../pyproject.toml -p tinygrad_lite.ir -p tinygrad_lite.ops
	cd $(WHEEL) && ../bin/lint-imports ../../pyproject.toml

format: venv
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(TORCH_VENV)/.installed
	$(TORCH_VENV)/bin/python benchmarks/compare.py $(BENCH_ARGS)

gallery: venv
	$(BIN)/python docs/gallery.py
	$(BIN)/python docs/tour.py

tables: venv
	$(BIN)/python docs/op_tables.py

clean:
	rm -rf $(VENV) $(TORCH_VENV) build dist .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
