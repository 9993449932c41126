# Each command works from a fresh clone: it makes its environment first, if that is missing or old.
#
#   make demo                  the tour (LOGS=file.jsonl.gz for logs of your own)
#   make test                  the tests that take seconds; make test-all runs the slow ones too
#   make test-gymnasium-1.0    the same tests on gymnasium 1.0.0, in a second environment
#   make lint                  ruff and mypy
#   make docs                  environments, datasets, guides and reference into build/docs
#   make bench                 every scripts/bench_*.py
#   make clean                 removes the environments, caches and whatever else was built
#
# PYTHON=python3.12            another interpreter, 3.11 or later
# WORKERS=1                    tests in this many processes; as many as there are cores by default
# TORCH_INDEX=https://...      where pip finds torch's CPU builds, if not among its usual places

PYTHON ?= python3
TORCH_INDEX ?=
LOGS ?=
WORKERS ?= auto

VENV := .venv
VENV_GYM10 := .venv-gym10
EXTRAS := sb3,llm,calibration,report,serve,tune,test,lint,docs
EXTRAS_GYM10 := sb3,offline,calibration,report,tune,test

# What `import d3rlpy` needs beside torch, numpy and a gymnasium. d3rlpy itself is installed
# without its dependencies, because it asks for gymnasium==1.0.0 and runs on newer ones as well.
D3RLPY := d3rlpy==2.8.1
D3RLPY_NEEDS := gym structlog dataclasses-json colorama click scikit-learn h5py tqdm typing-extensions

# A file's tests stay together: what they share is made once.
IN_WORKERS = -n $(WORKERS) --dist loadfile

export OMP_NUM_THREADS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
unexport PYTHONPATH

.PHONY: demo test test-all test-gymnasium-1.0 lint docs bench clean python
.DEFAULT_GOAL := test

demo: $(VENV)/.installed
	$(VENV)/bin/python scripts/demo.py $(if $(LOGS),--logs $(LOGS))

test: $(VENV)/.installed
	$(VENV)/bin/pytest $(IN_WORKERS) -m "not slow"

test-all: $(VENV)/.installed
	$(VENV)/bin/pytest $(IN_WORKERS)

test-gymnasium-1.0: $(VENV_GYM10)/.installed
	$(VENV_GYM10)/bin/pytest $(IN_WORKERS) -m "not slow"

lint: $(VENV)/.installed
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

docs: $(VENV)/.installed
	$(VENV)/bin/python scripts/build_docs.py

bench: $(VENV)/.installed
	set -e; for script in $(wildcard scripts/bench_*.py); do $(VENV)/bin/python $$script; done

clean:
	rm -rf $(VENV) $(VENV_GYM10) demo bench build dist *.egg-info
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find convgym trainers scripts tests -name __pycache__ -type d -prune -exec rm -rf {} +

# $(1): environment, $(2): constraints. A CUDA build of torch is never fetched: on Linux the
# constraints name the CPU build, and pip stops where it finds none.
define new_environment
	@echo "Installing into $(1); the first time takes a few minutes."
	$(PYTHON) -m venv $(1)
	$(if $(filter-out constraints.txt,$(2)),grep -v "^gymnasium==" constraints.txt > $(2))
	$(1)/bin/pip install -q $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) -c $(2) torch==2.13.0 \
		|| { echo "pip found no CPU build of torch 2.13.0; name the package index that PyTorch's" \
		"installation page gives for CPU: make $(MAKECMDGOALS) TORCH_INDEX=https://..." >&2; exit 1; }
endef

$(VENV)/.installed: pyproject.toml constraints.txt | python
	$(call new_environment,$(VENV),constraints.txt)
	$(VENV)/bin/pip install -q -c constraints.txt -e ".[$(EXTRAS)]" $(D3RLPY_NEEDS)
	$(VENV)/bin/pip install -q --no-deps $(D3RLPY)
	@touch $@

# Plain pip: the [offline] extra decides, and decides for gymnasium 1.0.0.
$(VENV_GYM10)/.installed: pyproject.toml constraints.txt | python
	$(call new_environment,$(VENV_GYM10),$(VENV_GYM10)/constraints.txt)
	$(VENV_GYM10)/bin/pip install -q -c $(VENV_GYM10)/constraints.txt -e ".[$(EXTRAS_GYM10)]"
	@touch $@

python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		|| { echo "ConvGym needs Python 3.11 or later, but '$(PYTHON)' is not; name one that is:" \
		"make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 1; }
