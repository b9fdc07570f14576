#!/usr/bin/env bash
# From a fresh clone to elastic training: installs missing packages, builds, and trains on generated data with 2
# workers that become 4. Then one worker is replaced while training continues. Ends with the run's summary.
set -euo pipefail
cd "$(dirname "$0")/.."

# ELASTICTRAIN_BINARY selects an existing binary; the test of this script sets it.
elastictrain=${ELASTICTRAIN_BINARY:-}
if [ -z "$elastictrain" ]; then
  scripts/setup.sh build
  scripts/build.sh release elastictrain
  elastictrain=build/release/cli/elastictrain
fi
name=quickstart-$$

# The number of a key in the run's status; empty before the run exists.
figure() {
  "$elastictrain" status "$name" --json 2>/dev/null | grep -o "\"$1\": *[0-9]*" | head -n 1 | tr -dc 0-9
}

# wait_for KEY MINIMUM: waits until that number is reached, for at most one minute.
wait_for() {
  local value
  for _ in $(seq 600); do
    value=$(figure "$1" || true)
    [ "${value:-0}" -ge "$2" ] && return 0
    kill -0 "$run" 2>/dev/null || return 1
    sleep 0.1
  done
  echo "quickstart.sh: $1 did not reach $2 within a minute" >&2
  return 1
}

change() {
  echo "+ elastictrain $*"
  "$elastictrain" "$1" "$name" "${@:2}" || echo "quickstart.sh: '$1' was refused" >&2
}

echo "+ elastictrain run configs/quickstart.toml --name $name"
"$elastictrain" run configs/quickstart.toml --name "$name" </dev/null &
run=$!
trap 'kill -INT "$run" 2>/dev/null || true' INT TERM

if wait_for step 100; then
  change resize 4
  if wait_for world_size 4 && wait_for step "$(($(figure step) + 200))"; then
    change replace 1
  fi
fi
status=0
wait "$run" || status=$?
exit "$status"
