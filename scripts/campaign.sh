#!/usr/bin/env bash
# The fault campaign: real runs on namespaced hosts with sshd, hundreds of seeded faults, a table at the end.
# Usage: scripts/campaign.sh [--seed N] [--faults 300] [--hosts 4] [--resume] [--minutes N] [--data DIR] [--kinds A,B]
# $ELASTICTRAIN_BINARY replaces the release build's binary. The faults are recorded in build/campaign/campaign.json.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  -h | --help) sed -n '2,4s/^# //p' "$0" && exec python3 tests/campaign/campaign.py --help ;;
esac
if [ -z "${ELASTICTRAIN_BINARY:-}" ]; then
  scripts/setup.sh test
  scripts/build.sh release elastictrain
  ELASTICTRAIN_BINARY=$PWD/build/release/cli/elastictrain
fi
export ELASTICTRAIN_BINARY PYTHONDONTWRITEBYTECODE=1
exec python3 tests/campaign/campaign.py --data "$PWD/tests/data/optdigits" "$@"
