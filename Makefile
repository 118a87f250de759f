# Every command sets up all it needs on a machine that has Python 3.11 to 3.13, pip and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Tests run in two processes, each with one half in order, so that most modules make their fixtures once. (Modes that keep
# a module together, such as loadfile, run tests of the same name once: of the fuzz tests 1 of 17.) Numerical libraries get
# one thread each, since threads that outnumber the cores wait for each other (k-means took ten times as long). Bytecode is
# written even where the environment forbids it, because tests start hundreds of processes that import the same modules.
TESTING := env -u PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python
PYTEST := $(TESTING) -m pytest --numprocesses 2 --dist worksteal

# The packages that the TypeScript client is made and tested with; what runs has none.
NODE := clients/typescript/node_modules

.PHONY: demo docs check test faults lint kernels bench release floors typescript clean

# Bytecode is written even where the environment forbids it: without it, imports alone take seconds.
demo: $(VENV)/plot.done
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/taciturn demo

# The documentation as a site in site/, in two to three minutes: from docs/, docstrings and notebooks, which are executed
# where their data is at hand, with pictures of the service where there is chromium. Only the installation needs a network.
docs: $(VENV)/docs.done
	env -u PYTHONDONTWRITEBYTECODE PYTHONPATH=tools $(BIN)/python -m docsite --execute

# Before every commit, in about four minutes: everything but the tests that tests/conftest.py marks as slow.
check: $(VENV)/dev.done $(VENV)/obp.done $(VENV)/contextualbandits.done lint
	$(PYTEST) --quiet -m "not slow"

# Before a change lands: all tests. COVERAGE=1, as in .ci/run, also measures branch coverage, which must not fall below
# fail_under in pyproject.toml; that takes half as long again.
test: $(VENV)/dev.done $(VENV)/obp.done $(VENV)/contextualbandits.done $(NODE)/.done
	$(MAKE) --jobs 2 lint kernels
	$(PYTEST) $(if $(filter 1,$(COVERAGE)),--cov --cov-report=term)

# The service on Ray, while everything that it consists of is killed, paused and cut off, in some ten minutes; afterwards
# what clients were told is compared with what is stored. FAULTS=1000 takes an hour.
FAULTS ?= 100
faults: $(VENV)/dev.done
	PYTHONPATH=tests $(TESTING) -m service.cluster.faults --faults $(FAULTS)

lint: $(VENV)/dev.done
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# With an empty cache both processes of the tests would compile the same kernels, and traced, which takes longer.
kernels: $(VENV)/dev.done
	$(TESTING) -m taciturn.warm > /dev/null

# Beside what people use today, in about half an hour; writes docs/performance.md. Needs TACITURN_DATA and an idle machine.
bench: $(VENV)/bench.done
	$(BIN)/python benchmarks/write.py

# What would be published, in dist/: built, checked, and tried in empty environments. Nothing is uploaded.
release: $(VENV)/release.done
	$(BIN)/python tools/release.py

# The tests of the package and of each extra, with the oldest and the newest versions that pyproject.toml allows.
VERSIONS ?= oldest newest
floors: $(VENV)/release.done
	for versions in $(VERSIONS); do $(BIN)/python tools/floors.py $$versions || exit 1; done

# Types of the TypeScript client, from today's OpenAPI document. Needs node 20 and npm.
typescript: $(VENV)/dev.done $(NODE)/.done
	$(BIN)/python clients/typescript/document.py | (cd clients/typescript && npm run --silent generate)

# Where there is no npm, the tests of the TypeScript client are skipped.
$(NODE)/.done: clients/typescript/package-lock.json
	-command -v npm > /dev/null && cd clients/typescript \
		&& npm ci --no-audit --no-fund --ignore-scripts --loglevel=error && touch node_modules/.done

# What was installed is remembered by a file each; a change of pyproject.toml installs again. Modules are compiled to
# bytecode when they are first imported, since most never are: that saves half of the installation.
$(VENV)/%.done: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
		|| { echo "taciturn needs Python 3.11 to 3.13; $(PYTHON) is another. Try: make PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --editable '.[$*]'
	@touch $@

# One adapter is tested against the Open Bandit Pipeline, whose pins (Python below 3.11, NumPy 1.23, PyTorch) are those
# of 2023; its estimators, which are all that is needed, run on what is here.
$(VENV)/obp.done: $(VENV)/dev.done
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --ignore-requires-python obp==0.5.7
	@touch $@

# One peer has no wheels. Where there is no C compiler, its tests are skipped.
$(VENV)/contextualbandits.done: $(VENV)/dev.done
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check 'contextualbandits>=0.3.30'
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage .coverage.*
