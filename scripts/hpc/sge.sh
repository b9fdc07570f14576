#!/bin/bash
# A training job that yields and is resumed: qsub -v CONFIG=/path/to/config.toml -pe PE 24 sge.sh
# The config needs [checkpoint] directory on a file system that all hosts share.
#$ -N elastictrain
#$ -cwd
#$ -r y
# USR2 is sent before a kill, USR1 before a suspension.
#$ -notify

"${ELASTICTRAIN:-elastictrain}" run "$CONFIG" --name "sge-$JOB_ID" --set checkpoint.resume=true --grace 60s &
run=$!
trap 'kill -TERM $run' USR1 USR2 TERM

# A trap interrupts wait; the status is valid once the run has exited.
while true; do
  wait "$run"
  status=$?
  kill -0 "$run" 2>/dev/null || break
done

# 99 puts the job back into the queue.
[ "$status" = 75 ] && exit 99
exit "$status"
