#!/usr/bin/env bash
# Builds the Python wheel of this machine's architecture: the package elastictrain with the binary and the library.
# Usage: scripts/wheel.sh [DIRECTORY]      (default: build/wheels)
# The wheel's platform tag is the oldest glibc that its programs run with, by the symbols that they use.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:-build/wheels}
tools=build/wheel-tools
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT

glibc_of() {
  objdump -T "$@" | grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -1 | sed 's/.*\.//'
}

[ -x $tools/bin/pip ] || python3 -m venv $tools
$tools/bin/pip install -q wheel
$tools/bin/pip wheel -q --no-deps -w "$unpacked" ./train/python
python3 -m zipfile -e "$unpacked"/elastictrain-*.whl "$unpacked/content"
minor=$(glibc_of "$unpacked"/content/elastictrain/bin/elastictrain "$unpacked"/content/elastictrain/lib/libelastictrain.so)
mkdir -p "$target"
$tools/bin/python -m wheel tags --remove --platform-tag "manylinux_2_${minor}_$(uname -m)" "$unpacked"/elastictrain-*.whl >/dev/null
mv "$unpacked"/elastictrain-*.whl "$target/"
ls -l "$target"/elastictrain-*.whl
