#!/usr/bin/env bash
# Measures the reading of envelopes: ours, Foundation's, and the JSON libraries of Debian (libyajl-dev libjansson-dev libjson-c-dev
# libsimdjson-dev); then as MessagePack, with Debian's libraries for that (libmsgpack-dev libmpack-dev); then the writing of publications.
# The programs take turns, five rounds; the tables show medians and, in brackets, multiples of ours in the same round.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
rounds="${1:-5}"
window="${2:-40}"
out="$root/.build/bench-scan"
mkdir -p "$out"

cc -O2 -Wall -Wextra -c "$here/peers/run.c" -o "$out/run.o"
cc -O2 -Wall -Wextra "$here/peers/yajl.c" "$out/run.o" -lyajl -o "$out/yajl"
cc -O2 -Wall -Wextra "$here/peers/jansson.c" "$out/run.o" -ljansson -o "$out/jansson"
cc -O2 -Wall -Wextra "$here/peers/jsonc.c" "$out/run.o" -ljson-c -o "$out/jsonc"
c++ -O2 -Wall -Wextra -std=c++17 "$here/peers/simdjson.cpp" "$out/run.o" -lsimdjson -o "$out/simdjson"
cc -O2 -Wall -Wextra "$here/peers/msgpackc.c" "$out/run.o" -lmsgpackc -o "$out/msgpackc"
cc -O2 -Wall -Wextra "$here/peers/libmpack.c" "$out/run.o" -lmpack -o "$out/libmpack"
swift build --package-path "$root" -c release --product bench-scan >&2
ours="$(swift build --package-path "$root" -c release --show-bin-path)/bench-scan"

compare() { # ENVELOPES PROGRAM…
    local envelopes="$1" program round
    shift
    : > "$out/figures.txt"
    for round in $(seq "$rounds"); do
        echo "round $round of $rounds" >&2
        for program in "$@"; do
            "$program" "$envelopes" "$window" | sed "s/^/$round\t/" >> "$out/figures.txt"
        done
    done
    python3 "$here/table.py" "$envelopes" "$out/figures.txt"
}

compare "$here/envelopes.txt" "$ours" "$out/yajl" "$out/jansson" "$out/jsonc" "$out/simdjson"
"$ours" "$here/envelopes.txt" pack > "$out/envelopes.hex"
compare "$out/envelopes.hex" "$ours" "$out/msgpackc" "$out/libmpack"
"$ours" publications "$window"
