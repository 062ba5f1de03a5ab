#!/usr/bin/env bash
# Runs Debian's redis-server in the foreground on 127.0.0.1 only until it is killed, without persistence unless KEEP is `yes`.
#   redis-start.sh DATA_DIR PORT [PASSWORD [KEEP]]
# Installs the package when it is missing (as root). The server ends with the process that started this script.
set -euo pipefail
[ $# -ge 2 ] && [ $# -le 4 ] || { echo "usage: $0 DATA_DIR PORT [PASSWORD [KEEP]]" >&2; exit 2; }
D=$(realpath -m -- "$1") PORT=$2 PASSWORD=${3:-} KEEP=${4:-no}
mkdir -p "$D"

if ! command -v redis-server >/dev/null; then
  [ "$(id -u)" = 0 ] || { echo "needs root to install redis-server" >&2; exit 1; }
  exec 9>"$(dirname -- "$D")/flowdrop-test-redis.lock"; flock -w 240 9    # test files start side by side
  if ! command -v redis-server >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    policy=
    if [ ! -e /usr/sbin/policy-rc.d ]; then    # the package must not start a daemon of its own
      printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d; policy=1
    fi
    failed=
    { apt-get update -q && apt-get install -qy --no-install-recommends redis-server; } >"$D/apt.log" 2>&1 9>&- || failed=1
    [ -z "$policy" ] || rm -f /usr/sbin/policy-rc.d
    [ -z "$failed" ] || { tail -5 "$D/apt.log" >&2; exit 1; }
  fi
  exec 9>&-
fi

exec setpriv --pdeathsig KILL redis-server --bind 127.0.0.1 --port "$PORT" --dir "$D" --save '' --appendonly "$KEEP" \
  ${PASSWORD:+--requirepass "$PASSWORD"}
