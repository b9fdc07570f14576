#!/usr/bin/env bash
# Installs missing Debian packages. It is safe to run it again. If nothing is missing, it does not call apt.
# Usage: scripts/setup.sh [build|test|fuzz|bench]…      (no group: build)
set -euo pipefail

build_packages=(g++ cmake ninja-build ccache pkg-config libasio-dev libcli11-dev libtomlplusplus-dev libspdlog-dev
  doctest-dev nlohmann-json3-dev libmsgpack-cxx-dev libeigen3-dev libssl-dev libxxhash-dev)
# The system tests run their own sshd and Slurm inside network namespaces; those of the system are not used.
test_packages=(openssh-server openssh-client openssl iproute2 iptables procps python3 elfutils
  munge slurmctld slurmd slurm-client openmpi-bin mpich)
# libFuzzer; the default tests only replay its corpora, with any compiler.
fuzz_packages=(clang libclang-rt-14-dev)
# Peers of the benchmarks. All of them are optional: a missing peer is left out, and the benchmark reports it.
bench_packages=(python3-torch libopenblas0-serial libgloo-dev libopenmpi-dev libmpich-dev)

usage() {
  sed -n '2,3s/^# //p' "$0"
}

packages_of() {
  case "$1" in
    build) printf '%s\n' "${build_packages[@]}" ;;
    test) printf '%s\n' "${build_packages[@]}" "${test_packages[@]}" ;;
    fuzz) printf '%s\n' "${build_packages[@]}" "${fuzz_packages[@]}" ;;
    bench) printf '%s\n' "${build_packages[@]}" "${test_packages[@]}" "${bench_packages[@]}" ;;
    *)
      echo "setup.sh: unknown group '$1'; known groups: build, test, fuzz, bench" >&2
      exit 64
      ;;
  esac
}

not_installed() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || echo "$package"
  done
}

# Prints the command prefix that gives root rights, or fails.
root_words() {
  if [ "$(id -u)" = 0 ]; then
    echo env
  elif ! command -v sudo >/dev/null; then
    return 1
  elif sudo -n true 2>/dev/null; then
    echo sudo -n
  elif [ -t 0 ]; then
    echo sudo
  else
    return 1
  fi
}

install() {
  local as_root
  if ! command -v apt-get >/dev/null; then
    echo "setup.sh: this system has no apt-get. Please install what corresponds to: $*" >&2
    exit 69
  fi
  if ! as_root=$(root_words); then
    echo "setup.sh: missing packages, and neither root nor sudo is possible here." >&2
    echo "setup.sh: please have an administrator run: apt-get install --no-install-recommends $*" >&2
    exit 69
  fi
  echo "setup.sh: installing: $*"
  # shellcheck disable=SC2086  # as_root is a list of arguments
  $as_root apt-get update -qq
  # shellcheck disable=SC2086
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

main() {
  local group wanted=() missing=()
  for group in "${@:-build}"; do
    case "$group" in
      -h | --help) usage && exit 0 ;;
    esac
    wanted+=($(packages_of "$group")) || exit $?
  done
  if ! command -v dpkg-query >/dev/null; then
    echo "setup.sh: no dpkg here, so packages cannot be checked or installed; continuing without." >&2
    exit 0
  fi
  mapfile -t missing < <(not_installed "${wanted[@]}" | sort -u)
  if [ "${#missing[@]}" = 0 ]; then
    echo "setup.sh: nothing to install (${*:-build})"
    return
  fi
  install "${missing[@]}"
}

main "$@"
