#!/usr/bin/env bash
# Runs Debian's redis-server in the foreground on 127.0.0.1 only until it is killed, without persistence unless KEEP is `yes`.
#   redis-start.sh DATA_DIR PORT [PASSWORD [KEEP]]
# Installs the package when it is missing (as root). The server ends with the process that started this script.
set -euo pipefail
[ $# -ge 2 ] && [ $# -le 4 ] || { echo "usage: $0 DATA_DIR PORT [PASSWORD [KEEP]]" >&2; exit 2; }
D=$(realpath -m -- "$1") PORT=$2 PASSWORD=${3:-} KEEP=${4:-no}
mkdir -p "$D"

"$(dirname -- "$0")/install.sh" redis-server

exec setpriv --pdeathsig KILL redis-server --bind 127.0.0.1 --port "$PORT" --dir "$D" --save '' --appendonly "$KEEP" \
  ${PASSWORD:+--requirepass "$PASSWORD"}
