#!/bin/bash
# hosts.alive for Kubernetes: prints the Jobs whose pod runs and is not being deleted.
set -euo pipefail

kubectl get pods --selector="job-name in (${ELASTICTRAIN_HOST_JOBS// /,})" --ignore-not-found --no-headers \
  --output=custom-columns=JOB:.metadata.labels.job-name,PHASE:.status.phase,DELETED:.metadata.deletionTimestamp |
  awk '$2 == "Running" && $3 == "<none>" { print $1 }'
