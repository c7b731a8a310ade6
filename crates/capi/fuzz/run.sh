#!/usr/bin/env bash
# Hostile use of the C interface by programs in C that are made of bytes (program.h); needs clang.
#
#     cargo xtask capi PREFIX [--debug]       installs the library
#     run.sh PREFIX fuzz SECONDS              libFuzzer chooses the bytes, for so many seconds of processor time
#     run.sh PREFIX fuzz-lab SECONDS          the same over the integer indexes of all designs (index.c of lab-capi)
#     run.sh PREFIX random COUNT              so many random programs, of three threads each, under the address
#                                             and undefined behaviour sanitizers, and under the thread sanitizer
#
# `cargo xtask capi fuzz SECONDS [--lab] [--debug]` and `... random COUNT` do both, with target/c-interface as PREFIX.
# What libFuzzer and the sanitizers are linked from is a package of its own in Debian (libclang-rt-dev); where it is not
# installed, CLANG_FLAGS="-resource-dir FOLDER" finds them elsewhere.
#
# libFuzzer is told which edges of the library a program went through: PREFIX/fuzz/libeverleaf.a, or libeverleaf_lab.a,
# is the library with counters, which `cargo xtask capi fuzz` builds. It runs in rounds, until the processor time of the
# rounds with this library, this call's and those before, is what was asked for: other work on the machine makes it last
# longer, and makes it no less. In the end it says of which commit that was.
#
# What libFuzzer has tried is kept in PREFIX/fuzz, and so is a finding: give its file to the program `fuzz` or
# `fuzz-lab` there to see it again. Memory of C code is watched in what the library does with it, too. The thread
# sanitizer sees the programs and the functions they pass in; it cannot see the atomics of the library, whose accesses
# are therefore left out: a race between two threads within the library is not found by it.
set -euo pipefail

[ $# -eq 3 ] || { sed -n '2,14s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
prefix=$(cd "$1" && pwd)
folder=$prefix/fuzz
export LC_ALL=C
scratch=/dev/shm
[ -d "$scratch" ] || scratch=${TMPDIR:-/tmp}
mkdir -p "$folder"

# build NAME SOURCE LIBRARY FLAG...
build() {
    local name=$1 source=$2 library=$3
    shift 3
    # shellcheck disable=SC2086
    clang ${CLANG_FLAGS:-} -std=c99 -Wall -Wextra -Werror -pedantic -D_GNU_SOURCE -g -O1 "$@" -I "$prefix/include" \
        "$here/$source" "$library" -lpthread -ldl -lm -o "$folder/$name"
}

# fuzz NAME SOURCE LIBRARY-NAME SECONDS
fuzz() {
    local name=$1 source=$2 library=$folder/lib$3.a seconds=$4 of=${1#fuzz}
    grep -aqs __sancov_cntrs "$library" || {
        echo "run.sh: $library has no counters, so libFuzzer would not see what it does: use cargo xtask capi fuzz" >&2
        exit 2
    }
    build "$name" "$source" "$library" -fsanitize=fuzzer,address
    cd "$folder"
    mkdir -p "corpus$of"
    # Of another library, or of other programs, it counts from the beginning.
    subject=$(cat "$library" "$here"/*.[ch] "$here/$source" | sha256sum)
    spent_ms=0
    if read -r before known 2>/dev/null <"processor-ms$of" && [ "$before" = "${subject%% *}" ]; then spent_ms=$known; fi
    while left=$((seconds - spent_ms / 1000)) && [ "$left" -gt 0 ]; do
        # Each round reads what is kept, so that a short one would do nothing else.
        status=0 TIMEFORMAT='%3U %3S' round=$((left < 120 ? 120 : left < 1200 ? left : 1200))
        { time EVERLEAF_FUZZ_FOLDER=$scratch "./$name" -max_total_time="$round" -max_len=3000 -len_control=0 \
            -timeout=120 -print_final_stats=1 "corpus$of" >"round$of.log" 2>&1; } 2>times || status=$?
        tail -n 40 "round$of.log"
        [ "$status" -eq 0 ] || exit "$status"
        read -r user system <times
        spent_ms=$((spent_ms + 10#${user/./} + 10#${system/./}))
        echo "${subject%% *} $spent_ms" >"processor-ms$of"
        echo "run.sh: $((spent_ms / 1000)) of $seconds seconds of processor time"
    done
    # What was run, for the page that says so.
    echo "run.sh: $name: no finding in $((spent_ms / 1000)) seconds of processor time, commit" \
        "$(git -C "$here" describe --always --dirty --exclude '*' 2>/dev/null || echo unknown)"
    grep -E ' cov: ' "round$of.log" | tail -n 1
}

case $2 in
fuzz) fuzz fuzz fuzz.c everleaf "$3" ;;
fuzz-lab) fuzz fuzz-lab ../../lab-capi/fuzz/index.c everleaf_lab "$3" ;;
random)
    build random-address random.c "$prefix/lib/libeverleaf.a" -fsanitize=address,undefined \
        -fno-sanitize-recover=all
    "$folder/random-address" "$scratch" 0 "$3"
    build random-thread random.c "$prefix/lib/libeverleaf.so" -fsanitize=thread
    TSAN_OPTIONS="ignore_noninstrumented_modules=1 halt_on_error=1" LD_LIBRARY_PATH=$prefix/lib \
        "$folder/random-thread" "$scratch" 0 "$3"
    ;;
*)
    echo "run.sh: fuzz, fuzz-lab or random, not $2" >&2
    exit 2
    ;;
esac
