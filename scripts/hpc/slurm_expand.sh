#!/bin/bash
# hosts.expand for Slurm: submits helper jobs of a node each, waits until they have them, and prints the nodes.
# SLOTS_PER_NODE (1) is how many workers a node takes; EXPAND_OPTIONS go to sbatch (partition, time, GPUs).
set -euo pipefail

slots=${SLOTS_PER_NODE:-1}
nodes=$(((ELASTICTRAIN_MISSING_SLOTS + slots - 1) / slots))
helpers=()

# Who is killed while it waits takes its helpers with it.
trap '[ ${#helpers[@]} = 0 ] || scancel "${helpers[@]}"' EXIT

for _ in $(seq "$nodes"); do
  # A node is held as long as the job that it helps.
  # shellcheck disable=SC2086  # EXPAND_OPTIONS is a list of words
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
