# Everything here needs the Go toolchain, bash and git; all else comes through Go modules.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help build build-slim build-agent build-cni deb image release audit fips demo check test test-long screens web verify-web fmt vet generate verify-generated staticcheck race bench scale cost accounts console-figures figures curve agent-figures network-figures az matrix worlds cluster clean

# What is compiled does not name the directory that it was compiled in, so all clones and worktrees
# share one build cache. The pages that gRPC shows about its requests, which nothing here serves, are
# left out: their templates call methods by name, and the linker then keeps every method.
export GOFLAGS := $(strip -trimpath -tags=grpcnotrace $(filter-out -trimpath -tags=grpcnotrace,$(shell go env GOFLAGS 2>/dev/null)))

# A home that cannot be written to gets its caches here.
ifneq ($(shell d="$$(go env GOCACHE 2>/dev/null)" && mkdir -p "$$d" 2>/dev/null && test -w "$$d" || echo no),)
export GOCACHE := $(CURDIR)/.cache/go-build
export STATICCHECK_CACHE := $(CURDIR)/.cache/staticcheck
endif

# Its version and its checksum are in go.tools.mod and go.tools.sum.
STATICCHECK := go tool -modfile="$(CURDIR)/go.tools.mod" staticcheck

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | while IFS=: read -r name rest; do printf '  make %-18s %s\n' "$$name" "$${rest##*## }"; done

build: ## Build bin/nephele, all in one: every command, with etcd and kube-apiserver inside
	@hack/build.sh standalone ./cmd/nephele bin/nephele

build-slim: ## Build bin/nephele-slim: the same without "up" and "demo", for use with an existing cluster
	@hack/build.sh . ./cmd/nephele bin/nephele-slim

build-agent: ## Build bin/nephele-agent: what a host with an agent needs, and no more
	@CGO_ENABLED=0 hack/build.sh . ./cmd/nephele-agent bin/nephele-agent

build-cni: ## Build bin/nephele-cni: the CNI plugin that agents on Nodes install
	@CGO_ENABLED=0 hack/build.sh . ./cmd/nephele-cni bin/nephele-cni

deb: build-agent ## Build dist/nephele-agent_VERSION_ARCH.deb, the agent for hosts
	@go run ./hack/deb -arch "$$(go env GOARCH)" -version "$$(git describe --tags --match 'v[0-9]*' 2>/dev/null | sed 's/^v//' | grep . || echo "0.0.0~$$(git rev-parse --short HEAD)")" -time "$$(git log -1 --format=%ct)"

# What a release is called: the tag of the commit, or else the commit itself.
VERSION ?= $(shell git describe --tags --match 'v[0-9]*' 2>/dev/null || echo "v0.0.0-$$(git rev-parse --short=12 HEAD)")
RELEASE = cd packaging && go run ./release -version "$(VERSION)" -revision "$$(git rev-parse HEAD)" -time "$$(git log -1 --format=%ct)"

image: ## Build dist/image, for linux/amd64 and linux/arm64, without a container engine (PUSH=registry/nephele:v1 pushes it)
	@$(RELEASE) $(if $(PUSH),-push "$(PUSH)")

release: ## Build the image, and dist/: archives, charts, packages, lists of modules, provenance, checksums; signed with KEY=cosign.key (VERSION=v1.2.3 PUSH=registry/nephele:v1; docs/releases.md)
	@$(RELEASE) -archives $(if $(PUSH),-push "$(PUSH)") $(if $(KEY),-key "$(abspath $(KEY))")

audit: ## Look for known vulnerabilities and licences of what is in our programs, and check our own advisories
	@cd packaging && go run ./audit

# Go's cryptographic module that has a certificate of FIPS 140-3.
FIPS ?= v1.0.0
fips: ## Build bin/nephele-fips and bin/nephele-agent-fips with Go's FIPS 140-3 module, and FIPS mode on (what that does not cover: docs/releases.md)
	@CGO_ENABLED=0 GOFIPS140="$(FIPS)" hack/build.sh . ./cmd/nephele bin/nephele-fips
	@CGO_ENABLED=0 GOFIPS140="$(FIPS)" hack/build.sh . ./cmd/nephele-agent bin/nephele-agent-fips
	@go version -m bin/nephele-fips | grep -E 'GOFIPS140|fips140'

demo: build ## Build and tell a story on a simulated AWS account (DEMO_FLAGS=--once ends after it)
	@bin/nephele demo $(DEMO_FLAGS)

check: ## While you work: format, tests of the repository as a whole, and short tests of the packages that have changed
	@go run ./hack/tests check

SLOWEST ?= 0
test: ## Run all checks and tests, as CI does; the first run compiles kube-apiserver (SLOWEST=40 lists the slowest tests)
	@go run ./hack/tests -slowest $(SLOWEST) test

test-long: ## Prove all that can be proven, in hours; goes on where it was (PARTS=worlds,race runs these, FRESH=1 all again; docs/testing.md)
	@go run ./hack/tests -slowest $(SLOWEST) $(if $(PARTS),-parts "$(PARTS)") $(if $(FRESH),-fresh) long

screens: ## Write the golden screens and answers of plan, explain, status, reach and rules anew; look at the difference before it is committed
	go test ./internal/cli -run 'TestScreens$$|TestAnswers$$' -update-screens

web: ## Build the console's page from web/ into internal/console/page (needs Node 20 and npm; see web/README.md)
	@hack/web.sh build

verify-web: ## Test the page's sources, and fail if internal/console/page is not what they build
	@hack/web.sh verify

fmt: ## Fail if a file is not formatted as gofmt wants it
	@files=$$(find . -name node_modules -prune -o -name '*.go' -print | xargs gofmt -l); if [[ -n $$files ]]; then printf 'not formatted (gofmt -w FILE):\n%s\n' "$$files" >&2; exit 1; fi

vet: ## Run go vet on all modules
	go vet ./...
	cd standalone && go vet ./...
	cd packaging && go vet ./...

generate: ## Generate deepcopy functions and CustomResourceDefinitions from the Go types below api/, docs/reference from the code, and pictures from their texts
	hack/generate.sh

verify-generated: ## Fail if generated files are not what "make generate" writes
	hack/verify-generated.sh

staticcheck: ## Run staticcheck on all modules
	$(STATICCHECK) ./...
	cd standalone && $(STATICCHECK) ./...
	cd packaging && $(STATICCHECK) ./...

race: ## Run all tests with the race detector; compiles everything once more
	go test -race ./...
	cd standalone && go test -race ./...

bench: ## Run all benchmarks
	go test -run '^$$' -bench . -benchmem ./...

matrix: ## Disturb every call of every recorded history in every way, and print the table of what was survived
	go test ./internal/cloud/realize -run 'TestFaults$$|TestFaultsOnTheWire$$|TestServiceFaults$$|TestManyFaults$$|TestAzureFaults$$' -all-faults -parallel 6 -timeout 6h -v | grep -Ev '^=== |--- PASS: .*,_call_'

az: ## Play the az command line against the simulator (installs Debian's azure-cli where that is possible)
	@command -v az >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends azure-cli; } >/dev/null
	go test ./internal/sim -run 'TestAz$$' -v -count=1 -args -az "$$(command -v az)"

WORLDS ?= 10000
worlds: ## Play random worlds against the planner (WORLDS=100000 SEED=1 RESTARTS=2), and print seeds and counts of verdicts
	NEPHELE_PLAN_WORLDS=$(WORLDS) NEPHELE_PLAN_SEED=$(or $(SEED),1) NEPHELE_PLAN_RESTARTS=$(or $(RESTARTS),2) go test ./internal/cloud/plan -run 'Worlds$$' -timeout 0 -v | grep -v '^=== '

scale: ## Measure, in virtual time, how long changes of whole fleets take under the cloud's rate limits (5 minutes)
	go test ./test/scale -v -full -timeout 1h

COST_VMS ?= 2000
cost: ## Measure what "nephele up" uses to take over a fleet at the rates of EC2 (COST_VMS=2000, COST_PROFILES=dir; 8 minutes)
	cd standalone && NEPHELE_LONG=1 go test ./cmd/nephele -run 'TestCost$$' -v -timeout 1h -args -cost-vms $(COST_VMS) $(if $(COST_PROFILES),-cost-profiles $(abspath $(COST_PROFILES)))

ACCOUNTS ?= 1,50,500
REPLICAS ?= 1
ACCOUNT_VMS ?= 200
accounts: ## Measure what accounts cost replicas that share them (ACCOUNTS=1,50,500 REPLICAS=1 ACCOUNT_VMS=200; up to an hour)
	cd standalone && NEPHELE_LONG=1 go test ./cmd/nephele -run 'TestAccountsCost$$' -v -timeout 3h -args -accounts $(ACCOUNTS) -account-vms $(ACCOUNT_VMS) -replicas $(REPLICAS) -quiet 60s

FIGURE_VMS ?= 2000,10000
console-figures: ## Measure the page of the console with many VMs in a browser (FIGURE_VMS=2000,10000; 2 minutes)
	cd standalone && NEPHELE_LONG=1 go test ./browser -run 'TestFigures$$' -v -count=1 -args -figure-vms $(FIGURE_VMS)

curve: ## Measure the policy controller with 10,000, 100,000 and a million Pods and at its bounds, and write it into docs/reference/figures.md (5 minutes)
	@hack/curve.sh

figures: ## Measure building and starting bin/nephele, and write it into docs/reference/figures.md (COLD=0 compiles nothing anew; 10 minutes)
	@hack/figures.sh

agent-figures: ## Measure the agent of hosts and what flows take, as root, and write it into docs/reference/figures.md (ONLY=regexp; 10 minutes)
	@hack/figures.sh agent

network-figures: ## Measure the network of Nodes, as root, and write it into docs/reference/figures.md (ONLY=regexp; 5 minutes)
	@hack/figures.sh network

PROXIES ?= nftables,iptables
NETWORKS ?= encap,encap+services+dual,hybrid+services,noEncap+services,encap+services+ipv6
cluster: build-slim build-agent build-cni ## Play upstream's cases about policies and the network on real clusters, as root (PROXIES=nftables,iptables NETWORKS=encap,encap+services FOCUS=regexp NODES=4 CLUSTER_CACHE=dir CLUSTER_LOGS=dir; the first time compiles Kubernetes)
	cd test/cluster && go vet ./... && go test -count=1 -timeout 6h -v -run 'TestUpstreamCases$$' . -args -nephele "$(CURDIR)/bin/nephele-slim" -agent "$(CURDIR)/bin/nephele-agent" -proxies "$(PROXIES)" -networks "$(NETWORKS)" $(if $(FOCUS),-focus "$(FOCUS)") $(if $(NODES),-nodes "$(NODES)") $(if $(CLUSTER_CACHE),-cache "$(abspath $(CLUSTER_CACHE))") $(if $(CLUSTER_LOGS),-logs "$(abspath $(CLUSTER_LOGS))")

clean: ## Remove what was built
	rm -rf bin dist
