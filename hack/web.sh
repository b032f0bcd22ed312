#!/usr/bin/env bash
# Builds the page of the console (build), or tests its sources and compares what they build with the
# bundle that is committed (verify). With verify-if-possible a machine without Node 20 or npm, or
# without a registry of packages, is told so and passes: the bundle in the tree is what is built in.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:?build, verify or verify-if-possible}
page=internal/console/page

pass_over() {
  if [[ $what == verify-if-possible ]]; then
    echo "not proven: the page of the console is what web/ builds: $1"
    exit 0
  fi
  echo "$1" >&2
  exit 1
}

command -v node >/dev/null || pass_over "node is not here"
command -v npm >/dev/null || pass_over "npm is not here"
version=$(node --version)
major=${version#v}
((${major%%.*} >= 20)) || pass_over "node $version is too old: 20 or later is needed"

cd web
if ! cmp -s package-lock.json node_modules/.built-from; then
  npm ci --no-audit --no-fund --loglevel=error || pass_over "npm cannot fetch the packages of web/package-lock.json"
  cp package-lock.json node_modules/.built-from
fi

# Its programs have parts for each kind of machine, which not every npm fetches.
npx --no-install vite --version >/dev/null || pass_over "vite does not start here"

if [[ $what == build ]]; then
  npx --no-install vite build
  exit 0
fi
npx --no-install svelte-check --tsconfig ./tsconfig.json --fail-on-warnings
npx --no-install vitest run
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
npx --no-install vite build --outDir "$built" --emptyOutDir --logLevel error
if ! diff -r "$built" "../$page"; then
  echo "$page is not what web/ builds: run make web" >&2
  exit 1
fi
