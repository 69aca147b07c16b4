# Few commands, each whole: it installs what is missing, builds what is stale, and says in one line what it cannot
# have. What a recipe needs beyond a line or two is in scripts/.

LISTEN ?= 127.0.0.1:18000
DATA_DIR ?= .omoi
UI ?= 1
BENCH_ARGS ?=

target := $(or $(CARGO_TARGET_DIR),target)
features := $(if $(filter 0,$(UI)),--no-default-features)
pages := $(if $(filter 0,$(UI)),,web)
locked := $(if $(CI),--locked)
web_sources := $(wildcard openapi.json) $(if $(wildcard web),$(shell \
	find web -type d \( -name node_modules -o -name dist -o -name coverage -o -name e2e \) -prune -o -type f -print))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test check bench screenshots budgets web openapi clean tools release

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: release ## Build, show an agent at work, and go on serving (LISTEN=127.0.0.1:18000, DATA_DIR=.omoi; UI=0: no pages)
	@exec $(target)/release/omoi demo --data-dir "$(abspath $(DATA_DIR))" --listen $(LISTEN)

test: ## Run everything that must pass, against a PostgreSQL of its own
	@scripts/test

check: ## Check formatting, lints and licences
	@scripts/test fmt clippy deny

bench: release ## Measure the built program against the limits of this machine (BENCH_ARGS=)
	cargo build --release $(locked) -p omoi-bench
	@scripts/postgres run -- sh -c 'exec $(target)/release/omoi-bench --omoi $(target)/release/omoi \
		--postgres "$$OMOI_TEST_POSTGRES" --out $(target)/bench $(BENCH_ARGS)'

screenshots: release ## Every page in both themes, wide and narrow, into target/screenshots
	@scripts/browser $(target)/release/omoi screenshots

budgets: release ## How long the pages take in a browser, beside what they should
	@scripts/browser $(target)/release/omoi budgets

web: web/dist/index.html ## Build the web pages

openapi: tools ## Write openapi.json from the code
	@mkdir -p $(target)
	cargo run --quiet --bin omoi -- openapi > $(target)/openapi.json
	@mv $(target)/openapi.json openapi.json

clean: ## Remove everything built; data in DATA_DIR stays
	cargo clean
	rm -rf web/dist web/node_modules

tools:
	@scripts/need cargo cc:gcc,libc6-dev git:git '/*/*/mkfs.ext4:e2fsprogs' /usr/bin/python3:python3

release: tools $(pages)
	cargo build --release $(locked) -p omoi-cli $(features)
	@scripts/static release

web/node_modules/.stamp: web/package.json web/package-lock.json
	cd web && ../scripts/node npm ci --no-audit --no-fund --loglevel=error
	@touch $@

web/dist/index.html: web/node_modules/.stamp $(web_sources)
	cd web && ../scripts/node npm run --silent build
	@touch $@
