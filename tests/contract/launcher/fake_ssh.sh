#!/bin/sh
# Replaces ssh in tests: the same command line, but every host is this machine with a home directory of its own below
# $FAKE_SSH_DIR. The host's name selects further behaviour.
while [ "$1" != "--" ]; do shift; done
host=$2
shift 2
mkdir -p "$FAKE_SSH_DIR/$host"
echo "$host" >>"$FAKE_SSH_DIR/log"
case $host in
  denied*)
    echo "Warning: Permanently added the key" >&2
    echo "$host: Permission denied (publickey)." >&2
    exit 255
    ;;
  nologin*)
    echo "This account is currently not available."
    exit 1
    ;;
  menu*)
    echo "no such choice: $(tr -d '\0' | tail -c 300)"
    exit 3
    ;;
  sealed*)
    case $* in *umask*) echo "new.1: Permission denied" >&2; exit 1 ;; esac  # nothing may be executed in its home
    ;;
  hang*)
    echo "still trying" >&2
    sleep 1000 &
    wait
    ;;
  mute*) sleep 1000 & wait ;;
  deaf*)
    trap '' TERM
    while :; do sleep 0.05; done
    ;;
  gate*) while [ ! -e "$FAKE_SSH_DIR/gate" ]; do sleep 0.02; done ;;
  cut*) case $* in *umask*) head -c 1000 | HOME="$FAKE_SSH_DIR/$host" sh -c "$*"; exit ;; esac ;;
  apart*)
    # As with a real ssh, the agent is not our child process: only its streams are connected to us.
    exec 3<&0
    HOME="$FAKE_SSH_DIR/$host" setsid sh -c "$*" <&3 3<&- &
    exec 3<&-
    wait $!
    exit
    ;;
  breaks*)
    exec 3<&0
    HOME="$FAKE_SSH_DIR/$host" setsid sh -c "$*" <&3 3<&- &
    exec 3<&-
    while [ ! -e "$FAKE_SSH_DIR/break" ]; do sleep 0.02; done
    echo "Connection to $host closed by remote host." >&2
    exit 255
    ;;
  chatty*) echo "Welcome to $host, have a nice day" ;;
esac
HOME="$FAKE_SSH_DIR/$host" exec sh -c "$*"
