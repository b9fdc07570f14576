# shellcheck shell=bash
# What release files say of the tree that they are made of. package.sh, wheel.sh and release.sh read this file in the tree's
# root. Afterwards `version` is the tree's version, with +dirty if it is not that of a commit, and what is packed depends
# neither on the time nor on the user's umask, language or time zone.
umask 022
export LC_ALL=C.UTF-8 TZ=UTC

version=$(sed -n 's/^project(elastictrain VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
commit=
if [ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$(pwd -P)" ]; then
  commit=$(git rev-parse HEAD)
  [ -z "$(git status --porcelain)" ] || version+=+dirty
fi
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
  if [ -n "$commit" ]; then SOURCE_DATE_EPOCH=$(git log -1 --format=%ct); else SOURCE_DATE_EPOCH=$(stat -c %Y CMakeLists.txt); fi
fi
export SOURCE_DATE_EPOCH

# say_what_is_missing SCRIPT TOOL=PACKAGE…: whether all are there; otherwise one sentence names the packages to install.
say_what_is_missing() {
  local script=$1 pair packages=() tools=()
  shift
  for pair in "$@"; do
    command -v "${pair%%=*}" >/dev/null && continue
    tools+=("${pair%%=*}")
    packages+=("${pair#*=}")
  done
  [ "${#tools[@]}" != 0 ] || return 0
  echo "$script: there is no ${tools[*]}; please install ${packages[*]}" >&2
  return 1
}

# make_folder SCRIPT DIRECTORY: whether files can be written into it.
make_folder() {
  mkdir -p "$2" 2>/dev/null && [ -w "$2" ] && return 0
  echo "$1: no files can be written into $2" >&2
  return 1
}
