#!/bin/sh
# Replaces `kubectl exec -i POD -- COMMAND…` in tests. Every pod is this machine with a home directory of its own below
# $FAKE_KUBECTL_DIR. As with the real one, the command is not our child process, it outlives us, its words reach it as they are, and
# our exit status is its own, or 1 for whatever went wrong here.
[ "$1 $2 $4" = "exec -i --" ] || { echo "error: unknown command line: $*" >&2; exit 1; }
pod=$3
shift 4
echo "$pod" >>"$FAKE_KUBECTL_DIR/log"
case $pod in
  gone*)
    echo "Error from server (NotFound): pods \"$pod\" not found" >&2
    exit 1
    ;;
  hang*) sleep 1000 & wait ;;
esac
home="$FAKE_KUBECTL_DIR/pods/$pod"
mkdir -p "$home"
exec 3<&0
HOME="$home" setsid "$@" <&3 3<&- &
exec 3<&-
wait $!
status=$?
[ $status = 0 ] || echo "command terminated with exit code $status" >&2
exit $status
