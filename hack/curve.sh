#!/usr/bin/env bash
# Measures how what the policy controller takes grows with the number of Pods, and writes that into
# docs/reference/figures.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. hack/page.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go test -c -o "$work/bench" ./internal/policy

# value UNIT is what the benchmark in $work/out measured in that unit.
value() {
	awk -v unit="$1" '/^Benchmark/ { for (i = 2; i <= NF; i++) if ($i == unit) { print $(i - 1); found = 1 } }
		END { if (!found) { print "not measured: " unit > "/dev/stderr"; exit 1 } }' "$work/out"
}
# measure PATTERN TIMES runs a benchmark.
measure() {
	(cd internal/policy && "$work/bench" -test.run '^$' -test.bench "$1" -test.benchtime "$2" >"$work/out") || { cat "$work/out" >&2; exit 1; }
}

while read -r world pods name; do
	measure "Compute/^$world\$" 1x
	line=$(awk -v ns="$(value ns/op)" -v cpu="$(value cpu-s)" -v peak="$(value peak-MB)" -v live="$(value live-MB)" -v inputs="$(value inputs-MB)" -v pods="$pods" \
		'BEGIN { printf "%.2f s | %.2f s | %d MB | %d, %d", ns / 1e9, cpu, peak, inputs * 1e6 / pods, (live - inputs) * 1e6 / pods }')
	measure "Compute/^Churn\$/^$world\$/^label\$" 2000x
	cells "$name" "$line | $(awk -v a="$(value p50-us)" -v b="$(value p99-us)" 'BEGIN { printf "%d us, %d us", a, b }') | $(value events/op | cut -d. -f1)"
done <<'END'
Hub10k 10000 10,000 in 100 Namespaces, 200 policies
Hub100k 100000 100,000 in 1,000 Namespaces, 2,000 policies
Hub1M 1000000 1,000,000 in 10,000 Namespaces, 20,000 policies
END
row "curve measured on" "$(nproc) processors, $(go env GOVERSION), at a load of $(cut -d' ' -f1 /proc/loadavg)"
