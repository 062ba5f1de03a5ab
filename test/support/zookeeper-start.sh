#!/usr/bin/env bash
# Runs Debian's ZooKeeper in the foreground on 127.0.0.1 only, until it is killed. It keeps nothing that outlives DATA_DIR.
#   zookeeper-start.sh DATA_DIR PORT
# Installs the package when it is missing (as root). The server ends with the process that started this script.
set -euo pipefail
umask 022
[ $# -eq 2 ] || { echo "usage: $0 DATA_DIR PORT" >&2; exit 2; }
D=$(realpath -m -- "$1") PORT=$2
mkdir -p "$D"/{data,log}

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' zookeeper 2>/dev/null)" = installed ] && command -v java >/dev/null; }
if ! installed; then
  [ "$(id -u)" = 0 ] || { echo "needs root to install zookeeper" >&2; exit 1; }
  exec 9>"$(dirname -- "$D")/flowdrop-test-zookeeper.lock"; flock -w 240 9    # test files start side by side
  if ! installed; then
    export DEBIAN_FRONTEND=noninteractive
    # The package is no service: Debian has that in another one, zookeeperd.
    { apt-get update -q && apt-get install -qy --no-install-recommends zookeeper default-jre-headless; } \
      >"$D/log/apt.log" 2>&1 9>&- || { tail -5 "$D/log/apt.log" >&2; exit 1; }
  fi
  exec 9>&-
fi

cat >"$D/zoo.cfg" <<C
tickTime=500
dataDir=$D/data
clientPort=$PORT
clientPortAddress=127.0.0.1
admin.enableServer=false
maxClientCnxns=0
forceSync=no
4lw.commands.whitelist=srvr
C

exec setpriv --pdeathsig KILL java -Xmx256m -Djava.io.tmpdir="$D" -cp /usr/share/java/zookeeper.jar \
  org.apache.zookeeper.server.quorum.QuorumPeerMain "$D/zoo.cfg"
