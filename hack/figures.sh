#!/usr/bin/env bash
# Measures what building and starting the standalone binary takes on this machine, and writes that
# into docs/performance.md.
#
# usage: hack/figures.sh          COLD=0 does not compile everything anew, which takes minutes
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

page=docs/performance.md
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

# row NAME VALUE puts the value into the second cell of the row of that name.
row() {
	NAME=$1 VALUE=$2 awk '
		BEGIN { start = "| " ENVIRON["NAME"] " | " }
		index($0, start) == 1 {
			rest = substr($0, length(start) + 1)
			print start ENVIRON["VALUE"] substr(rest, index(rest, " |"))
			found = 1
			next
		}
		{ print }
		END { if (!found) { print "no row: " ENVIRON["NAME"] > "/dev/stderr"; exit 1 } }' "$page" >"$work/page"
	cp "$work/page" "$page"
	echo "$1: $2"
}

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
