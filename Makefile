# runlane. `make help` lists the targets.

GO            ?= go
LINT_VERSION  := v2.15.0
LINT          := bin/golangci-lint-$(LINT_VERSION)
TEST_TIMEOUT  ?= 30m
FUZZ_TIME     ?= 20s
SOAK          ?= 10m
RUNS          ?= 20

# The major versions of the matrix, and the packages whose tests depend on the
# server. TestSettings is left out there: it runs the conformance suite once more in
# each of many settings, which says more about the client than about the server.
SERVERS       ?= 14 15 16 17 18
LIVE          ?= ./internal/pgtest ./migrations ./cmd/mkmigration ./cmd/runlane ./storage/postgres/... \
                 $(addprefix ./tests/,conformance doctor driver faults json keys lane migrations operator wire)
LIVE_SHORT    ?= $(addprefix ./tests/,conformance driver faults migrations)

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## install PostgreSQL's server programs, PgBouncer and a C compiler if they are missing
	@sh scripts/deps.sh

.PHONY: demo
demo: deps ## run the demonstration: about 7,700 durable runs, two workers, one of them killed
	$(GO) run ./cmd/runlane demo

.PHONY: test
test: deps ## run all tests with the race detector, on a private PostgreSQL
	$(GO) test -race -timeout $(TEST_TIMEOUT) ./...

# on-servers runs the tests of packages on servers of several major versions.
define on-servers
@failed=; for major in $(1); do \
	bin=$$(sh scripts/servers.sh $$major) || exit 1; \
	printf '\n== PostgreSQL %s, from %s\n' $$major $$bin; \
	RUNLANE_TEST_DATABASE_URL= RUNLANE_PG_BIN=$$bin \
		$(GO) test -count=1 -timeout $(TEST_TIMEOUT) -skip '^TestSettings$$' $(2) || failed="$$failed $$major"; \
done; if [ -n "$$failed" ]; then echo "failed on PostgreSQL$$failed" >&2; exit 1; fi
endef

.PHONY: test-matrix
test-matrix: deps ## run the live tests on each of SERVERS, which it fetches
	$(call on-servers,$(SERVERS),$(LIVE))

.PHONY: test-matrix-short
test-matrix-short: deps ## the heart of that, on the oldest and the newest server only
	$(call on-servers,$(firstword $(SERVERS)) $(lastword $(SERVERS)),$(LIVE_SHORT))

.PHONY: soak
soak: deps ## work the driver for SOAK while everything beneath it breaks, and look for what was lost or leaked
	$(GO) test -count=1 -v -timeout 2h ./tests/soak -args -soak $(SOAK)

.PHONY: chaos
chaos: deps ## kill, stop and continue worker processes and crash the server for SOAK, and look whether each run ended once
	$(GO) test -count=1 -v -timeout 2h ./tests/chaos -args -chaos $(SOAK)

.PHONY: operator-scale
operator-scale: deps ## hold docs/operator-reads.md at a million runs and ten million events; takes some ten minutes and 10 GB
	$(GO) test -count=1 -v -timeout 1h ./tests/operator -run 'Test(Cost|WriteCost)$$' -args -runs 1000000 -events 10000000 -history 30000

.PHONY: flakes
flakes: deps ## run the short live suite RUNS times; stop at the first failure
	@for run in $$(seq $(RUNS)); do \
		printf '\n== run %s of %s\n' $$run $(RUNS); \
		$(GO) test -count=1 -timeout $(TEST_TIMEOUT) -skip '^Test(Settings|PgBouncer)$$' $(LIVE_SHORT) || exit 1; \
	done

.PHONY: mutants
mutants: deps ## break the code on purpose, one way after the other: the named tests must fail
	$(GO) run ./tests/mutants

.PHONY: mutants-short
mutants-short: ## those that need no database
	$(GO) run ./tests/mutants -short

.PHONY: vet
vet: ## go vet
	$(GO) vet ./...

.PHONY: lint
lint: $(LINT) ## golangci-lint, pinned; the first call builds it, which takes minutes
	$(LINT) run ./...
	cd bench && ../$(LINT) run ./...

# A module of its own, so that the linter is no dependency of the library.
$(LINT):
	GOBIN=$(CURDIR)/bin/tmp $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	mv bin/tmp/golangci-lint $(LINT) && rmdir bin/tmp

# The gate is a module of its own, so that PostgreSQL's grammar is no dependency of
# the library. POLICY_BASE=REVISION also checks that the inventory only shrinks.
.PHONY: policy
policy: ## check the SQL of this repository against docs/policy.md
	$(GO) -C policy run ./cmd/sqlpolicy check --inventory ../sqlpolicy.inventory $(if $(POLICY_BASE),--base $(POLICY_BASE)) ..

.PHONY: policy-test
policy-test: $(LINT) ## tidy, vet, lint and test the module of the gate
	$(GO) -C policy mod tidy -diff
	$(GO) -C policy vet ./...
	cd policy && $(CURDIR)/$(LINT) run ./...
	$(GO) -C policy test -timeout 10m ./...

.PHONY: generate
generate: ## regenerate the ent client from ent/schema
	$(GO) generate ./ent

.PHONY: generate-check
generate-check: generate ## fail if regenerating changes anything
	@git diff --exit-code -- ent && test -z "$$(git status --porcelain -- ent)"

.PHONY: migration
migration: deps ## plan the next migration from ent/schema: make migration name=add_something
	$(GO) run ./cmd/mkmigration -name "$(name)" -old-workers "$(old_workers)"

.PHONY: migration-check
migration-check: deps ## fail if the migrations do not match ent/schema
	$(GO) run ./cmd/mkmigration -check

.PHONY: migration-live
migration-live: deps ## add a column and an index to 100,000 runs while eight workers work on them, and say who waited how long
	$(GO) test -count=1 -v -timeout 1h ./tests/migrations -run '^TestLiveMigration$$' -args -live 100000

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZ_TIME
	@GO="$(GO)" FUZZ_TIME="$(FUZZ_TIME)" sh scripts/fuzz.sh
	@cd policy && GO="$(GO)" FUZZ_TIME="$(FUZZ_TIME)" sh ../scripts/fuzz.sh

.PHONY: bench
bench: deps ## compare with River, DBOS and SQL by hand, for half an hour; writes bench/results
	cd bench && $(GO) run .

.PHONY: bench-short
bench-short: deps ## all of that in a few minutes, to see that it works: its figures say little
	cd bench && $(GO) run . -short -out results/short

.PHONY: bench-check
bench-check: deps ## vet and test the benchmarks, which are a module of their own
	cd bench && $(GO) mod tidy -diff && $(GO) vet ./... && $(GO) test -timeout $(TEST_TIMEOUT) ./...

.PHONY: microbench
microbench: deps ## run the benchmarks of the packages once
	$(GO) test -run '^$$' -bench . -benchtime 200ms ./...

.PHONY: clean
clean: ## remove what the targets above built
	rm -rf bin
