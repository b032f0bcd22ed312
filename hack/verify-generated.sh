#!/usr/bin/env bash
# Fails if what is generated under api/, docs/reference and docs/pictures is not what hack/generate.sh makes of the Go types now.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

hack/generate.sh
if [[ -n "$(git status --porcelain -- api/generated docs/reference docs/pictures ':(glob)api/**/zz_generated.*')" ]]; then
	git --no-pager diff --stat -- api/generated docs/reference docs/pictures ':(glob)api/**/zz_generated.*'
	git status --short -- api/generated docs/reference docs/pictures ':(glob)api/**/zz_generated.*'
	echo "generated files are not current: run make generate and commit the result" >&2
	exit 1
fi
