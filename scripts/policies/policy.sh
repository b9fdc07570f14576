#!/bin/sh
# A policy as a shell program: grows the run while each worker keeps a share of the throughput it had at the first size.
#
#   [policy]
#   program = ["sh", "scripts/policies/policy.sh", "80"]    # the share in percent; 80 without it
#   interval_ms = 5000
#
# One view a line comes in, one decision a line goes out (supervisor/policy/README.md). With jq at hand, use jq in the
# place of field().
share=${1:-80} first='' before='' settled=''

# The last number of that name; the job's own come last.
field() { printf '%s\n' "$view" | sed -n "s/.*\"$1\":\\([0-9.e+-]*\\).*/\\1/p"; }

answer() { printf '{"jobs":[{%s"reason":{"code":"%s","text":"%s"}}]}\n' "$3" "$1" "$2"; }

while IFS= read -r view; do
  workers=$(field workers)
  now="$(field now_s) $(field samples_done) $workers"
  # Samples per second and worker since the last view, if the size has stayed.
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
