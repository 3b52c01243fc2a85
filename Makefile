# make dev    the demo on http://127.0.0.1:8080; needs Go alone
# make test   everything that must hold before a change lands; installs what it needs
# make sim    the simulator of many nodes, for long; SEEDS=100000 FIRST=1
# make bench  the benchmarks
# make assets rebuilds the embedded web assets from js/ and web/src

SHELL := /bin/bash
TAGS  := interop faults browser

.PHONY: dev build test check-go test-go test-js test-docs assets setup bench fuzz sim

dev:
	go run ./cmd/rollcall dev

build:
	go build -o bin/rollcall ./cmd/rollcall

test: setup check-go test-js test-go test-docs

setup:
	script/setup

check-go:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$unformatted" ]; then echo "not gofmt-ed: $$unformatted"; exit 1; fi
	go vet -race -tags '$(TAGS)' ./... # -race: what it builds is what the tests build

test-go:
	script/go

test-js:
	script/js

test-docs:
	script/readme

assets:
	cd js && npm ci && npm run build

bench:
	script/bench

SEEDS := 2000
FIRST := 1
sim:
	go test ./server -run TestManyNodesAgree -timeout 0 -args -sim.seeds=$(SEEDS) -sim.first=$(FIRST)

fuzz:
	script/fuzz
