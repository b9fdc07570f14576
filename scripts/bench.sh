#!/usr/bin/env bash
# Runs named benchmarks of the release build and prints a table, or one JSON object a row.
# Usage: scripts/bench.sh [--json] [--list] [--record] [--page] [--repetitions N] NAME…    (NAME may be: all)
set -euo pipefail
cd "$(dirname "$0")/.."

building=yes
for word in "$@"; do
  case "$word" in
    --list | --page | -h | --help) building=no ;;
  esac
done
if [ "$building" = yes ]; then
  scripts/setup.sh build test >&2
  scripts/build.sh release >&2
fi
export ELASTICTRAIN_BINARY=${ELASTICTRAIN_BINARY:-$PWD/build/release/cli/elastictrain}
export PYTHONDONTWRITEBYTECODE=1
exec python3 scripts/bench/bench.py "$@"
