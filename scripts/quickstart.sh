#!/usr/bin/env bash
# From a fresh clone to elastic training: takes a binary of this tree's version, or installs what is missing and builds one,
# and trains on generated data with 2 workers that become 4, of which one is then replaced, while training goes on. Ends
# with the run's summary, and with what to try next.
# Usage: scripts/quickstart.sh [--build]      (--build: builds this tree, whatever binary there is)
# It takes the first of these that runs here and has the version of this tree:
#   1. the binary that ELASTICTRAIN_BINARY names
#   2. elastictrain in the PATH, if it is not a build of this tree, which may be older than its sources
#   3. a wheel or a Debian package in build/release-files, where scripts/release.sh puts them and a download of a
#      release belongs, with SHA256SUMS. Nothing is installed: it is unpacked into build/unpacked
set -euo pipefail
cd "$(dirname "$0")/.."

build=
case "${1:-}" in
  -h | --help)
    sed -n '2,10s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
  --build)
    build=yes
    ;;
  ?*)
    echo "quickstart.sh: unknown argument $1; scripts/quickstart.sh --help" >&2
    exit 64
    ;;
esac
files=build/release-files
version=$(sed -n 's/^project(elastictrain VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
elastictrain=
training="2 of 2"

# take BINARY WHAT: takes it if it runs here and is of this tree's version; otherwise says what it is instead.
take() {
  local said status=0
  said=$(timeout 20 bash -c '"$0" --version' "$1" 2>&1 </dev/null) || status=$?
  said=${said##*$'\n'}
  if [ "$status" != 0 ]; then
    echo "not taken: $2: it does not run here: ${said:-status $status}"
    return 1
  fi
  if [ "$said" != "elastictrain $version" ]; then
    echo "not taken: $2: it is $said, this tree is elastictrain $version"
    return 1
  fi
  elastictrain=$1
  echo "== 1 of 2: nothing is built: $2 has this tree's version, $version; --build builds this tree"
}

take_named() {
  [ -n "${ELASTICTRAIN_BINARY:-}" ] && take "$ELASTICTRAIN_BINARY" "ELASTICTRAIN_BINARY, $ELASTICTRAIN_BINARY"
}

take_installed() {
  local found
  found=$(command -v elastictrain) || return 1
  case "$(readlink -f "$found")" in
    "$(pwd -P)"/build/*) return 1 ;;
  esac
  take "$found" "$found, of the PATH"
}

# Whether SHA256SUMS lists the file. A file that it lists with another sum is damaged or not what was released: the end.
is_listed() {
  local line
  line=$(grep -F "  ${1##*/}" "$files/SHA256SUMS" 2>/dev/null | grep -xE '[0-9a-f]{64}  .*' |
    awk -v name="${1##*/}" 'substr($0, 67) == name') || true
  if [ -z "$line" ]; then
    echo "not taken: $1: no $files/SHA256SUMS lists it"
    return 1
  fi
  (cd "$files" && echo "$line" | sha256sum --check --status) && return 0
  echo "quickstart.sh: $1 is not the file that $files/SHA256SUMS lists; download it again, or use --build" >&2
  exit 65
}

# Prints the path of the binary that was unpacked from a wheel or a package.
unpack() {
  local folder=build/unpacked/${1##*/}
  rm -rf "$folder"
  mkdir -p "$folder"
  if [[ $1 == *.deb ]]; then
    dpkg-deb -x "$1" "$folder" && folder=$folder/usr
  elif command -v python3 >/dev/null; then
    python3 -m zipfile -e "$1" "$folder" && folder=$folder/elastictrain
  else
    unzip -q "$1" -d "$folder" && folder=$folder/elastictrain
  fi >&2 && chmod +x "$folder/bin/elastictrain" && echo "$PWD/$folder/bin/elastictrain"
}

take_released() {
  local file binary
  for file in "$files"/elastictrain-*.whl "$files"/elastictrain_*.deb; do
    [ -f "$file" ] || continue
    case "${file##*/}" in
      "elastictrain-$version"-* | "elastictrain_${version}_"*) ;;
      *)
        echo "not taken: $file: it is of another version than this tree, $version"
        continue
        ;;
    esac
    is_listed "$file" || continue
    if ! binary=$(unpack "$file"); then
      echo "not taken: $file: it could not be unpacked"
    elif take "$binary" "the binary of $file"; then
      return 0
    fi
  done
  return 1
}

if [ -z "$build" ] && ! take_named && ! take_installed && ! take_released; then
  echo "no elastictrain $version that runs here is installed or in $files: this tree is built"
fi
if [ -z "$elastictrain" ]; then
  training="3 of 3"
  echo "== 1 of 3: packages"
  scripts/setup.sh build
  echo "== 2 of 3: build (the first one takes a few minutes: $(nproc) cores here)"
  scripts/build.sh release elastictrain
  elastictrain=$PWD/build/release/cli/elastictrain
fi
name=quickstart-$$

# The number of a key in the run's status; empty before the run exists. The newest checkpoint has a step of its own.
figure() {
  "$elastictrain" status "$name" --json 2>/dev/null | sed 's/"checkpoint": *{[^}]*}//' |
    grep -o "\"$1\": *[0-9][0-9]*" | head -n 1 | tr -dc 0-9
}

# wait_for KEY MINIMUM: waits until that number is reached, for at most one minute.
wait_for() {
  local value
  for _ in $(seq 600); do
    value=$(figure "$1" || true)
    [ "${value:-0}" -ge "$2" ] && return 0
    kill -0 "$run" 2>/dev/null || return 1
    sleep 0.1
  done
  echo "quickstart.sh: $1 did not reach $2 within a minute" >&2
  return 1
}

change() {
  echo "+ elastictrain $*"
  "$elastictrain" "$1" "$name" "${@:2}" || echo "quickstart.sh: '$1' was refused" >&2
}

next_steps() {
  cat <<END
== done. The binary is $elastictrain
Try next, with a second terminal for what follows \`run\`:
  export PATH="$(dirname "$elastictrain"):\$PATH"
  elastictrain run configs/quickstart.toml       # the same run, for you to change:
  elastictrain status --watch
  elastictrain resize 4
  elastictrain replace 1
  elastictrain run configs/optdigits.toml        # real data: handwritten digits, about 97 % accuracy
  elastictrain run -n 2 -- YOUR_PROGRAM          # README.md: how a program becomes elastic
END
}

echo "== $training: training with 2 workers, then 4, then with one replaced"
echo "+ elastictrain run configs/quickstart.toml --name $name"
"$elastictrain" run configs/quickstart.toml --name "$name" </dev/null &
run=$!
trap 'kill -INT "$run" 2>/dev/null || true' INT TERM

if wait_for step 100; then
  change resize 4
  if wait_for world_size 4 && wait_for step "$(($(figure step) + 200))"; then
    change replace 1
  fi
fi
status=0
wait "$run" || status=$?
[ "$status" != 0 ] || next_steps
exit "$status"
