#!/bin/sh
# Runs many seeds of a simulation, on all cores: of complete runs, or of whole clusters.
#   scripts/campaign_simulation.sh [--clusters] [SEEDS (100000)] [FIRST (others each time)]
# BUILD names the build directory (default build/release). Prints the seeds that fail and exits 1 if there are any.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build/release}
name=simulation_test
program=$build/tests/simulation/$name
if [ "${1:-}" = --clusters ]; then
  shift
  name=cluster_simulation_test
  program=$build/tests/unit/cluster/$name
fi
seeds=${1:-100000}
first=${2:-$(date +%s)00000}
[ -x "$program" ] || { echo "$program is missing: cmake --build $build --target $name" >&2; exit 64; }
cores=$(nproc)
part=$(((seeds + cores - 1) / cores))
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
pids=
core=0
while [ "$core" -lt "$cores" ]; do
  from=$((first + core * part))
  if [ $name = simulation_test ]; then
    export ELASTICTRAIN_FIRST_SEED=$from ELASTICTRAIN_SEEDS=$part ELASTICTRAIN_ALL_FAILURES=1
  else
    export ELASTICTRAIN_SEEDS=$from:$((from + part - 1))
  fi
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
  # doctest says which seeds of clusters fail, and where.
  [ $name = simulation_test ] || sed -n 's/.*ERROR: \(seed .*\)/\1/p' "$logs/$core.out" >> "$logs/$core.err"
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
exit "$failed"
