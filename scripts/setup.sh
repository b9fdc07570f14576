#!/usr/bin/env bash
# Installs the packages that are missing. Where none is missing it needs neither root nor the network.
# Usage: scripts/setup.sh [build|test|fuzz|bench|torch]…      (default: build)
#   build   for scripts/quickstart.sh: compiler, CMake, libraries
#   test    build, and for scripts/test.sh: Python, ssh, Slurm, Open MPI, MPICH
#   fuzz    build, and for scripts/fuzz.sh: clang with libFuzzer
#   bench   test, and the peers that scripts/bench.sh compares with: PyTorch, Gloo, the headers of both MPIs
#   torch   PyTorch of PyPI in build/torch-venv, for the tests and benchmarks of elastictrain.torch, and a server and a
#           client of S3's interface for those of checkpoints in object stores; 1.2 GB of downloads
# The packages have these names in Debian 12 and 13 and in Ubuntu 24.04 (universe). A peer that the system does not have,
# such as python3-torch in Ubuntu 24.04, is named and left out; its rows of a benchmark say so.
set -euo pipefail

build_packages=(g++ cmake ninja-build ccache pkg-config libasio-dev libcli11-dev libtomlplusplus-dev libspdlog-dev
  doctest-dev nlohmann-json3-dev libmsgpack-cxx-dev libeigen3-dev libssl-dev libxxhash-dev zlib1g-dev
  libncurses-dev libipsec-mb-dev)
# Left out where the system has none: fast encryption, for x86-64 only; a browser, which Ubuntu has as a snap.
optional_packages=(libipsec-mb-dev chromium)
# The system tests run their own sshd and Slurm inside network namespaces; those of the system are not used.
test_packages=(openssh-server openssh-client openssl iproute2 iptables procps python3 elfutils
  munge slurmctld slurmd slurm-client openmpi-bin mpich
  prometheus tmux chromium python3-jsonschema
  dpkg-dev file mmdebstrap python3-kubernetes)
# libFuzzer; the default tests only replay its corpora, with any compiler.
fuzz_packages=(clang libclang-rt-dev)
# PyTorch itself comes from PyPI: Debian's is older than elastictrain.torch supports.
torch_packages=(python3 python3-venv python3-dev)
torch_environment=${0%/*}/../build/torch-venv
peer_packages=(python3-torch libopenblas0-serial libgloo-dev libopenmpi-dev libmpich-dev)

usage() {
  sed -n '2,10s/^# \{0,1\}//p' "$0"
}

say() {
  echo "setup.sh: $*"
}

packages_of() {
  case "$1" in
    build) printf '%s\n' "${build_packages[@]}" ;;
    test) printf '%s\n' "${build_packages[@]}" "${test_packages[@]}" ;;
    fuzz) printf '%s\n' "${build_packages[@]}" "${fuzz_packages[@]}" ;;
    bench) printf '%s\n' "${build_packages[@]}" "${test_packages[@]}" "${peer_packages[@]}" ;;
    torch) printf '%s\n' "${torch_packages[@]}" ;;
    *)
      say "unknown group '$1'; the groups are build, test, fuzz, bench and torch" >&2
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

# Prints the command that runs another one as root, or fails.
root_command() {
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

# `apt-cache show` succeeds also for a name that only other packages mention.
has_package() {
  [ -n "$(apt-cache madison "$1" 2>/dev/null || true)" ]
}

# On a machine that was just made the package lists are empty, and say nothing.
is_absent_option() {
  [[ " ${peer_packages[*]} ${optional_packages[*]} " == *" $1 "* ]] && has_package g++ && ! has_package "$1"
}

# Sets `installable` to those of the arguments that are not options which this system lacks, and names the others.
leave_out_absent_options() {
  local package
  installable=()
  for package in "$@"; do
    if is_absent_option "$package"; then
      say "this system has no package $package; what needs it will be left out"
    else
      installable+=("$package")
    fi
  done
}

install() {
  local as_root installable
  if ! command -v apt-get >/dev/null; then
    say "this system has no apt-get. Please install what corresponds to: $*" >&2
    exit 69
  fi
  leave_out_absent_options "$@"
  if [ "${#installable[@]}" = 0 ]; then
    return
  fi
  if ! as_root=$(root_command); then
    say "packages are missing, and this user is neither root nor may use sudo here. As root, please run:" >&2
    echo "  apt-get update && apt-get install --no-install-recommends ${installable[*]}" >&2
    exit 69
  fi
  say "packages are missing: updating the package lists"
  # shellcheck disable=SC2086  # as_root is a command with its options
  $as_root apt-get update -qq || say "the package lists could not be updated; trying with those that are there" >&2
  leave_out_absent_options "${installable[@]}"
  say "installing ${#installable[@]} packages and what they depend on: ${installable[*]}"
  # shellcheck disable=SC2086
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${installable[@]}" >/dev/null || {
    say "apt-get could not install the packages; its messages are above" >&2
    exit 69
  }
}

# The wheel on PyPI is built for GPUs. Of the libraries that it names only these are loaded where there is none, so the
# other 2 GB are not installed.
install_torch() {
  local pip="$torch_environment/bin/pip" pure=(filelock typing-extensions sympy networkx jinja2 fsspec numpy)
  local objects=("moto[server]" awscli)
  if "$torch_environment/bin/python" -c 'import torch' 2>/dev/null; then
    say "PyTorch is installed in build/torch-venv"
    return
  fi
  say "installing PyTorch in build/torch-venv"
  python3 -m venv "$torch_environment" || return
  "$pip" install -q --no-deps "torch>=2.5" && "$pip" install -q "${pure[@]}" "${objects[@]}" || return
  mapfile -t gpu < <(gpu_libraries)
  if [ "${#gpu[@]}" != 0 ]; then "$pip" install -q --no-deps "${gpu[@]}"; fi
  "$torch_environment/bin/python" -c 'import torch; print("setup.sh: PyTorch", torch.__version__)'
}

# As the installed torch names them; none for a torch for CPUs.
gpu_libraries() {
  "$torch_environment/bin/python" - <<'PYTHON'
import importlib.metadata
import re

wanted = re.compile(r"nvidia-(cusparselt|nvshmem|nccl|cufile)")
names = [re.match(r"[^ ;\[]+", line)[0] for line in importlib.metadata.requires("torch") or [] if "extra ==" not in line]
chosen = [name for name in names if wanted.match(name)]
if chosen and not any("cufile" in name for name in chosen):
    chosen.append("nvidia-cufile")
print("\n".join(chosen))
PYTHON
}

main() {
  local group names packages=() missing=()
  for group in "${@:-build}"; do
    case "$group" in
      -h | --help) usage && exit 0 ;;
    esac
    names=$(packages_of "$group") || exit $?
    mapfile -t -O "${#packages[@]}" packages <<<"$names"
  done
  if ! command -v dpkg-query >/dev/null; then
    say "there is no dpkg here, so no package is looked for or installed. The build names what it misses." >&2
    exit 0
  fi
  mapfile -t missing < <(not_installed "${packages[@]}" | sort -u)
  if [ "${#missing[@]}" = 0 ]; then
    say "all packages are installed (${*:-build})"
  else
    install "${missing[@]}"
  fi
  if [[ " $* " == *" torch "* ]]; then
    install_torch
  fi
}

main "$@"
