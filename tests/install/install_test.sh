#!/usr/bin/env bash
# Installs the build into a prefix of its own, moves it, and builds the user's program against it: once by the CMake
# package, once by pkg-config, once as the launcher's worker. Usage: install_test.sh BUILD_DIRECTORY
set -euo pipefail
build=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/first" >"$work/log" || { cat "$work/log"; exit 1; }
mv "$work/first" "$work/tree"
library=$(dirname "$(find "$work/tree" -name 'libelastictrain.so')")

echo "== files"
for file in bin/elastictrain include/elastictrain/session.hpp include/elastictrain/policy.h \
  share/doc/elastictrain/LICENSE share/doc/elastictrain/CHANGELOG.md; do
  test -e "$work/tree/$file" || { echo "missing: $file"; exit 1; }
done
if grep -rIl "$build" "$work/tree"; then
  echo "the files above name the build directory"
  exit 1
fi

echo "== one version"
version=$("$work/tree/bin/elastictrain" --version)
version=${version#elastictrain }
stated() {
  [ "$2" = "$version" ] || { echo "$1 states version $2, the binary $version"; exit 1; }
}
stated pkg-config "$(PKG_CONFIG_PATH=$library/pkgconfig pkg-config --modversion elastictrain)"
stated "the CMake package" "$(sed -n 's/^set(PACKAGE_VERSION "\(.*\)")$/\1/p' \
  "$library/cmake/elastictrain/elastictrain-config-version.cmake")"
stated CHANGELOG.md "$(sed -n 's/^## \([0-9][0-9.]*\).*/\1/p' "$work/tree/share/doc/elastictrain/CHANGELOG.md" | head -1)"

echo "== a host needs the C library and OpenSSL for the binary, and the library only the C and C++ libraries"
needed_by() {
  readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^(libc|libm|libdl|libpthread|librt|ld-linux.*)\.so' || true
}
beyond=$(needed_by "$work/tree/bin/elastictrain" | grep -vE '^lib(ssl|crypto)\.so' || true)
test -z "$beyond" || { echo "the binary needs $beyond"; exit 1; }
beyond=$(needed_by "$library/libelastictrain.so" | grep -vE '^(libstdc\+\+|libgcc_s)\.so' || true)
test -z "$beyond" || { echo "the library needs $beyond"; exit 1; }
for file in "$work/tree/bin/elastictrain" "$library/libelastictrain.so"; do
  if readelf -SW "$file" | grep -q '\.debug_info'; then echo "$file carries its debug information"; exit 1; fi
done

echo "== CMake package"
cmake -G Ninja -S "$here/user" -B "$work/user" -DCMAKE_PREFIX_PATH="$work/tree" -DCMAKE_BUILD_TYPE=Release >"$work/log" 2>&1 &&
  cmake --build "$work/user" >>"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$work/user/user"

echo "== pkg-config"
export PKG_CONFIG_PATH=$library/pkgconfig
# shellcheck disable=SC2046  # flags are words
${CXX:-c++} -std=c++20 "$here/user/main.cc" -o "$work/by-pkg-config" $(pkg-config --cflags --libs elastictrain) \
  -Wl,-rpath,"$library"
"$work/by-pkg-config"

echo "== the installed binary runs it with two workers"
ELASTICTRAIN_STATE_DIR=$work/state "$work/tree/bin/elastictrain" run -n 2 --name install-test -- "$work/by-pkg-config"
echo "installed tree is usable"
