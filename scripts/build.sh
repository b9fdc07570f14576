#!/usr/bin/env bash
# Configures and builds one preset (release, debug, asan, tsan) into build/<preset>.
# Usage: scripts/build.sh [PRESET] [TARGET…]
set -euo pipefail
case "${1:-}" in
-h | --help) exec sed -n '2,3s/^# //p' "$0" ;;
-*)
  echo "build.sh: unknown flag $1; scripts/build.sh --help" >&2
  exit 64
  ;;
esac
cd "$(dirname "$0")/.."

preset=${1:-release}
shift || true
if command -v ccache >/dev/null && [ -z "${CMAKE_CXX_COMPILER_LAUNCHER:-}" ]; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! cmake --preset "$preset" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
[ $# -gt 0 ] || grep 'left out' "$log" || true  # what this machine lacks
rm -f "$log"
# One compiler at a time for each processor, and for each 1.5 GB of memory: the largest unit takes as much.
jobs=$(awk -v processors="$(nproc)" '/^MemAvailable/ {
  jobs = int($2 / 1500000)
  jobs = jobs < 1 ? 1 : jobs
  print (jobs < processors + 0 ? jobs : processors)
}' /proc/meminfo)
if [ $# -gt 0 ]; then
  exec cmake --build --preset "$preset" --parallel "$jobs" --target "$@"
fi
exec cmake --build --preset "$preset" --parallel "$jobs"
