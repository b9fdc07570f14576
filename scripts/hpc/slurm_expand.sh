#!/bin/bash
# hosts.expand for Slurm: submits helper jobs of one node each, waits until they run, and prints their nodes.
# SLOTS_PER_NODE (1) is the number of workers per node; EXPAND_OPTIONS are passed to sbatch (partition, time, GPUs).
set -euo pipefail

slots=${SLOTS_PER_NODE:-1}
nodes=$(((ELASTICTRAIN_MISSING_SLOTS + slots - 1) / slots))
helpers=()

# A kill during the wait also cancels the helper jobs.
trap '[ ${#helpers[@]} = 0 ] || scancel "${helpers[@]}"' EXIT

for _ in $(seq "$nodes"); do
  # A helper job holds its node as long as the job that it helps runs.
  # shellcheck disable=SC2086  # EXPAND_OPTIONS is a list of arguments
  helper=$(sbatch --parsable --nodes=1 --exclude="$SLURM_JOB_NODELIST" --job-name="help-$SLURM_JOB_ID" \
    --output=/dev/null ${EXPAND_OPTIONS:-} \
    --wrap "while squeue --noheader --jobs=$SLURM_JOB_ID --states=RUNNING | grep -q .; do sleep 10; done")
  helpers+=("${helper%%;*}")
done

for helper in "${helpers[@]}"; do
  while state=$(squeue --noheader --jobs="$helper" --format=%T) && [ "$state" != RUNNING ]; do
    case $state in
      PENDING | CONFIGURING) sleep 1 ;;
      *)
        echo "helper job $helper is ${state:-gone}" >&2
        exit 1
        ;;
    esac
  done
done
for helper in "${helpers[@]}"; do
  echo "$(squeue --noheader --jobs="$helper" --format=%N) slots=$slots job=$helper"
done
trap - EXIT
