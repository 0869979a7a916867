#!/usr/bin/env bash
# Installs what `make demo` needs besides Go: containerd and runc; with the argument "tests" also nftables, whose command a
# test lists the rules with (podway itself never runs it), iptables, for the proxy mode of this name, and QEMU with a kernel
# for tests that need more than this machine's kernel has. Does nothing when all is there.
set -euo pipefail

missing=()
command -v containerd >/dev/null && command -v ctr >/dev/null || missing+=(containerd)
command -v runc >/dev/null || missing+=(runc)
[ "${1:-}" != tests ] || command -v nft >/dev/null || missing+=(nftables)
[ "${1:-}" != tests ] || command -v iptables-nft >/dev/null || missing+=(iptables)
if [ "${1:-}" = tests ]; then
  command -v qemu-system-x86_64 >/dev/null || missing+=(qemu-system-x86)
  [ -x /bin/busybox ] || missing+=(busybox-static)
  command -v mke2fs >/dev/null || missing+=(e2fsprogs)
  kernel() { "$(dirname "$0")/vm-kernel.sh"; }
else
  kernel() { :; }
fi
command -v go >/dev/null || { echo "go is missing: install Go 1.26 or newer from https://go.dev/dl" >&2; exit 1; }
[ ${#missing[@]} -gt 0 ] || { kernel; exit; }

if ! command -v apt-get >/dev/null; then
  echo "missing: ${missing[*]}. Install them with your distribution's package manager (on Debian the packages of these names)." >&2
  exit 1
fi
if [ "$(id -u)" != 0 ]; then
  echo "missing: ${missing[*]}. Installing them needs root: run this with sudo." >&2
  exit 1
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq "${missing[@]}" >/dev/null
# podway starts private instances only; the service that the package starts on a machine with systemd is not needed.
if [[ " ${missing[*]} " == *" containerd "* ]] && [ -d /run/systemd/system ]; then
  systemctl disable --now containerd.service
fi
kernel
