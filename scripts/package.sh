#!/usr/bin/env bash
# Makes the Debian packages: elastictrain, libelastictrain, libelastictrain-dev and elastictrain-dbgsym.
# Usage: scripts/package.sh [DIRECTORY [BUILD]]      (default: build/packages; BUILD: a finished build to take instead)
# They install on the system that they were made on and on newer ones. Needs dpkg-dev and file.
set -euo pipefail
case "${1:-}" in
-h | --help) exec sed -n '2,4s/^# //p' "$0" ;;
-*)
  echo "package.sh: unknown flag $1; scripts/package.sh --help" >&2
  exit 64
  ;;
esac
cd "$(dirname "$0")/.."
target=${1:-build/packages}
build=${2:-}
# shellcheck source=scripts/release/tree.sh
. scripts/release/tree.sh

say_what_is_missing package.sh dpkg-shlibdeps=dpkg-dev file=file || exit 69
make_folder package.sh "$target" || exit 73
if [ -z "$build" ]; then
  build=build/release
  scripts/build.sh release elastictrain elastictrain_shared
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# set_size PACKAGE: the size of what it installs as dpkg-gencontrol counts it. cpack adds what its file system takes for folders.
set_size() {
  local size data
  size=$(dpkg-deb --fsys-tarfile "$1" | tar -tv | awk '{ kib += /^-/ ? int(($3 + 1023) / 1024) : 1 } END { print kib }')
  data=$(ar t "$1" | grep '^data\.')
  rm -rf "$work/parts"
  mkdir -p "$work/parts"
  dpkg-deb --control "$1" "$work/parts/control"
  sed -i "s/^Installed-Size: .*/Installed-Size: $size/" "$work/parts/control/control"
  tar -C "$work/parts/control" --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
    --mtime="@$SOURCE_DATE_EPOCH" -c . | gzip -9n >"$work/parts/control.tar.gz"
  (cd "$work/parts" && ar x "$1" debian-binary "$data" && rm "$1" && ar rcDS "$1" debian-binary control.tar.gz "$data")
}

cpack -G DEB --config "$build/CPackConfig.cmake" -B "$work" -D CPACK_PACKAGE_VERSION="$version" \
  -D CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS="libelastictrain (= $version)" >"$work/log" || { cat "$work/log" >&2; exit 1; }
for package in "$work"/*.deb; do set_size "$package"; done
chmod 644 "$work"/*.deb
mv "$work"/*.deb "$target/"
ls -l "$target"/*.deb
