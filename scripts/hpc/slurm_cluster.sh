#!/bin/bash
# A cluster of many runs inside one job: sbatch slurm_cluster.sh CLUSTER.toml
# The file names no hosts: those of the job are shared. Jobs come from [[job]] in it, and from `elastictrain submit` on the first
# node of the job (srun --overlap --jobid=ID --nodes=1 --pty bash). The job ends when nothing was queued for IDLE_S (300) seconds.
# With hosts.expand = "…/slurm_expand.sh" and its companions in the file it grows by helper jobs (README.md beside this file).
# Runs with [checkpoint] directory leave with a checkpoint before the job is preempted or its time is up, and go on after a requeue.
#SBATCH --job-name=elastictrain-cluster
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --time=04:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --no-kill

elastictrain=${ELASTICTRAIN:-elastictrain}
name=$(sed -n '/^\[/q; s/^name *= *"\([^"]*\)".*/\1/p' "$1") # not those of its jobs
export ELASTICTRAIN_CLUSTER=${ELASTICTRAIN_CLUSTER:-$name}
"$elastictrain" cluster "$@" &
cluster=$!
notice=
trap 'notice=1' USR1 TERM
trap : CONT

busy() {
  "$elastictrain" queue --json 2>/dev/null | grep -qE '"phase":"(queued|starting|joined|lost|ending)"'
}

idle_since=$SECONDS
while [ -z "$notice" ] && kill -0 $cluster 2>/dev/null; do
  busy && idle_since=$SECONDS
  [ $((SECONDS - idle_since)) -lt "${IDLE_S:-300}" ] || break
  # A trap interrupts wait, not sleep.
  sleep 2 &
  wait $!
done

# The cluster process first: it would start again whatever leaves.
read -r -a runs < <(cat /proc/$cluster/task/*/children | tr '\n' ' ')
kill -TERM $cluster 2>/dev/null
wait $cluster
status=$?
[ -n "$notice" ] || exit $status
for run in "${runs[@]}"; do kill -TERM "$run" 2>/dev/null; done
for run in "${runs[@]}"; do
  while kill -0 "$run" 2>/dev/null; do sleep 0.2; done
done

# As in slurm.sh: Slurm runs a copy of the script, which can read no other file of this folder.
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
cancelled || scontrol requeue "$SLURM_JOB_ID"
