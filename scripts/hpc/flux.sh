#!/bin/bash
# A training job that gives way: flux batch flux.sh CONFIG.toml [flags of elastictrain run]
# The config needs [checkpoint] directory on a file system that all hosts share.
# flux: --job-name=elastictrain
# flux: --nodes=3
# flux: --exclusive
# flux: --time-limit=4h
# flux: --signal=SIGUSR1@2m

# Flux has no requeue: a job that ended with 75 is submitted again, under the same name.
exec "${ELASTICTRAIN:-elastictrain}" run "$@" --name "${NAME:-flux}" --set checkpoint.resume=true --grace 60s
