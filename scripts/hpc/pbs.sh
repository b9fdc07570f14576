#!/bin/bash
# A training job that yields and is resumed: qsub -v CONFIG=/path/to/config.toml pbs.sh
# The config needs [checkpoint] directory on a file system that all hosts share.
#PBS -N elastictrain
#PBS -l select=3:ncpus=8:mpiprocs=8
#PBS -l walltime=04:00:00
#PBS -r y

cd "$PBS_O_WORKDIR" || exit 1
# PBS sends TERM before it kills the job. TERM is a notice to elastictrain, and so are 120 s before the time limit.
exec "${ELASTICTRAIN:-elastictrain}" run "$CONFIG" --name "pbs-${PBS_JOBID%%.*}" --set checkpoint.resume=true \
  --grace 60s --time-limit "${TIME_LIMIT:-14280s}"
