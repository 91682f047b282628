# Every target works alone on a fresh clone: it builds its environment from the pinned constraints where needed.
# Another interpreter: make PYTHON=python3.12 test

PYTHON ?= python3
PYTHONS ?= $(PYTHON)
SCRIPTS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN := .venv/$(SCRIPTS)
DOCS_BIN := .venv-docs/$(SCRIPTS)
SB3_BIN := .venv-sb3/$(SCRIPTS)
RELEASE_BIN := .venv-release/$(SCRIPTS)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help paper ablation families family control gallery docs docs-study docs-results docs-pictures test soak test-sb3 lint bench coverage dist wheel-test release-check commit-checks clean

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

gallery: .venv/.stamp ## Run the gallery's scripts, and copy their results into docs/gallery
	for script in examples/gallery/*.py; do \
		case $$script in */comparison.py) ;; *) $(BIN)/python $$script || exit 1;; esac; done
	$(BIN)/python docs/include_results.py

docs: .venv-docs/.stamp ## Build the documentation site in docs/_build/html, run its tutorials, and check it
	rm -rf docs/_build docs/reference/generated
	$(DOCS_BIN)/sphinx-build --quiet --fail-on-warning --keep-going --jobs 2 -d docs/_build/doctrees docs docs/_build/html
	$(DOCS_BIN)/python docs/check_site.py

docs-results: .venv/.stamp ## Copy results from docs/study into README.md and the pages of docs
	$(BIN)/python docs/include_results.py

docs-pictures: .venv/.stamp ## Draw the pictures of the documentation (the one of the page needs chromium)
	$(BIN)/python docs/draw_pictures.py
	$(BIN)/python docs/draw_explanations.py

test: .venv/.stamp ## Run the tests, compiled, on two processors
	$(BIN)/python -m pytest -n 2 --dist worksteal

soak: .venv/.stamp ## Kill and interrupt runs, forge files: the long form of some tests; all tests with checked indices
	SPAQL_SOAK=1 $(BIN)/python -m pytest tests/test_train_dir.py tests/test_fuzz_files.py tests/test_dask.py \
		tests/test_interrupts.py tests/test_resume.py tests/test_bad_input.py tests/test_memory.py
	SPAQL_CHECKED=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test-sb3: .venv-sb3/.stamp ## Run the tests with Stable-Baselines3, in an environment of its own (torch is heavy)
	$(SB3_BIN)/python -m pytest -m sb3 tests/test_sb3.py

lint: .venv/.stamp ## Check style, types, import layers and the docstrings of public names
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/check_docstrings.py

bench: .venv/.stamp ## Measure speed
	$(BIN)/spaql bench

coverage: .venv/.stamp ## Run the tests with the JIT off and measure line and branch coverage
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not compiled_only" \
		--cov=spaql --cov-report=term-missing --cov-fail-under=85

dist: .venv-release/.stamp ## Build the sdist and the wheel in dist, and check them
	rm -rf dist
	$(RELEASE_BIN)/python -m build --outdir dist .
	$(RELEASE_BIN)/python -m twine check --strict dist/*

wheel-test: dist ## Use the wheel in an empty environment of each interpreter in PYTHONS
	@$(if $(strip $(PYTHONS)),:,echo "wheel-test: there is no interpreter to test with; name some with: make PYTHONS=..." >&2; exit 1)
	@set -eu; tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; trap 'exit 130' INT; trap 'exit 143' TERM; \
	for python in $(PYTHONS); do \
		rm -rf "$$tmp/venv"; $$python -m venv "$$tmp/venv"; \
		"$$tmp/venv/$(SCRIPTS)/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl; \
		( cd "$$tmp"; export NUMBA_CACHE_DIR="$$tmp/cache"; venv/$(SCRIPTS)/python --version; venv/$(SCRIPTS)/spaql --version; \
		venv/$(SCRIPTS)/spaql train oil --iterations 20 --seed 0 --quiet --json ); \
	done; echo "wheel-test: passed"

release-check: PYTHONS := $(foreach minor,11 12 13 14,$(shell python3.$(minor) -c '' 2>/dev/null && echo python3.$(minor)))
release-check: wheel-test ## The same on every supported interpreter that is found

commit-checks: lint test coverage wheel-test ## Run everything that a commit must pass

clean: ## Remove everything that make built
	rm -rf .venv .venv-docs .venv-sb3 .venv-release build dist docs/_build docs/reference/generated results .coverage .coverage.* htmlcov \
		.pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests -type d -name __pycache__ -prune -exec rm -rf {} +

.venv/.stamp: INSTALLED := '.[dev]'
.venv-docs/.stamp: INSTALLED := '.[dev,docs]'
.venv-sb3/.stamp: INSTALLED := '.[sb3]' pytest
.venv-release/.stamp: INSTALLED := '.[release]'
.venv/.stamp .venv-docs/.stamp .venv-sb3/.stamp .venv-release/.stamp: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "spaql needs Python 3.11 or newer as '$(PYTHON)'; name another with: make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "'$(PYTHON)' lacks the venv module; install it (Debian, Ubuntu: the package python3-venv)" >&2; exit 1; }
	rm -rf $(@D)
	$(PYTHON) -m venv $(@D)
	$(@D)/$(SCRIPTS)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e $(INSTALLED)
	@touch $@
