#!/bin/sh
# Replaces srun, blaunch, qrsh and flux exec in tests. The arguments before the program are the tool's own, and every
# host is this machine.
echo "$(basename "$0") $*" >>"$FAKE_BATCH_LOG"
while [ "$1" != "$FAKE_BATCH_PROGRAM" ]; do
  case $1 in
    *denied1*)
      echo "srun: error: Unable to create step for job 42: Requested node configuration is not available" >&2
      exit "${SLURM_EXIT_ERROR:-1}"
      ;;
  esac
  shift
done
# As with the real tools, the agent is a process elsewhere, and its exit status becomes the tool's.
"$@"
