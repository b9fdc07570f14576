#!/usr/bin/env bash
# From a fresh clone to elastic training: installs what is missing, builds, and trains on generated data with 2 workers
# that become 4, of which one is then replaced, while training goes on. Ends with the run's summary, and with what to try
# next. Usage: scripts/quickstart.sh
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  -h | --help)
    sed -n '2,4s/^# //p' "$0"
    exit 0
    ;;
esac

# A binary that is there already can be named; the test of this script does so.
elastictrain=${ELASTICTRAIN_BINARY:-}
if [ -z "$elastictrain" ]; then
  echo "== 1 of 3: packages"
  scripts/setup.sh build
  echo "== 2 of 3: build (the first one takes a few minutes: $(nproc) cores here)"
  scripts/build.sh release elastictrain
  elastictrain=$PWD/build/release/cli/elastictrain
fi
name=quickstart-$$

# The number of a key in the run's status; empty before the run exists. The newest checkpoint has a step of its own.
figure() {
  "$elastictrain" status "$name" --json 2>/dev/null | sed 's/"checkpoint": *{[^}]*}//' |
    grep -o "\"$1\": *[0-9][0-9]*" | head -n 1 | tr -dc 0-9
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

next_steps() {
  cat <<END
== done. The binary is $elastictrain
Try next, with a second terminal for what follows \`run\`:
  export PATH="$(dirname "$elastictrain"):\$PATH"
  elastictrain run configs/quickstart.toml       # the same run, for you to change:
  elastictrain status --watch
  elastictrain resize 4
  elastictrain replace 1
  elastictrain run configs/optdigits.toml        # real data: handwritten digits, about 97 % accuracy
  elastictrain run -n 2 -- YOUR_PROGRAM          # README.md: how a program becomes elastic
END
}

echo "== 3 of 3: training with 2 workers, then 4, then with one replaced"
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
[ "$status" != 0 ] || next_steps
exit "$status"
