#!/usr/bin/env bash
# Fails if the shared library exports a symbol that is not on the list, or does not export one that is.
set -euo pipefail
library=$1 list=$2
nm -D --defined-only -C "$library" | sed -E 's/^[0-9a-f]* *[A-Za-z] //; s/@@.*$//' | grep -v '^ELASTICTRAIN_0$' |
  LC_ALL=C sort -u | diff -u "$list" - && echo "exports as listed"
