#!/usr/bin/env bash
# Installs a wheel into an empty virtual environment and trains with it, as on a machine without a compiler: the PATH holds
# that environment alone, no package index is asked, and the programs may need no library but the C library's.
# Usage: scripts/check_wheel.sh [--numpy] [WHEEL]      (default: the newest of build/wheels)
#   --numpy   also installs numpy from the package index and trains with it
set -euo pipefail
cd "$(dirname "$0")/.."
numpy=
if [ "${1:-}" = --numpy ]; then numpy=yes; shift; fi
wheel=${1:-$(find build/wheels -name 'elastictrain-*.whl' -printf '%T@ %p\n' 2>/dev/null | sort -n | tail -1 | cut -d' ' -f2-)}
[ -f "$wheel" ] || { echo "check_wheel.sh: there is no wheel; scripts/wheel.sh builds one" >&2; exit 66; }
bare=$(mktemp -d)
trap 'rm -rf "$bare"' EXIT

# Where there is no objdump, as on a bare machine, that the programs run there shows the same.
foreign_libraries() {
  command -v objdump >/dev/null || { echo "check_wheel.sh: no objdump here; the libraries are not listed" >&2; return 0; }
  objdump -p "$@" | awk '$1 == "NEEDED" { print $2 }' | sort -u |
    grep -vE '^(libc|libm|libdl|librt|libpthread|libresolv)\.so|^ld-linux' || true
}

in_environment() {
  env -i HOME="$bare" PATH="$bare/env/bin" "$@"
}

python3 -m venv "$bare/env"
"$bare/env/bin/pip" install -q --no-index --no-deps "$wheel"
[ -z "$numpy" ] || "$bare/env/bin/pip" install -q numpy
cp tests/system/{python,numpy}_program.py "$bare/"
foreign=$(foreign_libraries "$bare"/env/lib/python3*/site-packages/elastictrain/{bin/elastictrain,lib/libelastictrain.so})
[ -z "$foreign" ] || { echo "check_wheel.sh: the wheel's programs need $foreign, which a bare machine lacks" >&2; exit 1; }
cd "$bare"
in_environment elastictrain --version
in_environment python -m elastictrain --version
in_environment python -c 'import elastictrain; elastictrain.Session'
in_environment elastictrain run -n 1:2 --start 2 -- python "$bare/python_program.py"
[ -z "$numpy" ] || in_environment elastictrain run -n 1:2 --start 2 -- python "$bare/numpy_program.py"
echo "check_wheel.sh: $(basename "$wheel") works in an empty environment"
