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

for tool in dpkg-shlibdeps file; do
  command -v "$tool" >/dev/null && continue
  echo "package.sh: there is no $tool; please install dpkg-dev and file" >&2
  exit 69
done
if [ -z "$build" ]; then
  build=build/release
  scripts/build.sh release elastictrain elastictrain_shared
fi
mkdir -p "$target"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cpack -G DEB --config "$build/CPackConfig.cmake" -B "$work" >"$work/log" || { cat "$work/log" >&2; exit 1; }
mv "$work"/*.deb "$target/"
ls -l "$target"/*.deb
