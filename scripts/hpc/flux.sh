#!/bin/bash
# A training job that yields: flux batch flux.sh CONFIG.toml [flags of elastictrain run]
# The config needs [checkpoint] directory on a file system that all hosts share.
# flux: --job-name=elastictrain
# flux: --nodes=3
# flux: --exclusive
# flux: --time-limit=4h
# flux: --signal=SIGUSR1@2m

# Flux has no requeue: submit a job that ended with status 75 again, under the same name.
exec "${ELASTICTRAIN:-elastictrain}" run "$@" --name "${NAME:-flux}" --set checkpoint.resume=true --grace 60s
