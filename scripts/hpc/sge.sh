#!/bin/bash
# A training job that yields and is resumed: qsub -v CONFIG=/path/to/config.toml -pe PE 24 sge.sh
# The config needs [checkpoint] directory on a file system that all hosts share.
#$ -N elastictrain
#$ -cwd
#$ -r y
# USR1 is sent before a suspension and at the soft time limit: a notice. USR2 is sent before a kill: qdel, or h_rt.
#$ -notify
#$ -l s_rt=03:57:00,h_rt=04:00:00

notice=
trap 'notice=1; kill -TERM $!' USR1
trap 'kill -TERM $!' USR2 TERM
"${ELASTICTRAIN:-elastictrain}" run "$CONFIG" --name "sge-$JOB_ID" --set checkpoint.resume=true --grace 60s &
run=$!

# A trap interrupts wait; the status is valid once the run has exited.
while true; do
  wait "$run"
  status=$?
  kill -0 "$run" 2>/dev/null || break
done

# 99 puts the job back into the queue. Without a notice its user wants it to end.
[ "$status" = 75 ] && [ -n "$notice" ] && exit 99
exit "$status"
