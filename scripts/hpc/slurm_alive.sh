#!/bin/bash
# hosts.alive for Slurm: prints those of the helper jobs that run and are not about to be preempted.
set -euo pipefail

# A single job that is not known any more would be an error of squeue --jobs.
squeue --noheader --me --states=RUNNING --Format=JobID:20,PreemptTime:30 |
  awk -v asked=" $ELASTICTRAIN_HOST_JOBS " 'index(asked, " " $1 " ") && ($2 == "N/A" || $2 == "") { print $1 }'
