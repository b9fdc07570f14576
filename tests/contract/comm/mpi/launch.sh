#!/usr/bin/env bash
# launch.sh LAUNCHER RANKS PROGRAM ARGUMENT…: runs the program at each rank on this machine, or prints why it cannot.
set -euo pipefail
launcher=$1
ranks=$2
shift 2

command -v "$launcher" >/dev/null || { echo "SKIPPED: there is no $launcher here; scripts/setup.sh test installs it"; exit 77; }
case "$launcher" in
  *openmpi)
    # A test may run as root in a container; ranks share cores.
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    recovery=()
    [[ "$*" != *--test-case=lost* && "$*" != *--rank-of-a-pool* ]] || recovery=(--enable-recovery)
    exec "$launcher" --oversubscribe "${recovery[@]}" --mca mpi_yield_when_idle 1 -n "$ranks" "$@"
    ;;
  *) exec "$launcher" -n "$ranks" "$@" ;;
esac
