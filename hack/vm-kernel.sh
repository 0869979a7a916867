#!/usr/bin/env bash
# Fetches the kernel of the virtual machines that tests run in (internal/nettest/vm): Debian's cloud kernel, unpacked into
# the cache folder. Nothing is installed and the host's boot is not touched. Does nothing when it is there.
set -euo pipefail

dir=${XDG_CACHE_HOME:-$HOME/.cache}/podway/vm
if compgen -G "$dir/*/boot/vmlinuz-*" >/dev/null; then exit 0; fi
newest() { apt-cache depends linux-image-cloud-amd64 2>/dev/null | awk '/Depends: linux-image/ {print $2}'; }
package=$(newest || true)
if [ -z "$package" ] && [ "$(id -u)" = 0 ] && apt-get update -qq; then package=$(newest || true); fi
if [ -z "$package" ]; then
  echo "no package linux-image-cloud-amd64 here (it is Debian's, for amd64): unpack a kernel package with IPVS, SCTP and netem" >&2
  echo "yourself and set PODWAY_VM_KERNEL to the folder that has boot/vmlinuz-* and lib/modules." >&2
  exit 1
fi
echo "fetching $package"
mkdir -p "$dir"
new=$(mktemp -d "$dir/.new.XXXXXX")
trap 'rm -rf "$new"' EXIT
(cd "$new" && apt-get download -qq -o APT::Sandbox::User=root "$package" && dpkg-deb -x ./*.deb unpacked)
mv "$new/unpacked" "$dir/$package"
