#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test. The last line says how many passed and how many failed. Without
# root or sudo the tests that need network namespaces are skipped, and each says so.
# Usage: scripts/test.sh [--asan|--tsan|--debug|--long|--mutants|--torch] [ctest arguments…]
#   scripts/test.sh                      release build, all tests (10 minutes on two cores, without the build)
#   scripts/test.sh --asan               the same in a build with AddressSanitizer, its leak detector and UBSan
#   scripts/test.sh --tsan               the same with ThreadSanitizer; both take half an hour and more
#   scripts/test.sh --long               all tests, with the cases that stand next to a shorter one of their kind
#   scripts/test.sh --mutants            only the mutants of the product, all of them, with a build of their own;
#                                        three are in the default run
#   scripts/test.sh --torch              only the tests of elastictrain.torch; installs PyTorch, which the default run does not
#   scripts/test.sh -R system_ssh        only the tests whose name matches
set -euo pipefail
cd "$(dirname "$0")/.."

preset=release
tests=()
groups=(test)
mutants=
jobs=$((3 * $(nproc)))  # most tests wait; those that compute count as several (tests/CMakeLists.txt)
case "${1:-}" in
  -h | --help)
    sed -n '2,12s/^# //p' "$0"
    exit 0
    ;;
  --asan | --tsan | --debug)
    preset=${1#--}
    jobs=$(nproc)
    shift
    ;;
  --long)
    export ELASTICTRAIN_LONG_TESTS=1
    shift
    ;;
  --mutants)
    mutants=1
    tests=(-C mutants -R simulation_.*mutant)
    shift
    ;;
  --torch)
    groups+=(torch)
    tests=(-R '^(python|system)_torch(_|$)')
    shift
    ;;
esac

scripts/setup.sh "${groups[@]}"
scripts/build.sh "$preset"

report=build/$preset/test-report.xml
rm -f "$report"
# For the programs that ctest starts itself; the system tests set the options of the processes that they start.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:abort_on_error=0}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1:suppressions=\"$PWD/tests/tsan.supp\"}
status=0
[ -z "$mutants" ] || tests/mutants/mutants.py run build/mutants || status=$?
ctest --test-dir "build/$preset" --parallel "$jobs" --output-on-failure --no-tests=error \
  --output-junit test-report.xml ${tests[@]+"${tests[@]}"} "$@" </dev/null || status=$?

if [ ! -f "$report" ]; then
  echo "test.sh: ctest left no report; its exit status was $status" >&2
  exit 1
fi
count() {
  grep -o "$1=\"[0-9]*\"" "$report" | head -n 1 | tr -dc 0-9
}
total=$(count tests)
failed=$(count failures)
skipped=$(count skipped)
[ "$skipped" = 0 ] || echo "$skipped skipped (not possible on this machine; ctest's list above names them)"
echo "$((total - failed - skipped)) passed, $failed failed"
exit "$status"
