#!/usr/bin/env bash
# Builds one binary and shows that it goes on while that takes long: the first build of the standalone binary compiles
# kube-apiserver, which takes minutes.
#
# usage: hack/build.sh MODULE_DIR PACKAGE OUTPUT        (all relative to the root of the repository)
#
# On a terminal one line counts on; elsewhere a new line appears every 15 seconds. A build from the cache prints one line.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD

if [[ $# != 3 ]]; then
	echo "usage: hack/build.sh MODULE_DIR PACKAGE OUTPUT" >&2
	exit 2
fi
module=$1 package=$2 output=$3
cd "$module"

tmp=$(mktemp -d)
build=
cleanup() {
	if [[ -n $build ]]; then
		kill "$build" 2>/dev/null || true
		wait "$build" 2>/dev/null || true
	fi
	rm -rf "$tmp"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Clients of the API server parse the version that is stamped here.
ldflags="-s -w"
kubernetes=$(go list -m -f '{{.Version}}' k8s.io/kubernetes 2>/dev/null || true)
if [[ -n $kubernetes ]]; then
	ldflags+=" -X k8s.io/component-base/version.gitVersion=$kubernetes"
	IFS=. read -r major minor _ <<<"${kubernetes#v}"
	ldflags+=" -X k8s.io/component-base/version.gitMajor=$major -X k8s.io/component-base/version.gitMinor=$minor"
fi

SECONDS=0
mkdir -p "$root/$(dirname "$output")"
# Tests of several packages build the same binary at the same moment: the first one writes it, and the others find it as it should be.
if command -v flock >/dev/null; then
	exec 9>"$root/$output.lock"
	flock -n 9 || { echo "waiting for another build of $output"; flock 9; }
fi
# With -v the names of the packages appear on standard error as they are compiled, among the error messages.
# Without the tag, gRPC links templates that keep the linker from leaving out methods that nothing calls.
go build -trimpath -tags=grpcnotrace -v -ldflags "$ldflags" -o "$root/$output" "$package" 2>"$tmp/stderr" &
build=$!

# packages lists, once, what may be compiled, which takes seconds of a processor.
packages() {
	[[ -e $tmp/packages ]] || go list -deps "$package" >"$tmp/packages" 2>/dev/null || true
}

elapsed() { printf '%d:%02d' $((SECONDS / 60)) $((SECONDS % 60)); }
status() {
	local n total
	if (($(wc -l <"$tmp/stderr") >= 5)); then
		packages
		total=$(wc -l <"$tmp/packages")
		# Among the names there are also the errors of the compiler, which are no packages.
		n=$(grep -cxFf "$tmp/packages" "$tmp/stderr" || true)
		((n <= total)) || n=$total
		printf 'building %s ... %s, %d of at most %d packages compiled' "$output" "$(elapsed)" "$n" "$total"
	else
		printf 'building %s ... %s' "$output" "$(elapsed)"
	fi
}

shown=0 announced= next=2
while kill -0 "$build" 2>/dev/null; do
	sleep 0.2
	((SECONDS >= next)) || continue
	if [[ -z $announced && -n $kubernetes && $(wc -l <"$tmp/stderr") -ge 200 ]]; then
		echo "The first build compiles kube-apiserver, which takes minutes. Later builds take seconds."
		announced=1
	fi
	if [[ -t 1 ]]; then
		printf '\r%s\033[K' "$(status)"
		shown=1 next=$((SECONDS + 1))
	else
		printf '%s\n' "$(status)"
		next=$((SECONDS + 15))
	fi
done
code=0
wait "$build" || code=$?
build=
if ((shown)); then printf '\r\033[K'; fi
if ((code != 0)); then
	# What is not the name of a package is a message.
	packages
	grep -vxFf "$tmp/packages" "$tmp/stderr" >&2 || true
	echo "building $output failed after $(elapsed)" >&2
	exit "$code"
fi
echo "built $output in $(elapsed)"
