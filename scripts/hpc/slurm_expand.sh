#!/bin/bash
# hosts.expand for Slurm: submits helper jobs of one node each, waits until they run, and prints their nodes. For a run that
# slurm.sh started, and for a cluster that slurm_cluster.sh started.
# SLOTS_PER_NODE (1) is the number of workers per node; EXPAND_OPTIONS are passed to sbatch (partition, time, GPUs).
set -euo pipefail

slots=${SLOTS_PER_NODE:-1}
nodes=$(((ELASTICTRAIN_MISSING_SLOTS + slots - 1) / slots))
helpers=()
known=$SLURM_JOB_NODELIST${ELASTICTRAIN_HOSTS:+,${ELASTICTRAIN_HOSTS// /,}}

# A kill during the wait also cancels the helper jobs.
trap '[ ${#helpers[@]} = 0 ] || scancel --quiet "${helpers[@]}"' EXIT

for _ in $(seq "$nodes"); do
  # A helper job holds its node as long as the job that it helps runs.
  # shellcheck disable=SC2086  # EXPAND_OPTIONS is a list of arguments
  helper=$(sbatch --parsable --nodes=1 --no-requeue --exclude="$known" --job-name="help-$SLURM_JOB_ID" \
    --output=/dev/null ${EXPAND_OPTIONS:-} \
    --wrap "while squeue --noheader --jobs=$SLURM_JOB_ID --states=RUNNING | grep -q .; do sleep 10; done")
  helpers+=("${helper%%;*}")
done

state_of() { squeue --noheader --jobs="$1" --format=%T 2>/dev/null || true; }

# Those that run, when all do, or some have for PARTLY_AFTER_S: the others are asked for again.
running=()
partly=
while [ ${#running[@]} -lt ${#helpers[@]} ] && { [ -z "$partly" ] || [ $((SECONDS - partly)) -lt "${PARTLY_AFTER_S:-60}" ]; }; do
  running=()
  for helper in "${helpers[@]}"; do
    state=$(state_of "$helper")
    case $state in
      RUNNING) running+=("$helper") ;;
      PENDING | CONFIGURING) ;;
      *)
        echo "helper job $helper is ${state:-gone}" >&2
        exit 1
        ;;
    esac
  done
  [ ${#running[@]} = 0 ] || partly=${partly:-$SECONDS}
  [ ${#running[@]} = ${#helpers[@]} ] || sleep 1
done

declare -A got
for helper in "${helpers[@]}"; do
  node=$(squeue --noheader --jobs="$helper" --format=%N)
  if [[ " ${running[*]} " != *" $helper "* || -n ${got[$node]:-} ]]; then
    scancel --quiet "$helper" # it waits, or another one brings this node
  else
    got[$node]=$helper
    echo "$node slots=$slots job=$helper"
  fi
done
trap - EXIT
