#!/usr/bin/env bash
# Generates what stands under api/ from the Go types there: deepcopy functions, protobuf encoding and CustomResourceDefinitions.
# Needs the Go toolchain only; controller-gen is built at the version that go.tools.mod names.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=api/generated/crd
gen() { go tool -modfile=go.tools.mod controller-gen "$@"; }

gen object paths=./api/cloud/... paths=./api/antrea/... paths=./api/controlplane/...
go run ./hack/protobuf api/controlplane/v1beta2
rm -f "$out"/*.yaml
gen crd:allowDangerousTypes=true paths=./api/cloud/... paths=./api/antrea/... output:crd:dir="$out"
go run ./hack/generate "$out"/*.yaml
