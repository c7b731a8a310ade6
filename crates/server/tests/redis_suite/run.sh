#!/bin/bash
# Runs files of the test suite of Redis 7.0 against this server, and prints a table of what came of each.
#
#   cargo build -p everleaf-server --example serve
#   crates/server/tests/redis_suite/run.sh target/debug/examples/serve [FILE ...]
#
# The suite is not part of this repository: REDIS_SOURCE names a folder with the source of Redis 7.0, or it is
# fetched as the Debian source package. It needs tclsh and redis-server's source, and runs in external mode with one
# database. What cannot apply is listed with its reason in skipped.txt.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
program=$(realpath "$1")
shift
files=("$@")
if [ ${#files[@]} = 0 ]; then
  files=(unit/keyspace unit/expire unit/scan unit/type/string unit/type/incr unit/bitops unit/bitfield
    unit/sort unit/dump unit/slowlog unit/other unit/multi unit/protocol unit/quit)
fi
work=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$work"' EXIT

source=${REDIS_SOURCE:-}
if [ -z "$source" ]; then
  mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
  echo "deb-src http://deb.debian.org/debian bookworm main" > "$work/sources.list"
  options=(-o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=-
    -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache")
  apt-get "${options[@]}" update > /dev/null
  (cd "$work" && apt-get "${options[@]}" source --download-only redis > /dev/null)
  tar -C "$work" -xzf "$work"/redis_*.orig.tar.gz
  source=$(echo "$work"/redis-[0-9]*)
fi

# A copy, whose harness does not insist on functions.
cp -r "$source/tests" "$source/runtest" "$work"
sed -i 's/^    r function flush$/    catch {r function flush}/' "$work/tests/support/server.tcl"

port=${PORT:-16399}
"$program" "$work/pool" "$port" 2 > "$work/server.log" 2>&1 &
server=$!
until redis-cli -p "$port" ping > /dev/null 2>&1; do
  kill -0 "$server"
  sleep 0.1
done

# A line of the list: file, test, reason, with " | " between them.
awk -F ' [|] ' '!/^#/ && NF == 3 { print $2 }' "$here/skipped.txt" > "$work/skipped"
echo "| file | passed | skipped | failed |"
echo "|---|---|---|---|"
status=0
for file in "${files[@]}"; do
  redis-cli -p "$port" flushall > /dev/null
  log="$work/$(echo "$file" | tr / -).log"
  (cd "$work" && timeout 900 ./runtest --host 127.0.0.1 --port "$port" --single "$file" --singledb --durable \
    --ignore-encoding --ignore-digest --skipfile "$work/skipped" \
    --tags "-needs:debug -needs:repl -needs:config-maxmemory -needs:save" > "$log" 2>&1) || true
  plain=$(sed 's/\x1b\[[0-9;]*m//g' "$log")
  count() { grep -c "^\[$1\]" <<< "$plain" || true; }
  failed=$(($(count err) + $(count exception)))
  echo "| \`$file\` | $(count ok) | $(($(count ignore) + $(count skip))) | $failed |"
  if [ "$failed" != 0 ]; then
    status=1
    grep -A6 -E "^\[(err|exception)\]" <<< "$plain" >&2 || true
  fi
  if [ -n "${LOGS:-}" ]; then
    mkdir -p "$LOGS"
    echo "$plain" > "$LOGS/$(basename "$log")"
  fi
done
exit $status
