#!/bin/sh
# Runs many seeds of the simulation of complete runs, on all cores.
#   scripts/campaign_simulation.sh [SEEDS (100000)] [FIRST (others each time)]
# BUILD names the build directory (default build/release). Prints the seeds that fail and exits 1 if there are any.
set -eu
cd "$(dirname "$0")/.."
seeds=${1:-100000}
first=${2:-$(date +%s)00000}
build=${BUILD:-build/release}
program=$build/tests/simulation/simulation_test
[ -x "$program" ] || { echo "$program is missing: cmake --build $build --target simulation_test" >&2; exit 64; }
cores=$(nproc)
part=$(((seeds + cores - 1) / cores))
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
pids=
core=0
while [ "$core" -lt "$cores" ]; do
  ELASTICTRAIN_FIRST_SEED=$((first + core * part)) ELASTICTRAIN_SEEDS=$part ELASTICTRAIN_ALL_FAILURES=1 \
    "$program" > "$logs/$core.out" 2> "$logs/$core.err" &
  pids="$pids $!"
  core=$((core + 1))
done
failed=0
crashed=
core=0
for pid in $pids; do
  status=0
  wait "$pid" || status=$?
  [ "$status" -eq 0 ] || failed=1
  # Seeds that fail are named and make the status 1. Any other status means that the batch ended before its last seed.
  if [ "$status" -gt 1 ] || { [ "$status" -eq 1 ] && ! grep -q '^seed ' "$logs/$core.err"; }; then
    from=$((first + core * part))
    crashed="$crashed; the batch from $from to $((from + part - 1)) crashed with status $status"
    tail -n 5 "$logs/$core.out" >&2
  fi
  core=$((core + 1))
done
cat "$logs"/*.err
echo "$((part * cores)) seeds from $first on, $(cat "$logs"/*.err | grep -c '^seed ' || true) failed$crashed"
exit $failed
