#!/usr/bin/env bash
# Runs Debian's promtool with the arguments given.
#   prometheus-start.sh ARGUMENT...
# Installs the package when it is missing (as root); its server is not started.
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: $0 ARGUMENT..." >&2; exit 2; }

"$(dirname -- "$0")/install.sh" prometheus

exec promtool "$@"
