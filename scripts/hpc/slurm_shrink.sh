#!/bin/bash
# hosts.shrink for Slurm: ends the helper jobs of the hosts that are no longer needed.
set -euo pipefail

read -r -a helpers <<<"$ELASTICTRAIN_HOST_JOBS"
[ ${#helpers[@]} = 0 ] || scancel --quiet "${helpers[@]}"
