#!/usr/bin/env bash
# A campaign on PyTorch programs (DDP, accelerate, two lines) with short epochs: random resizes, replacements, kill -9, pauses.
# Usage: scripts/campaign_torch.sh [--seed N] [--minutes 10] [--runs N] [--first N]
# $ELASTICTRAIN_BINARY and $ELASTICTRAIN_LIBRARY replace those of the release build, $ELASTICTRAIN_TORCH_PYTHON the Python of
# `scripts/setup.sh torch`; accelerate must be installed there. Files of runs with a problem are kept in build/campaign_torch.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  -h | --help) sed -n '2,5s/^# //p' "$0" && exec python3 tests/campaign/torch_campaign.py --help ;;
esac
if [ -z "${ELASTICTRAIN_BINARY:-}" ]; then
  scripts/setup.sh test torch
  scripts/build.sh release elastictrain elastictrain_shared
  export ELASTICTRAIN_BINARY=$PWD/build/release/cli/elastictrain
  export ELASTICTRAIN_LIBRARY=$PWD/build/release/train/libelastictrain.so
fi
export PYTHONDONTWRITEBYTECODE=1
exec python3 tests/campaign/torch_campaign.py "$@"
