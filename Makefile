# Everything runs in .venv, which is made on first use and refreshed when pyproject.toml changes.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint bench results settings clean

.venv/.ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q --upgrade pip
	$(BIN)/pip install -q -e '.[report]'
	touch $@

.venv/.dev: .venv/.ready
	$(BIN)/pip install -q -e '.[dev]'
	touch $@

demo: .venv/.ready
	$(BIN)/python -m nershift.demo

test: .venv/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile  # a thread a worker: two on a busy core crawl

lint: .venv/.dev
	$(BIN)/ruff check src tests benchmarks experiments
	$(BIN)/ruff format --check src tests benchmarks experiments
	$(BIN)/mypy

bench: .venv/.dev
	$(BIN)/python benchmarks/crf.py
	$(BIN)/python benchmarks/spacy_speed.py

results: .venv/.ready
	$(BIN)/python -m experiments show --markdown  # experiments/PAPER/README.md

settings: .venv/.ready
	$(BIN)/python -m nershift.cli.settings_page > docs/settings.md
	$(BIN)/python -m nershift.cli.commands_page > docs/commands.md

clean:
	rm -rf .venv build dist demo
