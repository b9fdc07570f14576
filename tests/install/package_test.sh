#!/usr/bin/env bash
# Makes the Debian packages of the build and installs them on a bare Debian of its own, where nothing else is installed:
# the binary trains, manual pages and completions are found, and a program is linked with the library. Skipped (status 77)
# where no bare system can be made. Usage: package_test.sh BUILD_DIRECTORY
set -euo pipefail
build=$1
project=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"  # another user inside the bare system reads it

skip() {
  echo "skipped: $*"
  exit 77
}
for tool in dpkg-shlibdeps file mmdebstrap; do
  command -v "$tool" >/dev/null || skip "there is no $tool (scripts/setup.sh test installs it)"
done
# shellcheck source=/dev/null
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")

echo "== packages"
"$project/scripts/package.sh" "$work/packages" "$build"
for package in elastictrain libelastictrain libelastictrain-dev elastictrain-dbgsym; do
  file=$(ls "$work/packages/${package}_"*.deb)
  echo "$package: $(($(stat -c %s "$file") / 1024)) KiB, depends on $(dpkg-deb -f "$file" Depends)"
  dpkg-deb -c "$file" >"$work/$package.list"
done
dpkg-deb -f "$work"/packages/elastictrain_*.deb Depends | grep -q libssl3 || { echo "OpenSSL is not named"; exit 1; }
if grep -q '\.debug' "$work"/{elastictrain,libelastictrain,libelastictrain-dev}.list; then
  echo "a package carries debug information"
  exit 1
fi
[ "$(stat -c %s "$work"/packages/elastictrain_*.deb)" -lt 8000000 ] || { echo "the package exceeds 8 MB"; exit 1; }

echo "== the unit"
if command -v systemd-analyze >/dev/null; then
  dpkg-deb -x "$work"/packages/elastictrain_*.deb "$work/tree"
  sed "s,^ExecStart=/usr,ExecStart=$work/tree/usr," "$work/tree/usr/lib/systemd/user/elastictrain@.service" \
    >"$work/elastictrain@.service"
  # Other lines are about this system.
  XDG_RUNTIME_DIR=$work systemd-analyze verify --user --man=no "$work/elastictrain@.service" >"$work/unit.log" 2>&1 || true
  if grep 'elastictrain@' "$work/unit.log"; then exit 1; fi
fi

cat >"$work/inside.sh" <<'INSIDE'
set -eu
cd /tmp/packages
apt-get install -y -qq --no-install-recommends ./elastictrain_*.deb >/dev/null
test "$(dpkg-query -W -f='${Status}' elastictrain)" = "install ok installed"
elastictrain --version
HOME=/root elastictrain run -n 2 --name bare --set trainer.model=synthetic --set trainer.samples=640 --set trainer.epochs=1
MANPAGER=cat man elastictrain-run | grep -q -- --resume
MANPAGER=cat man elastictrain | grep -q 75
MANPAGER=cat man 5 elastictrain-config | grep -q batch.per_worker
elastictrain run --dry-run /usr/share/elastictrain/configs/quickstart.toml | grep -q 'workers to start with'
test -x /usr/share/elastictrain/hpc/slurm.sh
bash -c '. /usr/share/bash-completion/completions/elastictrain; COMP_WORDS=(elastictrain topo); COMP_CWORD=1; _elastictrain
  [ "${COMPREPLY[*]}" = topology ]'
test -s /usr/share/zsh/vendor-completions/_elastictrain
test -s /usr/share/fish/vendor_completions.d/elastictrain.fish
apt-get install -y -qq --no-install-recommends ./libelastictrain_*.deb ./libelastictrain-dev_*.deb >/dev/null
ldconfig -p | grep -q libelastictrain.so.0
test -e /usr/include/elastictrain/session.hpp
apt-get remove -y -qq elastictrain >/dev/null
test ! -e /usr/bin/elastictrain
echo "inside: good"
INSIDE

echo "== a bare system"
mkdir "$work/passed"
mmdebstrap --quiet --variant=minbase --format=null --include=man-db \
  --customize-hook="touch $work/passed/begun" \
  --customize-hook="mkdir -p \"\$1/tmp/packages\" && cp $work/packages/*.deb $work/inside.sh \"\$1/tmp/packages/\"" \
  --customize-hook="chroot \"\$1\" sh /tmp/packages/inside.sh && touch $work/passed/here" \
  "${codename:-bookworm}" /dev/null >"$work/log" 2>&1 || true
cat "$work/log"
if [ ! -e "$work/passed/begun" ]; then
  skip "no bare system could be made; its messages are above"
fi
test -e "$work/passed/here"
echo "the packages are usable"
