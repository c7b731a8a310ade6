#!/usr/bin/env bash
# Hostile use of the C interface by programs in C that are made of bytes (program.h); needs clang.
#
#     cargo xtask capi PREFIX [--debug]       installs the library
#     run.sh PREFIX fuzz SECONDS              libFuzzer chooses the bytes, for so long
#     run.sh PREFIX random COUNT              so many random programs, of three threads each, under the address
#                                             and undefined behaviour sanitizers, and under the thread sanitizer
#
# `cargo xtask capi fuzz SECONDS [--debug]` and `... random COUNT` do both, with target/c-interface as PREFIX. What libFuzzer
# and the sanitizers are linked from is a package of its own in Debian (libclang-rt-14-dev); where it is not installed,
# CLANG_FLAGS="-resource-dir FOLDER" finds them elsewhere.
#
# What libFuzzer has tried is kept in PREFIX/fuzz, and so is a finding: give its file to the program `fuzz`
# there to see it again. Memory of C code is watched in what the library does with it, too. The thread
# sanitizer sees the programs and the functions they pass in; it cannot see the atomics of the library, whose
# accesses are therefore left out.
set -euo pipefail

[ $# -eq 3 ] || { sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
prefix=$(cd "$1" && pwd)
folder=$prefix/fuzz
scratch=/dev/shm
[ -d "$scratch" ] || scratch=${TMPDIR:-/tmp}
mkdir -p "$folder/corpus"

# build NAME SOURCE LIBRARY FLAG...
build() {
    local name=$1 source=$2 library=$3
    shift 3
    # shellcheck disable=SC2086
    clang ${CLANG_FLAGS:-} -std=c99 -Wall -Wextra -Werror -pedantic -D_GNU_SOURCE -g -O1 "$@" -I "$prefix/include" \
        "$here/$source" "$library" -lpthread -ldl -lm -o "$folder/$name"
}

case $2 in
fuzz)
    build fuzz fuzz.c "$prefix/lib/libeverleaf.a" -fsanitize=fuzzer,address
    cd "$folder"
    EVERLEAF_FUZZ_FOLDER=$scratch ./fuzz -max_total_time="$3" -max_len=3000 -len_control=0 -timeout=120 \
        -print_final_stats=1 corpus
    ;;
random)
    build random-address random.c "$prefix/lib/libeverleaf.a" -fsanitize=address,undefined \
        -fno-sanitize-recover=all
    "$folder/random-address" "$scratch" 0 "$3"
    build random-thread random.c "$prefix/lib/libeverleaf.so" -fsanitize=thread
    TSAN_OPTIONS="ignore_noninstrumented_modules=1 halt_on_error=1" LD_LIBRARY_PATH=$prefix/lib \
        "$folder/random-thread" "$scratch" 0 "$3"
    ;;
*)
    echo "run.sh: fuzz or random, not $2" >&2
    exit 2
    ;;
esac
