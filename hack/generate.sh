#!/usr/bin/env bash
# Generates what stands under api/ from the Go types there: deepcopy functions, protobuf encoding and CustomResourceDefinitions; and
# the CustomResourceDefinitions of policy.networking.k8s.io from the Go types of the module that go.mod names. Then docs/reference from
# all of that and from the code, and the pictures of docs/pictures from their texts.
# Needs the Go toolchain only; controller-gen is built at the version that go.tools.mod names.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=api/generated/crd
gen() { go tool -modfile=go.tools.mod controller-gen "$@"; }

gen object paths=./api/cloud/... paths=./api/nephele/... paths=./api/set/... paths=./api/antrea/... paths=./api/controlplane/... paths=./api/stats/... paths=./api/system/... paths=./api/analysis/...
go run ./hack/protobuf api/controlplane/v1beta2 api/stats/v1alpha1
rm -f "$out"/*.yaml
gen crd:allowDangerousTypes=true paths=./api/cloud/... paths=./api/nephele/... paths=./api/set/... paths=./api/antrea/... output:crd:dir="$out"
go run ./hack/generate "$out"/*.yaml
{
	echo "# The CustomResourceDefinitions of Nephele, as a base of config/. Written by hack/generate.sh."
	echo "apiVersion: kustomize.config.k8s.io/v1beta1"
	echo "kind: Kustomization"
	echo "resources:"
	for f in "$out"/*.yaml; do echo "- crd/${f##*/}"; done
} >api/generated/kustomization.yaml

upstream=sigs.k8s.io/network-policy-api
rm -rf "$out/upstream"
mkdir "$out/upstream"
gen crd paths="$upstream/apis/v1alpha1" paths="$upstream/apis/v1alpha2" output:crd:dir="$out/upstream"
go run ./hack/generate -upstream "$(go list -m -f '{{.Version}}' "$upstream")" "$out"/upstream/*.yaml

go run ./hack/reference docs/reference
go run ./hack/pictures docs/pictures
