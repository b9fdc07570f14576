#!/bin/bash
# hosts.shrink for Kubernetes: deletes the Jobs of the pods that are no longer needed.
set -euo pipefail

read -r -a jobs <<<"$ELASTICTRAIN_HOST_JOBS"
[ ${#jobs[@]} = 0 ] || kubectl delete job --wait=false --ignore-not-found "${jobs[@]}" >&2
