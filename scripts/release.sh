#!/usr/bin/env bash
# Makes what a release page holds: the Python wheel, the Debian packages, a bill of materials (SPDX) and SHA256SUMS.
# Usage: scripts/release.sh [DIRECTORY]             (default: build/release-files, where scripts/quickstart.sh looks)
#        scripts/release.sh --check [DIRECTORY]     makes them, and again by a build of its own in another folder, without
#                                                   what ccache holds; fails unless all files are the same bytes
# Needs dpkg-dev, file, binutils, ninja and PyPI. A tree that is not that of a commit makes files of a version with +dirty.
set -euo pipefail
check=
case "${1:-}" in
-h | --help) exec sed -n '2,6s/^# //p' "$0" ;;
--check)
  check=yes
  shift
  ;;
-*)
  echo "release.sh: unknown flag $1; scripts/release.sh --help" >&2
  exit 64
  ;;
esac
cd "$(dirname "$0")/.."
target=${1:-build/release-files}
# shellcheck source=scripts/release/tree.sh
. scripts/release/tree.sh

say_what_is_missing release.sh dpkg-shlibdeps=dpkg-dev file=file objdump=binutils ninja=ninja-build python3=python3-venv ||
  exit 69
make_folder release.sh "$target" || exit 73
if [[ $version == *+dirty ]]; then
  echo "release.sh: the tree has changes that are in no commit; the files are of version $version" >&2
  [ -z "$check" ] || { echo "release.sh: --check compares two builds of a commit" >&2; exit 65; }
elif [ -z "$commit" ]; then
  echo "release.sh: this is no checkout of git; the files name no commit" >&2
  [ -z "$check" ] || { echo "release.sh: --check compares two builds of a commit" >&2; exit 65; }
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

make_files() {
  local sbom
  sbom=elastictrain-$version-$(uname -m).spdx.json
  mkdir "$work/files"
  scripts/package.sh "$work/files"
  scripts/wheel.sh "$work/files"
  python3 -B scripts/release/sbom.py --version "$version" --commit "$commit" --build build/release --wheel-build build/wheel \
    "$work"/files/* >"$work/$sbom"
  build/wheel-tools/bin/pip install -q spdx-tools
  build/wheel-tools/bin/pyspdxtools -i "$work/$sbom" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
  mv "$work/$sbom" "$work/files/"
  (cd "$work/files" && sha256sum -- * >"$work/SHA256SUMS")
}

# What an earlier call made goes; other files in the directory stay.
replace_files() {
  if [ -f "$target/SHA256SUMS" ]; then
    sed -n 's,^[0-9a-f]\{64\}  \([^/]*\)$,\1,p' "$target/SHA256SUMS" | (cd "$target" && xargs -r -d '\n' rm -f --)
  fi
  rm -f "$target/SHA256SUMS"
  mv "$work"/files/* "$target/"
  mv "$work/SHA256SUMS" "$target/"
  chmod 644 "$target/SHA256SUMS"
}

# Everything that should not matter is another: the folder, the user's settings, the order in which a file system lists files.
check_files() {
  local other=$work/a/folder/with/a/longer/name/tree differing
  mkdir -p "$(dirname "$other")" "$work/ccache"
  (
    umask 077
    unset SOURCE_DATE_EPOCH CCACHE_BASEDIR
    export CCACHE_DIR=$work/ccache TZ=Pacific/Kiritimati LC_ALL=C
    git clone -q "file://$PWD" "$other"
    git -C "$other" checkout -q "$commit"
    "$other/scripts/release.sh" "$other/build/release-files"
  )
  differing=$(diff -rq "$target" "$other/build/release-files" | grep -v "^Only in $target" || true)
  if [ -n "$differing" ]; then
    trap - EXIT
    echo "$differing"
    echo "release.sh: two builds of $commit differ; diffoscope shows how. The second one is kept: $other" >&2
    exit 1
  fi
  echo "release.sh: two builds in two folders are the same bytes: $(wc -l <"$target/SHA256SUMS") files"
}

make_files
replace_files
cat "$target/SHA256SUMS"
[ -z "$check" ] || check_files
