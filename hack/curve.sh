#!/usr/bin/env bash
# Measures how what the policy controller takes grows with the number of Pods, and the bounds that it
# is to keep, and writes both into docs/reference/figures.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. hack/page.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/policy"
go test -c -o "$work/policy/compute" ./internal/policy/compute
go test -c -o "$work/apiserver" ./internal/apiserver

# values UNIT is what the benchmark in $work/out measured in that unit, the least first; value UNIT
# is the middle one of it, most UNIT the largest.
values() {
	awk -v unit="$1" '/^Benchmark/ { for (i = 2; i <= NF; i++) if ($i == unit) print $(i - 1) }' "$work/out" | sort -g >"$work/values"
	[ -s "$work/values" ] || { echo "not measured: $1" >&2; exit 1; }
	cat "$work/values"
}
value() { values "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
most() { values "$1" | tail -n 1; }
# measure PATTERN TIMES [COUNT] runs a benchmark of the policy engine; bench PACKAGE ARG... any.
measure() { bench policy/compute -test.bench "$1" -test.benchtime "$2" -test.count "${3:-1}"; }
bench() {
	(cd "internal/$1" && "$work/$1" -test.run '^$' -test.timeout 30m "${@:2}" >"$work/out") || { cat "$work/out" >&2; exit 1; }
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

measure 'Compute/^SmallNamespaces$' 1x 5
seconds() { printf '%.2f to %.2f s' "$(values ns/op | awk 'NR == 1 { print $1 / 1e9 }')" "$(most ns/op | awk '{ print $1 / 1e9 }')"; }
row "P1: time; processor time; peak" "$(seconds); $(printf '%.2f to %.2f s; %.0f to %.0f MB' "$(values cpu-s | head -n 1)" "$(most cpu-s)" "$(values peak-MB | head -n 1)" "$(most peak-MB)")"
for change in label entity policy; do
	measure "Compute/^Churn\$/^SmallNamespaces\$/^$change\$" 4000x
	value B/op >"$work/bytes-$change"
done
row "P1: bytes that a change of a label, a Pod, a policy allocates" "$(cat "$work/bytes-label"), $(cat "$work/bytes-entity"), $(cat "$work/bytes-policy")"
measure 'Compute/^OneNamespace$' 1x
first=$(value ns/op | awk '{ printf "%.2f s", $1 / 1e9 }')
measure 'Compute/^OneNamespace$' 20x 5
row "P3: time, the mean of 20 in a row; the first one of a process" "$(seconds); $first"
latency() {
	measure 'Compute/^Churn$/^PolicyPerEntity100k$/^label$' 4000x 5
	printf '%.0f us, %.0f us' "$(value p50-us)" "$(value p99-us)"
}
row "P7: a label changes, p50, p99; on one processor" "$(latency); $(GOMAXPROCS=1 latency)"
bench apiserver -test.bench '^BenchmarkNodes$/^Connections$' -test.benchtime 1x -nodes 3334
row "watches: everything there; a label changes, p50, p99" "$(printf '%.1f s; %.1f ms, %.1f ms' "$(value s/all-synced)" "$(value ms/label-p50)" "$(value ms/label-p99)")"
row "bounds measured on" "$(nproc) processors, $(go env GOVERSION), at a load of $(cut -d' ' -f1 /proc/loadavg)"
