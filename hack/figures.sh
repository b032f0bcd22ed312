#!/usr/bin/env bash
# Measures on this machine, and writes what it has measured into docs/reference/figures.md.
#
# usage: hack/figures.sh          what building and starting the standalone binary takes; COLD=0 does
#                                 not compile everything anew, which takes minutes
#        hack/figures.sh agent    what the agent of hosts takes, and flows; as root; ONLY=regexp
#                                 measures these benchmarks only
#        hack/figures.sh network  what the network of Nodes takes; the same
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

. hack/page.sh
work=$(mktemp -d)
up=
cleanup() {
	if [[ -n $up ]]; then
		kill "$up" 2>/dev/null || true
		wait "$up" 2>/dev/null || true
	fi
	rm -rf "$work"
}
trap cleanup EXIT

TIMEFORMAT='%R %U %S'
load() { cut -d' ' -f1 /proc/loadavg; }
# timed runs a command, and says in $clock and $processor how many seconds that took.
timed() {
	{ time "$@" >"$work/out" 2>&1; } 2>"$work/time" || { cat "$work/out" >&2; exit 1; }
	local user system
	read -r clock user system <"$work/time"
	processor=$(awk -v a="$user" -v b="$system" 'BEGIN { print a + b }')
	clock=${clock%.*} processor=${processor%.*}
}
minutes() { printf '%d:%02d min' $(($1 / 60)) $(($1 % 60)); }

# bench PACKAGE BENCHMARK [FLAG ...] runs one, unless ONLY says others, and metric UNIT tells what it has
# reported.
bench() {
	[[ "$1 $2" =~ ${ONLY:-.} ]] || return 1
	echo "$1 $2 ..." >&2
	go test "$1" -run '^$' -bench "^$2\$" -benchtime 1x -timeout 1h "${@:3}" >"$work/bench" || { cat "$work/bench" >&2; exit 1; }
}
metric() { awk -v unit="$1" -v digits="${2:-0}" '/^Benchmark/ { for (i = 2; i < NF; i++) if ($(i + 1) == unit) { printf "%.*f", digits, $i; found = 1; exit } } END { exit !found }' "$work/bench"; }

if [[ ${1:-} == agent ]]; then
	row "agents and flows measured on" "$(nproc) processors, $(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo), $(go env GOVERSION), at a load of $(load)"
	if bench ./internal/agent BenchmarkAgentProcess; then
		row "resident in \`nephele-agent\` one and two minutes after 42,000 rules are in force; at most while it loads them" "$(metric VmRSS-MB) and $(metric in-the-end-MB) MB; $(metric VmHWM-MB) MB"
		row "the same process at rest" "$(metric idle-% 1) % of a processor"
	fi
	bench ./internal/agent BenchmarkAgentMembers && row "the addresses of one group change, from the event to the kernel: by the clock; time of the agent's thread" "p50 $(metric p50-ms 1) ms, p99 $(metric p99-ms 1) ms; p99 $(metric p99-thread-ms 1) ms"
	bench ./internal/agent BenchmarkAgentPolicies && row "one policy changes, the same" "p50 $(metric p50-ms 1) ms, p99 $(metric p99-ms 1) ms; p99 $(metric p99-thread-ms 1) ms"
	bench ./internal/agent/nft/kernel BenchmarkNewConnections && row "new connections with 4,000 rules of 1,000 policies, of the rate without: by the clock; by processor time" "$(metric 1000-policies-%) %; $(metric 1000-policies-cpu-%) %"
	bench ./internal/agent/traffic BenchmarkNewConnections && row "connections recorded for \`nephele flows\`: rate, of that without; processor time of each; lost" "$(metric conn/s) a second, $(metric %-of-none) %; $(metric cpu-us/conn 1) us; $(metric lost)"
	bench ./internal/controller BenchmarkWhatIf && row "what a change would cut or open of ten million rows of flows; a row on disk" "$(metric s-whole 1) s, $(metric cpu-s 1) s of processor time; $(metric bytes/row 1) bytes"
	bench ./internal/cloud/aws/flowlog BenchmarkText && row "records of a VPC flow log read as text, on one processor" "$(metric records/s) a second"
	exit 0
fi

if [[ ${1:-} == network ]]; then
	row "the network of Nodes measured on" "$(nproc) processors, $(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo), $(go env GOVERSION), at a load of $(load)"
	if bench ./internal/agent BenchmarkNetwork; then
		row "between Pods of a Node, of two links and routes: bytes; new connections" "$(metric node-bytes-%) %; $(metric node-connections-%) %"
		row "between Pods of two Nodes, of a VXLAN device made by hand: bytes; new connections" "$(metric between-bytes-%) %; $(metric between-connections-%) %"
	fi
	bench ./internal/agent BenchmarkKnownNodes && row "1,000 Nodes, from the start of an agent until all are in the kernel" "$(metric s 2) s, $(metric cpu-s 2) s of processor time"
	if [[ "./internal/agent BenchmarkAdd" =~ ${ONLY:-.} ]]; then
		export CGO_ENABLED=0 # as both are released
		hack/build.sh . ./cmd/nephele-cni bin/nephele-cni
		GOBIN=$work/plugins go install github.com/containernetworking/plugins/plugins/{main/bridge,ipam/host-local,meta/portmap}@v1.9.0
		bench ./internal/agent BenchmarkAdd -args -cni-plugin "$PWD/bin/nephele-cni" -cni-reference "$work/plugins"
		unset CGO_ENABLED
		row "a Pod gets its network by \`nephele-cni\`; of bridge, host-local and portmap; until its policies are in force" "$(metric ms) ms; $(metric %) %; $(metric wait-ms) ms more"
	fi
	bench ./internal/agent/nft/kernel "BenchmarkServices/all_of_10000" && row "10,000 Services of two endpoints each from nothing" "$(metric ns/op | awk '{ printf "%.1f", $1 / 1e9 }') s"
	bench ./internal/agent/nft/kernel "BenchmarkServices/all_of_45000" && row "45,000 of them" "$(metric ns/op | awk '{ printf "%.1f", $1 / 1e9 }') s"
	if command -v nft >/dev/null && (cd standalone && bench ./proxybench BenchmarkServices/10); then # kube-proxy runs it
		row "new connections through one of 10 Services, of kube-proxy's mode nftables: by the clock; by processor time" "$(metric %) %; $(metric cpu-%) %"
	fi
	if command -v nft >/dev/null && (cd standalone && bench ./proxybench BenchmarkServices/10000); then
		row "the same with 10,000; these from nothing, kube-proxy" "$(metric %) %; $(metric cpu-%) %; $(metric sync-ms) ms, $(metric kube-proxy-sync-ms) ms"
	fi
	bench ./internal/agent BenchmarkAgentServices && row "one of their endpoints changes with 10,000 Services, from the event to the kernel: by the clock; time of the agent's thread" "p50 $(metric p50-ms 1) ms, p99 $(metric p99-ms 1) ms; p99 $(metric p99-thread-ms 1) ms"
	exit 0
fi

row "measured on" "$(nproc) processors, $(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo), $(go env GOVERSION), at a load of $(load)"
if [[ ${COLD:-1} != 0 ]]; then
	GOCACHE=$work/cache timed hack/build.sh standalone ./cmd/nephele bin/nephele
	row "cold build, by the clock; processor time" "$(minutes "$clock"); $(minutes "$processor")"
	rm -rf "$work/cache"
fi
hack/build.sh standalone ./cmd/nephele bin/nephele
row "bin/nephele" "$(($(wc -c <bin/nephele) / 1000000)) MB"

bin/nephele up --data-dir "$work/data" --listen 127.0.0.1:0 >"$work/up.log" 2>&1 &
up=$!
until grep -q 'Nephele is ready' "$work/up.log"; do
	kill -0 "$up" 2>/dev/null || { cat "$work/up.log" >&2; exit 1; }
	sleep 0.05
done
ticks=$(awk '{ print $14 + $15 }' "/proc/$up/stat")
after=$(sed -n 's/.*Nephele is ready after \(.*\)\.$/\1/p' "$work/up.log")
row "\`nephele up\`, start to ready; processor time" "$after; $(awk -v t="$ticks" 'BEGIN { printf "%.1f s", t / 100 }')"
sleep 20 # it is at rest, and has given back what it needed to start
row "resident memory at rest; highest while starting" "$(awk '/VmRSS/ { r = $2 } /VmHWM/ { h = $2 } END { printf "%d MB; %d MB", r / 1000, h / 1000 }' "/proc/$up/status")"
