#!/bin/bash
# A training job that yields and is resumed: sbatch slurm.sh CONFIG.toml [flags of elastictrain run]
# The config needs [checkpoint] directory on a file system that all hosts share.
#SBATCH --job-name=elastictrain
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --time=04:00:00
# Slurm may send the notice up to one minute earlier than requested.
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
# The job continues when a node fails.
#SBATCH --no-kill

name="slurm-$SLURM_JOB_ID"
"${ELASTICTRAIN:-elastictrain}" run "$@" --name "$name" --set checkpoint.resume=true &
run=$!
trap 'kill -USR1 $run' USR1
trap 'kill -TERM $run' TERM
trap : CONT

# A trap interrupts wait; the status is valid once the run has exited.
status=0
while true; do
  wait "$run"
  status=$?
  kill -0 "$run" 2>/dev/null || break
done

# scancel sends TERM as the time limit and a preemption do, but its user wants the job to end.
cancelled() {
  local job
  job=" $(scontrol show job --oneliner "$SLURM_JOB_ID") "
  case "$job" in
    *" Reason=TimeLimit "*) return 1 ;;
    *" JobState=CANCELLED "* | *" JobState=COMPLETING "*) [[ $job != *" PreemptTime="[0-9]* ]] ;;
    *) return 1 ;;
  esac
}

# 75: the state is saved, start again later. Other statuses end the job.
if [ "$status" = 75 ] && ! cancelled; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
