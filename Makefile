# Everything runs in .venv, which is made on first use and refreshed when pyproject.toml changes.
PYTHON ?= python3
TORCH ?=# a torch of your choice for every environment: make test TORCH=torch==2.13.0
BIN := .venv/bin
CODE := src tests benchmarks experiments website tools examples

.PHONY: demo test test-oldest lint bench docs notebooks results settings release-check clean

.venv/.ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q --upgrade pip
	$(BIN)/pip install -q $(TORCH) -e '.[report]'
	touch $@

.venv/.dev: .venv/.ready
	$(BIN)/pip install -q -e '.[dev,docs]'
	touch $@

.venv/.docs: .venv/.ready
	$(BIN)/pip install -q -e '.[docs]'
	touch $@

.venv-oldest/.ready: pyproject.toml  # torch is the newest that is allowed: it has jobs of its own elsewhere
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/pip install -q --upgrade pip
	$(PYTHON) tools/lower_bounds.py > .venv-oldest/lower-bounds.txt
	.venv-oldest/bin/pip install -q -r .venv-oldest/lower-bounds.txt $(TORCH) -e .
	touch $@

demo: .venv/.ready
	$(BIN)/python -m nershift.demo

test: .venv/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile  # a thread a worker: two on a busy core crawl

test-oldest: .venv-oldest/.ready
	OMP_NUM_THREADS=1 .venv-oldest/bin/python -m pytest -n 1

lint: .venv/.dev
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy

docs: .venv/.docs
	$(BIN)/python -m website.build  # build/site; a warning is an error

notebooks: .venv/.dev
	$(BIN)/python tools/notebooks.py  # stores what they print

release-check: .venv/.ready
	$(BIN)/pip install -q build
	$(BIN)/python tools/release_check.py $(if $(TORCH),--torch $(TORCH))

bench: .venv/.dev
	$(BIN)/python benchmarks/crf.py
	$(BIN)/python benchmarks/spacy_speed.py

results: .venv/.ready
	$(BIN)/python -m experiments show --markdown  # experiments/PAPER/README.md
	$(BIN)/python -m website.which  # the table of docs/which.md

settings: .venv/.ready
	$(BIN)/python -m nershift.cli.settings_page > docs/settings.md
	$(BIN)/python -m nershift.cli.commands_page > docs/commands.md

clean:
	rm -rf .venv .venv-oldest build dist demo
