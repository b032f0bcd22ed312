#!/bin/sh
# Installs the program of a release of Nephele, after it has proven itself: the list of checksums must be signed with the key that you trust,
# and the archive must be in that list. If anything does not fit, nothing is installed.
#
#   install.sh --key nephele.pub [--from DIR-OR-URL] [--version v1.2.3] [--to /usr/local/bin]
#
# --key      the public key of whoever makes the releases, which you have from elsewhere: one that comes with the release proves nothing
# --from     where the files of the release are: a folder, or an https URL (default: the releases of the repository)
# --version  which release; needed with the default of --from. Without it any release that is signed is taken, also an older one
# --to       folder for the programs
#
# It needs sha256sum or shasum, tar, and openssl or cosign; curl for a URL.
set -eu

fail() { echo "install.sh: $*" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

key='' from='' version='' to=/usr/local/bin
while [ $# -gt 0 ]; do
	case $1 in
	--key | --from | --version | --to)
		[ $# -gt 1 ] || fail "$1 needs a value"
		case $1 in --key) key=$2 ;; --from) from=$2 ;; --version) version=$2 ;; --to) to=$2 ;; esac
		shift 2
		;;
	*) fail "unknown argument $1 (the first lines of this file say what there is)" ;;
	esac
done
[ -n "$key" ] || fail "--key is missing: name the public key that you trust"
[ -r "$key" ] || fail "--key $key cannot be read"
if [ -z "$from" ]; then
	[ -n "$version" ] || fail "--version is missing"
	from=https://github.com/nephele-io/nephele/releases/download/$version
fi

case $(uname -s) in Linux) os=linux ;; Darwin) os=darwin ;; *) fail "there is no release for $(uname -s)" ;; esac
case $(uname -m) in x86_64 | amd64) arch=amd64 ;; aarch64 | arm64) arch=arm64 ;; *) fail "there is no release for $(uname -m)" ;; esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP

# get FILE: brings a file of the release to $work.
get() {
	case $from in
	https://*)
		has curl || fail "curl is needed to fetch from $from"
		curl --proto =https --tlsv1.2 -fsSL --max-filesize 1000000000 -o "$work/$1" "$from/$1" || fail "$1 cannot be fetched from $from"
		;;
	*://*) fail "--from $from: want a folder or https" ;;
	*) [ -f "$from/$1" ] && cp "$from/$1" "$work/$1" || fail "$from has no $1" ;;
	esac
}

has tar || fail "tar is needed to unpack the archive"
get SHA256SUMS
get SHA256SUMS.sig
if has openssl; then
	openssl base64 -d -A -in "$work/SHA256SUMS.sig" -out "$work/signature" 2>/dev/null || fail "SHA256SUMS.sig is no signature"
	openssl dgst -sha256 -verify "$key" -signature "$work/signature" "$work/SHA256SUMS" >/dev/null 2>&1 ||
		fail "SHA256SUMS is not signed with $key"
else
	has cosign || fail "openssl or cosign is needed to check the signature"
	cosign verify-blob --key "$key" --insecure-ignore-tlog=true --signature "$work/SHA256SUMS.sig" "$work/SHA256SUMS" >/dev/null 2>&1 ||
		fail "SHA256SUMS is not signed with $key"
fi

# The list is believed from here on. It names one archive for this machine, and with --version that of this version.
archive=$(sed -n "s/^[0-9a-f]\{64\}  \(nephele_[0-9A-Za-z.+-]*_${os}_${arch}\.tar\.gz\)$/\1/p" "$work/SHA256SUMS")
[ -n "$archive" ] || fail "the release has no archive for $os/$arch"
[ "$(printf '%s\n' "$archive" | wc -l)" -eq 1 ] || fail "the release has several archives for $os/$arch"
[ -z "$version" ] || [ "$archive" = "nephele_${version#v}_${os}_${arch}.tar.gz" ] || fail "this is $archive, not version $version"
get "$archive"
wanted=$(sed -n "s/^\([0-9a-f]\{64\}\)  $archive$/\1/p" "$work/SHA256SUMS")
if has sha256sum; then
	got=$(sha256sum <"$work/$archive")
elif has shasum; then
	got=$(shasum -a 256 <"$work/$archive")
else
	fail "sha256sum or shasum is needed to check $archive"
fi
[ "${got%% *}" = "$wanted" ] || fail "$archive is not the one that was signed"

mkdir "$work/unpacked"
tar -xzf "$work/$archive" -C "$work/unpacked"
[ -f "$work/unpacked/nephele" ] || fail "$archive has no program nephele"
mkdir -p "$to"
for program in nephele nephele-agent; do
	[ -f "$work/unpacked/$program" ] || continue
	# Beside its place first: a program that runs is replaced, and never half there.
	cp "$work/unpacked/$program" "$to/.$program.new"
	chmod 0755 "$to/.$program.new"
	mv -f "$to/.$program.new" "$to/$program"
	echo "$to/$program is from $archive"
done
