#!/usr/bin/env bash
# Installs Debian packages that are missing (as root), one caller after another, and starts no daemon of theirs.
#   install.sh PACKAGE...
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: $0 PACKAGE..." >&2; exit 2; }
command -v apt-get >/dev/null || exit 0    # elsewhere the programs must be there
missing() { for p; do [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || echo "$p"; done; }
[ -n "$(missing "$@")" ] || exit 0
[ "$(id -u)" = 0 ] || { echo "needs root to install" $(missing "$@") >&2; exit 1; }

T=${TMPDIR:-/tmp}
exec 9>"$T/flowdrop-test-install.lock"; flock -w 600 9    # test files start side by side
need=$(missing "$@")
[ -n "$need" ] || exit 0
export DEBIAN_FRONTEND=noninteractive
if [ ! -e /usr/sbin/policy-rc.d ]; then
  printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d
  trap 'rm -f /usr/sbin/policy-rc.d' EXIT
fi
log=$T/flowdrop-test-install.log
{
  # Postfix would ask what it is for.
  ! command -v debconf-set-selections || echo 'postfix postfix/main_mailer_type select No configuration' | debconf-set-selections
  apt-get update -q && apt-get install -qy --no-install-recommends $need
} >"$log" 2>&1 9>&- || { tail -5 "$log" >&2; exit 1; }
