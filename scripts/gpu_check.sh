#!/usr/bin/env bash
# Checks what needs a GPU, as much as fits into its time, and prints a verdict and a table (Markdown).
# Usage: scripts/gpu_check.sh [--quick] [--only PART[,PART…]] [--stories FILTER] [--budget S] [--standin] [--out FILE]
#                             [--logs FOLDER]
#        scripts/gpu_check.sh --pack [FILE]     builds here and packs all for a machine without packages or network
#        scripts/gpu_check.sh --list            names the parts, the most valuable ones first
#   Uses build/gpu_check/ if a package was unpacked there (tar xzf FILE -C build), otherwise builds.
#   --quick    fewer repetitions
#   --stories  the stories of changes and losses whose names match, as doctest's --test-case
#   --budget   seconds for all parts together (540, without a build); what did not fit is said
#   --logs     keeps whole outputs in that folder
#   --standin  against the stand-ins for CUDA and NCCL: tests this script, not a GPU
# NCCL, NVRTC and cuBLAS are searched on the loader's path and in python3's nvidia packages.
set -euo pipefail
cd "$(dirname "$0")/.."

programs=(cli/elastictrain tests/gpu/nccl_rank tests/gpu/gpu_overhead tests/unit/train_session/unit_train_session
  tests/standin/et_nccl_id)
standins=(cuda nvrtc cublas nccl)
library=train/libelastictrain.so # of PyTorch programs

usage() {
  sed -n '2,15s/^# \{0,1\}//p' "$0"
}

build() {
  local target targets=(elastictrain_shared)
  for target in "${programs[@]}"; do targets+=("${target##*/}"); done
  for target in "${standins[@]}"; do targets+=("et_standin_$target"); done
  scripts/setup.sh build >&2
  scripts/build.sh release "${targets[@]}" >&2
}

# Excludes the C library and the dynamic loader, which every machine has.
libraries_of() {
  ldd "$@" | awk '$3 ~ /^\// {print $3}' | sort -u | grep -Ev '/(libc|libm|libdl|libpthread|librt|ld-linux[^/]*)\.so'
}

pack() {
  local file=$1 folder program
  build
  folder=$(mktemp -d)
  # shellcheck disable=SC2064  # expands now: the variable ends with the function
  trap "rm -rf '$folder'" EXIT
  for program in "${programs[@]}"; do
    install -D -s "build/release/$program" "$folder/gpu_check/$program"
  done
  install -D -s "build/release/$library" "$folder/gpu_check/$library"
  install -D -t "$folder/gpu_check/tests/standin" build/release/tests/standin/libet_standin_*.so
  # shellcheck disable=SC2046  # a list of paths
  install -D -t "$folder/gpu_check/lib" $(libraries_of "build/release/$library" "${programs[@]/#/build/release/}")
  tar czf "$file" -C "$folder" gpu_check
  echo "gpu_check.sh: packed $(du -h "$file" | cut -f1) into $file; on the other machine: tar xzf FILE -C build"
}

# Folders of the libraries in Python's nvidia packages.
python_libraries() {
  python3 - <<'PYTHON' 2>/dev/null || true
import glob, os, site
folders = [f for s in site.getsitepackages() for f in glob.glob(os.path.join(s, "nvidia", "*", "lib"))]
print(":".join(folders))
PYTHON
}

# A package that was unpacked elsewhere, or in part, must not look like a machine that can build.
refuse() {
  echo "gpu_check.sh: $1; unpack the package with: tar xzf gpu_check.tar.gz -C build" >&2
  exit 69
}

check_package() {
  local program
  for program in "${programs[@]}" "$library"; do
    [ -x "build/gpu_check/$program" ] || refuse "build/gpu_check has no $program"
  done
  LD_LIBRARY_PATH=build/gpu_check/lib build/gpu_check/cli/elastictrain --version >/dev/null 2>&1 ||
    refuse "build/gpu_check/cli/elastictrain does not run here"
}

check_build_tools() {
  local found
  for found in gpu_check ../gpu_check ../build/gpu_check "$HOME/gpu_check"; do
    [ ! -x "$found/cli/elastictrain" ] || refuse "a package is in $found, not in build/gpu_check"
  done
  command -v cmake >/dev/null || refuse "no build/gpu_check, and no cmake to build it"
}

words=()
out=
standin=no
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) usage && exit 0 ;;
    --pack) pack "${2:-build/gpu_check.tar.gz}" && exit 0 ;;
    --list) PYTHONDONTWRITEBYTECODE=1 exec python3 scripts/bench/gpu_check.py --list ;;
    --quick) words+=(--quick) ;;
    --only | --stories | --budget | --logs) words+=("$1" "${2:?$1 needs a value}") && shift ;;
    --standin) standin=yes ;;
    --out) out=${2:?--out needs a file} && shift ;;
    *) usage >&2 && exit 64 ;;
  esac
  shift
done

if [ -d build/gpu_check ]; then
  check_package
  folder=$PWD/build/gpu_check
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder/lib
else
  check_build_tools
  build
  folder=$PWD/build/release
fi
if [ "$standin" = yes ]; then
  export GPU_CHECK_BYTES=400000 GPU_CHECK_STANDIN=1
  words+=(--standin)
  for name in "${standins[@]}"; do
    export "ELASTICTRAIN_${name^^}_LIBRARY=$folder/tests/standin/libet_standin_$name.so"
  done
else
  more=$(python_libraries)
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$more
fi
export ELASTICTRAIN_BUILD=$folder ELASTICTRAIN_BINARY=$folder/cli/elastictrain PYTHONDONTWRITEBYTECODE=1
if [ -n "$out" ]; then
  python3 scripts/bench/gpu_check.py "${words[@]}" | tee "$out"
else
  exec python3 scripts/bench/gpu_check.py "${words[@]}"
fi
