#!/bin/sh
# A client of a store whose places are dir://DIRECTORY: as slow to list and as quick to end as others may be, and what it
# was sent when its standard input ended counts as the whole file, as with those of object stores.
# CLIENT_FAULT: fail, hang, deaf (reads nothing), rubbish (lists it), half (gets it), away (in the middle of it).
set -u
path=${2#dir://}
case ${CLIENT_FAULT:-}:$1 in
fail:*) echo "An error occurred (AccessDenied): no credentials" >&2; exit 3 ;;
hang:*) exec sleep 600 ;;
deaf:put) exit 5 ;;
rubbish:list) echo "2026-01-01 Total: 3"; exit ;;
half:get) head -c 50 "$path"; exit ;;
away:get) head -c 50 "$path"; echo "connection reset" >&2; exit 2 ;;
esac
case $1 in
list) [ ! -d "$path" ] || find "$path" -ignore_readdir_race -maxdepth 1 -type f -printf '%s %f\n' ;;
get) exec cat "$path" ;;
put)
  mkdir -p "$(dirname "$path")"
  cat >"$path.part.$$" || { rm -f "$path.part.$$"; echo "cannot write $path" >&2; exit 1; }
  mv "$path.part.$$" "$path" ;;
remove) rm -f "$path" ;;
*) exit 64 ;;
esac
