# podway: `make demo` shows it, `make test` proves it. Both run as root or through sudo.
SHELL := /bin/bash
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo -E env PATH=$$PATH)
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X github.com/podway/podway/internal/cli.version=$(VERSION)
export CGO_ENABLED = 0

.PHONY: help deps build bpf demo test check unit e2e oracle oracle-bin modes dns-oracle soak conformance clean
help: ## show the targets
	@grep -hE '^[a-z0-9%-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9%-]+):.*## /  make \1\t/' | expand -t 24

deps: ## install what is missing (Debian, Ubuntu), or say what to install
	@$(SUDO) hack/deps.sh $(FOR)

build: ## build podway, the echo server and the Kubernetes of `podway up` into bin/ (the first time takes minutes)
	@mkdir -p bin
	@echo "building podway"; go build -ldflags '$(LDFLAGS)' -o bin/podway ./cmd/podway
	@go build -ldflags '-s -w' -o bin/echo ./cmd/echo
	@echo "building Kubernetes (some ten minutes the first time, seconds later)"
	@cd lab && go build -trimpath -tags providerless -ldflags "$$(./ldflags.sh)" -o ../bin/podway-lab .
	@cd lab && go build -trimpath -ldflags '-s -w' -o ../bin/pause ./pause

BPF := internal/hop/proxy/ebpf
BPF_OUT ?= $(CURDIR)/$(BPF)
bpf: ## compile the eBPF programs anew, after a change of their source (apt-get install clang-16 llvm-16 libbpf-dev)
	cd $(BPF)/bpf && clang-16 -target bpfel -mcpu=v3 -O2 -g -Wall -Wextra -Werror -ffile-prefix-map=$(CURDIR)/= \
	  -I/usr/include/$$(uname -m)-linux-gnu -c sockets.c -o $(BPF_OUT)/zz_sockets.o
	llvm-strip-16 -g $(BPF_OUT)/zz_sockets.o
	cd $(BPF)/bpf && sha256sum sockets.c maps.h > $(BPF_OUT)/zz_sockets.sum

demo: deps build ## start a real cluster, send requests through every path, print the trace, tear down
	@$(SUDO) bin/podway demo

test: FOR := tests
test: deps check build unit e2e oracle modes dns-oracle ## everything that CI runs

check: ## format, vet, other operating systems, the module files
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "gofmt would change:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	go vet ./...
	GOOS=darwin GOARCH=arm64 go build -o /dev/null ./cmd/podway
	go mod verify
	cd lab/conformance && go vet . && go test .

unit: ## unit tests, scenarios at all three levels, tests with real network namespaces
	$(SUDO) go test -timeout 20m ./...

e2e: build ## the real cluster: every path, faults, a rolling update under load, a node with cgroup v2 alone
	$(SUDO) env PODWAY_E2E=1 go test -v -count=1 -p 1 -timeout 60m ./internal/lab ./internal/demo

SEED ?= 1
CASES ?= 200
MODE ?= nftables
PEER ?= kube-proxy
oracle: oracle-bin ## random clusters on podway and on kube-proxy side by side: make oracle SEED=1 CASES=200 MODE=nftables PEER=kube-proxy
	$(SUDO) bin/oracle -seed $(SEED) -cases $(CASES) -mode $(MODE) -peer $(PEER) -dir bin/differences $(REPLAY)

oracle-bin:
	@mkdir -p bin
	@cd lab && go build -trimpath -tags providerless -ldflags '-s -w' -o ../bin/kubeproxy ./kubeproxy
	@go build -o bin/oracle ./test/oracle

DNS_CASES ?= 50
dns-oracle: ## random clusters on podway's DNS server and on CoreDNS side by side: make dns-oracle SEED=1 DNS_CASES=50
	@mkdir -p bin
	go run ./bench/dns-oracle -seed $(SEED) -cases $(DNS_CASES)
	go run ./bench/dns-oracle -seed $(SEED) -cases 10 -pods insecure

modes: oracle-bin ## the modes of the service proxy that run here against each other
	$(SUDO) bin/oracle -seed $(SEED) -cases 25 -mode iptables -peer podway-nftables -dir bin/differences
	$(SUDO) bin/oracle -seed $(SEED) -cases 25 -mode ebpf -peer podway-nftables -dir bin/differences

REQUESTS ?= 100000
soak: build ## many requests while servers are replaced and agents killed: make soak MODE=nftables REQUESTS=100000
	@go build -o bin/soak ./test/soak
	$(SUDO) bin/soak -mode $(MODE) -requests $(REQUESTS)

conformance: deps build ## Kubernetes' own tests on `podway up`: make conformance MODE=iptables, or FOCUS='\[sig-network\].*EndpointSlice'
	@cd lab/conformance && go build -o ../../bin/conformance .
	$(SUDO) bin/conformance -root . -proxy-mode $(MODE) -focus '$(FOCUS)' $(ARGS)

bench-%: ## a benchmark beside its peer, for example: make bench-nft, or make bench-proxy-sync ARGS="-mode iptables"
	$(SUDO) go run ./bench/$* $(ARGS)

clean: ## delete what was built
	rm -rf bin
