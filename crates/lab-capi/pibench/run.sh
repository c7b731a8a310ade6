#!/usr/bin/env bash
# Builds PiBench where its source is, runs it over the store and all designs, and draws what it says.
#
#     cargo xtask capi PREFIX --lab           installs the libraries
#     run.sh PIBENCH PREFIX OUT [DESIGN...]   PIBENCH is the source of github.com/sfu-dis/pibench, with what its
#                                             own build asks for; results are made in the folder OUT
#
# Without designs it runs `store`, which is the store of byte strings, and every design of the library. The mixes are
# PiBench's default (reads alone), each other operation alone, and half reads, half updates. From the environment:
#
#     RECORDS, OPERATIONS, THREADS            -n, -p and -t of PiBench
#     POOL                                    a folder for pools, on the memory or disk to be measured
#     PIBENCH_OPTIONS                         further options of PiBench (--pcm=false: its counters need rights)
#
# OUT has results.tsv (design, mix, operations a second), results.svg, and what PiBench printed of each run. A run
# that fails, or says that an operation or a verification failed, is told at the end, and makes the script fail; the
# others are still made.
set -euo pipefail

[ $# -ge 3 ] || { sed -n '2,17s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
pibench=$(cd "$1" && pwd)
prefix=$(cd "$2" && pwd)
mkdir -p "$3"
out=$(cd "$3" && pwd)
shift 3
[ -f "$pibench/include/tree_api.hpp" ] || { echo "run.sh: $pibench is no source of PiBench" >&2; exit 2; }
[ -f "$prefix/lib/libeverleaf_lab.so" ] || { echo "run.sh: run cargo xtask capi $prefix --lab" >&2; exit 2; }
records=${RECORDS:-1000000} operations=${OPERATIONS:-1000000} threads=${THREADS:-1}
options=${PIBENCH_OPTIONS---pcm=false}
pools=${POOL:-$out}

cmake -S "$pibench" -B "$out/build" -DCMAKE_BUILD_TYPE=Release > "$out/build.log"
cmake --build "$out/build" --parallel >> "$out/build.log"
program=$(find "$out/build" -name PiBench -type f -perm -u+x | head -n 1)
[ -n "$program" ] || { echo "run.sh: its build made no program PiBench" >&2; exit 1; }

# wrapper NAME SOURCE LIBRARY
wrapper() {
    ${CXX:-c++} -std=c++17 -O2 -Wall -Wextra -fPIC -shared -I "$pibench/include" -I "$prefix/include" "$2" \
        -L "$prefix/lib" -Wl,-rpath,"$prefix/lib" -l"$3" -o "$out/$1.so"
}
wrapper store "$here/../../capi/pibench/everleaf_wrapper.cpp" everleaf_lab
wrapper design "$here/everleaf_lab_wrapper.cpp" everleaf_lab
${CC:-cc} -std=c99 -I "$prefix/include" "$here/designs.c" -L "$prefix/lib" -Wl,-rpath,"$prefix/lib" \
    -leverleaf_lab -o "$out/designs"

# Whether a run says that something failed: a verification, or a number of operations other than 0. What it repeats of its
# command line is none of that, whatever the folders are called.
failures() {
    local said path found
    said=$(< "$1")
    for path in "$pool" "$library" "$program" "$pibench" "$prefix" "$pools" "$out"; do
        said=${said//"$path"/}
    done
    found=$(sed -E 's/(^|[^0-9.])0 (failed|failures|mismatches|errors|missing)/\1/gI
        s/(failed|failures|mismatches|errors|missing)[^:0-9]*: *0($|[^0-9.])/\2/gI' <<< "$said" |
        grep -ciE 'fail|mismatch|incorrect|wrong|error|missing|not found') || true
    [ "$found" -gt 0 ]
}

# Name, and shares of reads, inserts, updates, removals and scans.
mixes="reads 1 0 0 0 0
inserts 0 1 0 0 0
updates 0 0 1 0 0
removals 0 0 0 1 0
scans 0 0 0 0 1
half 0.5 0 0.5 0 0"

[ $# -gt 0 ] || set -- store $("$out/designs")
failed=""
printf 'design\tmix\toperations_per_second\n' > "$out/results.tsv"
for design; do
    library=$out/design.so
    [ "$design" != store ] || library=$out/store.so
    while read -r mix reads inserts updates removals scans; do
        # A hash index has no order to scan.
        [ "$mix" != scans ] || [ "$design" = store ] || "$out/designs" "$design" || continue
        pool=$(mktemp -d "$pools/pool.XXXXXX")
        log=$out/$design.$mix.log
        # shellcheck disable=SC2086 # options are words
        if EVERLEAF_DESIGN=$design "$program" "$library" -n "$records" -p "$operations" -t "$threads" \
            -r "$reads" -i "$inserts" -u "$updates" -d "$removals" -s "$scans" \
            --pool_path="$pool/pool" --pool_size=$((1 << 34)) $options > "$log" 2>&1 &&
            ! failures "$log" &&
            rate=$(sed -n 's/.*[Tt]hroughput: *\([0-9.eE+]*\).*/\1/p' "$log" | tail -n 1) && [ -n "$rate" ]; then
            printf '%s\t%s\t%s\n' "$design" "$mix" "$rate" >> "$out/results.tsv"
        else
            failed="$failed $design:$mix"
        fi
        rm -r "$pool"
    done <<< "$mixes"
done

# Bars by mixes: all of a mix are as long as their share of its best.
awk -F '\t' '
NR > 1 { if (!($2 in best)) mixes[++count] = $2; if ($3 + 0 > best[$2] + 0) best[$2] = $3
         rows[$2] = rows[$2] "\n" $1 "\t" $3 }
END {
    y = 0
    for (m = 1; m <= count; m++) {
        y += 24; mix = mixes[m]
        body = body sprintf("<text x=\"0\" y=\"%d\" font-weight=\"bold\">%s</text>\n", y, mix)
        lines = split(rows[mix], line, "\n")
        for (l = 2; l <= lines; l++) {
            split(line[l], cell, "\t"); y += 16
            width = best[mix] > 0 ? 500 * cell[2] / best[mix] : 0
            body = body sprintf("<text x=\"0\" y=\"%d\">%s</text>", y, cell[1])
            body = body sprintf("<rect x=\"140\" y=\"%d\" width=\"%.1f\" height=\"11\" fill=\"#4c8c4a\"/>", y - 10, width)
            body = body sprintf("<text x=\"%.1f\" y=\"%d\">%.0f</text>\n", 146 + width, y, cell[2])
        }
    }
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"%d\" font-family=\"sans-serif\" font-size=\"11\">\n%s</svg>\n", y + 20, body
}' "$out/results.tsv" > "$out/results.svg"

echo "$(($(wc -l < "$out/results.tsv") - 1)) runs are in $out/results.tsv and $out/results.svg"
[ -z "$failed" ] || { echo "run.sh: failed:$failed" >&2; exit 1; }
