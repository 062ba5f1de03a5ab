#!/usr/bin/env bash
# Runs Debian's promtool with the arguments given.
#   prometheus-start.sh ARGUMENT...
# Installs the package when it is missing (as root); its server is not started.
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: $0 ARGUMENT..." >&2; exit 2; }

if ! command -v promtool >/dev/null; then
  [ "$(id -u)" = 0 ] || { echo "needs root to install prometheus" >&2; exit 1; }
  exec 9>"${TMPDIR:-/tmp}/flowdrop-test-prometheus.lock"; flock -w 240 9    # test files start side by side
  if ! command -v promtool >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    policy=
    if [ ! -e /usr/sbin/policy-rc.d ]; then    # the package must not start a daemon of its own
      printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d; policy=1
    fi
    failed=
    { apt-get update -q && apt-get install -qy --no-install-recommends prometheus; } >&2 9>&- || failed=1
    [ -z "$policy" ] || rm -f /usr/sbin/policy-rc.d
    [ -z "$failed" ] || exit 1
  fi
  exec 9>&-
fi

exec promtool "$@"
