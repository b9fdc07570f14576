#!/usr/bin/env bash
# Builds the fuzz targets with clang (libFuzzer, AddressSanitizer, UBSan) and runs each for SECONDS.
# Usage: scripts/fuzz.sh [--keep] [SECONDS] [TARGET…]     (default: 60 s, every target)
#   --keep   adds inputs that reach new code to tests/fuzz/corpus (small ones only)
# Inputs that reach new code stay in build/fuzz/found, and the next call starts from them. A crash input is saved
# as build/fuzz/crash-TARGET-…; copy it to tests/fuzz/corpus/TARGET with the fix.
set -euo pipefail
cd "$(dirname "$0")/.."

keep=
case "${1:-}" in
  -h | --help)
    sed -n '2,6s/^# //p' "$0"
    exit 0
    ;;
  --keep)
    keep=1
    shift
    ;;
esac
seconds=${1:-60}
shift || true
build=${ELASTICTRAIN_FUZZ_BUILD:-build/fuzz}
mkdir -p "$build"
max_len=8192

clang=$(command -v clang++ || command -v clang++-14 || true)
if [ -z "$clang" ]; then
  scripts/setup.sh fuzz
  clang=$(command -v clang++ || command -v clang++-14 || true)
fi
if [ -z "$clang" ]; then
  echo "SKIPPED: fuzzing needs clang with libFuzzer (scripts/setup.sh fuzz)"
  exit 0
fi

launcher=()
command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g" \
  -DCMAKE_C_COMPILER="${clang/clang++/clang}" -DCMAKE_CXX_COMPILER="$clang" -DELASTICTRAIN_BENCHMARKS=OFF \
  "-DELASTICTRAIN_SANITIZE=fuzzer-no-link,address,undefined" "${launcher[@]}" >"$build/configure.log" 2>&1 || {
  cat "$build/configure.log" >&2
  exit 1
}
targets=("$@")
if [ ${#targets[@]} = 0 ]; then
  mapfile -t targets < <(ls tests/fuzz/corpus)
fi
nice -n 5 cmake --build "$build" --target "${targets[@]/#/fuzz_}"

export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
failed=()
for target in "${targets[@]}"; do
  found=$build/found/$target
  mkdir -p "$found"
  log=$build/$target.log
  if nice -n 5 "$build/tests/fuzz/fuzz_$target" "$found" "tests/fuzz/corpus/$target" \
    "-max_total_time=$seconds" "-max_len=$max_len" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    "-artifact_prefix=$build/crash-$target-" >"$log" 2>&1; then
    echo "$target: $(grep -o 'number_of_executed_units: *[0-9]*' "$log" | tr -dc 0-9) inputs," \
      "$(grep -o 'cov: [0-9]*' "$log" | tail -n 1 | tr -dc 0-9) edges, no report"
  else
    failed+=("$target")
    echo "$target: FAILED, see $log"
    grep -E -m 3 'ERROR|SUMMARY|runtime error|internal error|Test unit written' "$log" || tail -n 5 "$log"
  fi
  if [ -n "$keep" ]; then
    "$build/tests/fuzz/fuzz_$target" -merge=1 -max_len=512 "-artifact_prefix=$build/crash-$target-" "tests/fuzz/corpus/$target" "$found" >>"$log" 2>&1
  fi
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "failed: ${failed[*]}"
  exit 1
fi
