#!/usr/bin/env bash
# Runs Debian's ZooKeeper in the foreground on 127.0.0.1 only, until it is killed. It keeps nothing that outlives DATA_DIR.
#   zookeeper-start.sh DATA_DIR PORT
# Installs the package when it is missing (as root). The server ends with the process that started this script.
set -euo pipefail
umask 022
[ $# -eq 2 ] || { echo "usage: $0 DATA_DIR PORT" >&2; exit 2; }
D=$(realpath -m -- "$1") PORT=$2
mkdir -p "$D"/{data,log}

"$(dirname -- "$0")/install.sh" zookeeper default-jre-headless

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
