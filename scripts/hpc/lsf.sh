#!/bin/bash
# A training job that yields and is resumed: CONFIG=/path/to/config.toml bsub < lsf.sh
# The config needs [checkpoint] directory on a file system that all hosts share.
#BSUB -J elastictrain
#BSUB -n 24
#BSUB -R span[ptile=8]
#BSUB -W 4:00
# USR1 two minutes before the end is a notice. The job then exits with 75, which puts it back into the queue.
#BSUB -wa USR1
#BSUB -wt 2
#BSUB -r
#BSUB -Q 75

notice=
trap 'notice=1; kill -USR1 $!' USR1
trap 'kill -TERM $!' INT TERM
"${ELASTICTRAIN:-elastictrain}" run "$CONFIG" --name "lsf-$LSB_JOBID" --set checkpoint.resume=true --grace 60s &
run=$!

# A trap interrupts wait; the status is valid once the run has exited.
while true; do
  wait "$run"
  status=$?
  kill -0 "$run" 2>/dev/null || break
done

# bkill sends INT, then TERM: without a notice its user wants the job to end, and no other place in the queue.
[ "$status" = 75 ] && [ -z "$notice" ] && exit 143
exit "$status"
