# Shared by the scripts beside it; to be sourced, not run.
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$top"

swift_min_major=6
swift_min_minor=2

# For every `swift build`: SwiftPM puts -color-diagnostics into the compiler's commands when it writes to a terminal, and commands that
# differ are a full rebuild: a person and a pipe taking turns would compile everything each time.
build_flags=(-c release --no-color-diagnostics)

# What the build links (hubctl's HTTP is libcurl's), and what only the tests start.
build_packages=(libhiredis-dev libssl-dev zlib1g-dev libcurl4-openssl-dev)
test_packages=(redis-server haproxy curl python3-venv nodejs node-ws)

say() { printf '==> %s\n' "$*"; }
die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# show_help ARGUMENTS…: when the first one asks for help, prints the comment at the head of the script and ends.
show_help() {
    case ${1:-} in
    -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit ;;
    esac
}

# try_step NAME COMMAND…: runs it and remembers how long it took, and whether it failed.
step_times=()
step_failures=()
try_step() {
    local name=$1 began=$SECONDS result=
    shift
    say "$name"
    "$@" || { result=' FAILED' && step_failures+=("$name"); }
    step_times+=("$(printf '%5d s  %s%s' $((SECONDS - began)) "$name" "$result")")
}

# The same for what the rest can't do without.
step() {
    local before=${#step_failures[@]}
    try_step "$@"
    [ ${#step_failures[@]} -eq "$before" ] || die "$1 failed"
}

# The first toolchain that is new enough: PATH, then the places where swiftly and the tarballs put it.
find_swift() {
    local candidate version seen=()
    for candidate in "$(command -v swift || true)" "${SWIFTLY_BIN_DIR:-/nonexistent}/swift" \
        "$HOME/.local/share/swiftly/bin/swift" "$HOME/.swiftly/bin/swift" /opt/swift/usr/bin/swift /usr/local/swift/usr/bin/swift; do
        [ -n "$candidate" ] && [ -x "$candidate" ] || continue
        version=$("$candidate" --version 2>/dev/null | sed -nE 's/.*Swift version ([0-9]+)\.([0-9]+).*/\1 \2/p' | head -n 1)
        [ -n "$version" ] || continue
        if [ "${version% *}" -gt $swift_min_major ] \
            || { [ "${version% *}" -eq $swift_min_major ] && [ "${version#* }" -ge $swift_min_minor ]; }; then
            swift=$candidate
            # The tools beside it (swift-format, lldb) must be the same toolchain's.
            PATH=$(dirname "$candidate"):$PATH
            export PATH
            say "Swift ${version/ /.} ($swift)"
            return
        fi
        seen+=("$candidate is ${version/ /.}")
    done
    cat >&2 <<MESSAGE
error: a Swift toolchain of version $swift_min_major.$swift_min_minor or newer is needed; ${seen[*]:-none was found on PATH or in the usual places}.
Get one in either way, then run this again:
  - swiftly, the official installer: https://www.swift.org/install/linux/ , then 'swiftly install latest'
  - the tarball for this system from the same page: unpack it and put its usr/bin on PATH (or unpack it so that /opt/swift/usr/bin/swift exists)
MESSAGE
    exit 1
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "this needs root: $* (run it as root, or install sudo)"
    fi
}

is_installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# need_packages NAME…: installs those that are missing. Asks nothing and touches nothing when all are there.
need_packages() {
    local name missing=()
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        say "no apt on this system; these must be there already (Debian's names): $*"
        return
    fi
    for name in "$@"; do
        is_installed "$name" || missing+=("$name")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    say "installing with apt: ${missing[*]}"
    as_root apt-get update -q
    without_services as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
}

# Debian starts a service when it installs one; the tests start their own on free ports, so nothing else should begin to listen.
without_services() {
    local policy=/usr/sbin/policy-rc.d made=no status=0
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null
        as_root chmod 755 $policy
        made=yes
    fi
    "$@" || status=$?
    [ $made = no ] || as_root rm -f $policy
    return $status
}

# A browser for the page's test; Ubuntu's is a snap, so an installed one of any make will do.
browser_names=(chromium chromium-browser google-chrome google-chrome-stable)
need_browser() {
    local name
    for name in "${browser_names[@]}"; do
        if command -v "$name" >/dev/null; then return; fi
    done
    need_packages chromium
}

# The tests' Python packages live in .build/venv and are installed again only when the list changes.
need_venv() {
    local list=Tests/Integration/requirements.txt venv=.build/venv
    if [ -x $venv/bin/python ] && cmp -s $list $venv/installed.txt; then return; fi
    say "installing the tests' Python packages into $venv"
    # Joined by &&: under `step`, the shell doesn't stop at a failing command by itself.
    mkdir -p .build && python3 -m venv --clear $venv \
        && $venv/bin/pip install -q --disable-pip-version-check -r $list && cp $list $venv/installed.txt
}
