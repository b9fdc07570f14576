#!/usr/bin/env bash
# Builds the Python wheel of this machine's architecture: the package elastictrain with the binary and the library.
# Usage: scripts/wheel.sh [DIRECTORY]      (default: build/wheels)
# The wheel's platform tag is the oldest glibc that its programs run with, by the symbols that they use.
set -euo pipefail
case "${1:-}" in
-h | --help) exec sed -n '2,4s/^# //p' "$0" ;;
-*)
  echo "wheel.sh: unknown flag $1; scripts/wheel.sh --help" >&2
  exit 64
  ;;
esac
cd "$(dirname "$0")/.."
target=${1:-build/wheels}
environment=build/wheel-tools
# shellcheck source=scripts/release/tree.sh
. scripts/release/tree.sh

glibc_of() {
  objdump -T "$@" | grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -1 | sed 's/.*\.//'
}

say_what_is_missing wheel.sh objdump=binutils python3=python3-venv || exit 69
make_folder wheel.sh "$target" || exit 73
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
if command -v ccache >/dev/null && [ -z "${CMAKE_CXX_COMPILER_LAUNCHER:-}" ]; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache
fi
# The name by which a release build calls the compiler, not Python's for it: what ccache holds of that is not compiled again.
export CC=${CC:-cc} CXX=${CXX:-c++}

[ -x $environment/bin/pip ] || python3 -m venv $environment
$environment/bin/pip wheel -q --no-deps -w "$unpacked" ./train/python
python3 -m zipfile -e "$unpacked"/elastictrain-*.whl "$unpacked/content"
minor=$(glibc_of "$unpacked"/content/elastictrain/bin/elastictrain "$unpacked"/content/elastictrain/lib/libelastictrain.so)
made=$(python3 -B scripts/release/wheel_file.py "$unpacked"/elastictrain-*.whl "$target" "$version" \
  "manylinux_2_${minor}_$(uname -m)")
ls -l "$made"
