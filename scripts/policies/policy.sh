#!/bin/sh
# A policy as a shell program: grows the run while each worker keeps a share of the throughput it had at the first size.
#
#   [policy]
#   program = ["sh", "scripts/policies/policy.sh", "80"]    # the share in percent; default 80
#   interval_ms = 5000
#
# Reads one view per line, writes one decision per line (supervisor/policy/README.md). If jq is available, it can
# replace field().
share=${1:-80} first='' before='' settled=''

# The last number with that name; the job's own figures come last.
field() { printf '%s\n' "$view" | sed -n "s/.*\"$1\":\\([0-9.e+-]*\\).*/\\1/p"; }

answer() { printf '{"jobs":[{%s"reason":{"code":"%s","text":"%s"}}]}\n' "$3" "$1" "$2"; }

while IFS= read -r view; do
  workers=$(field workers)
  now="$(field now_s) $(field samples_done) $workers"
  # Samples per second and worker since the last view, if the size has not changed.
  each=$(echo "$now $before" | awk '$3 == $6 && $1 > $4 { printf "%d", ($2 - $5) / ($1 - $4) / $3 }')
  before=$now
  if [ "${each:-0}" -eq 0 ]; then
    answer measuring "measuring $workers workers"
    continue
  fi
  first=${first:-$each}
  percent=$((100 * each / first))
  text="$each samples/s per worker, $percent % of what the first size gave"
  if [ -n "$settled" ]; then
    answer settled "$text"
  elif [ "$percent" -lt "$share" ]; then
    settled=yes
    answer pays_no_more "$text" "\"workers\":$((workers - 1)),"
  elif [ "$workers" -lt "$(field max_workers)" ] && [ "$workers" -lt "$(field reachable)" ]; then
    answer grow "$text" "\"workers\":$((workers + 1)),"
  else
    answer at_limit "$text"
  fi
done
