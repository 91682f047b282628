# Every target works alone on a fresh clone: it builds its environment from the pinned constraints where needed.
# Another interpreter: make PYTHON=python3.12 test

PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help paper ablation families family control docs docs-study docs-results docs-pictures test soak test-sb3 lint bench coverage wheel-test commit-checks clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

paper: .venv/.stamp ## Run the paper's whole study: tables, figures, report and findings in results/paper
	$(BIN)/spaql paper --out results/paper

ablation: .venv/.stamp ## Run Tessera without each of its mechanisms, and SPAQL and AQL
	$(BIN)/spaql ablation --out results/ablation

families: .venv/.stamp ## Run Tessera on random problems that it was not tuned on
	$(BIN)/spaql families --out results/families

family: .venv/.stamp ## Run the paper's line of algorithms on sixteen problems, with equal budgets
	$(BIN)/spaql family --out results/family

control: .venv/.stamp ## Run Tessera, SPAQL, SPAQL-TS and AQL on classic control
	$(BIN)/spaql control --out results/control

# The table of control has no rows of Stable-Baselines3: for these, spaql control --with-sb3 --out results/control (hours).
docs-study: paper ablation families family control ## Run all studies, and copy their tables, findings and some figures into docs/study
	cp results/paper/tables.md results/paper/tables.csv results/paper/findings.json docs/study/
	cp results/ablation/ablation.md results/ablation/ablation.json docs/study/
	cp results/families/families.md results/families/families.json docs/study/
	cp results/family/family.md results/family/family.json docs/study/
	cp results/control/control.md results/control/control.json docs/study/
	for name in docs/study/*.png; do \
		find results/paper results/ablation results/family results/control -name $$(basename $$name) -exec cp {} docs/study/ ';'; done
	$(BIN)/python docs/include_results.py

docs: .venv-docs/.stamp ## Build the documentation site in docs/_build/html, run its tutorials, and check it
	rm -rf docs/_build docs/reference/generated
	.venv-docs/bin/sphinx-build --quiet --fail-on-warning --keep-going --jobs 2 -d docs/_build/doctrees docs docs/_build/html
	.venv-docs/bin/python docs/check_site.py

docs-results: .venv/.stamp ## Copy results from docs/study into README.md and the pages of docs
	$(BIN)/python docs/include_results.py

docs-pictures: .venv/.stamp ## Draw the pictures of the documentation (the one of the page needs chromium)
	$(BIN)/python docs/draw_pictures.py
	$(BIN)/python docs/draw_explanations.py

test: .venv/.stamp ## Run the tests, compiled, on two processors
	$(BIN)/python -m pytest -n 2 --dist worksteal

soak: .venv/.stamp ## Kill and interrupt runs, corrupt files: the long form of some tests; all tests with checked indices
	SPAQL_SOAK=1 $(BIN)/python -m pytest tests/test_train_dir.py tests/test_spoiled.py tests/test_dask.py \
		tests/test_interrupts.py tests/test_resume.py tests/test_bad_input.py tests/test_memory.py
	SPAQL_CHECKED=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test-sb3: .venv-sb3/.stamp ## Run the tests with Stable-Baselines3, in an environment of its own (torch is heavy)
	.venv-sb3/bin/python -m pytest -m sb3 tests/test_sb3.py

lint: .venv/.stamp ## Check style, types and import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/.stamp ## Measure speed
	$(BIN)/spaql bench

coverage: .venv/.stamp ## Run the tests with the JIT off and measure line and branch coverage
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not compiled_only" \
		--cov=spaql --cov-report=term-missing --cov-fail-under=85

wheel-test: .venv/.stamp ## Build the wheel and use it in an empty environment
	@set -eu; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; trap 'exit 130' INT; trap 'exit 143' TERM; \
	$(BIN)/python -m build --wheel --outdir "$$tmp/dist" . >"$$tmp/log" 2>&1 || { cat "$$tmp/log" >&2; exit 1; }; \
	$(BIN)/python -m venv "$$tmp/venv"; \
	"$$tmp/venv/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt "$$tmp"/dist/*.whl; \
	cd "$$tmp"; export NUMBA_CACHE_DIR="$$tmp/cache"; \
	venv/bin/spaql --version; \
	venv/bin/spaql train oil --iterations 20 --seed 0 --quiet --json; \
	echo "wheel-test: passed"

commit-checks: lint test coverage wheel-test ## Run everything that a commit must pass

clean: ## Remove everything that make built
	rm -rf .venv .venv-docs .venv-sb3 build dist docs/_build docs/reference/generated results .coverage .coverage.* htmlcov \
		.pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests -type d -name __pycache__ -prune -exec rm -rf {} +

.venv/.stamp: INSTALLED := '.[dev]'
.venv-docs/.stamp: INSTALLED := '.[dev,docs]'
.venv-sb3/.stamp: INSTALLED := '.[sb3]' pytest
.venv/.stamp .venv-docs/.stamp .venv-sb3/.stamp: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "spaql needs Python 3.11 or newer as '$(PYTHON)'; name another with: make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "'$(PYTHON)' lacks the venv module; install it (Debian, Ubuntu: the package python3-venv)" >&2; exit 1; }
	rm -rf $(@D)
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e $(INSTALLED)
	@touch $@
