#!/bin/bash
# A training job that yields and is resumed: CONFIG=/path/to/config.toml bsub < lsf.sh
# The config needs [checkpoint] directory on a file system that all hosts share.
#BSUB -J elastictrain
#BSUB -n 24
#BSUB -R span[ptile=8]
#BSUB -W 4:00
# USR1 two minutes before the end is a notice. The run then exits with 75, which puts the job back into the queue.
#BSUB -wa USR1
#BSUB -wt 2
#BSUB -r
#BSUB -Q 75

exec "${ELASTICTRAIN:-elastictrain}" run "$CONFIG" --name "lsf-$LSB_JOBID" --set checkpoint.resume=true --grace 60s
