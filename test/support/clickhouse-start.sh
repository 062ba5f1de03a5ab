#!/usr/bin/env bash
# Runs Debian's clickhouse-server (old, but real) in the foreground on 127.0.0.1 only, until it is killed.
#   clickhouse-start.sh DATA_DIR HTTP_PORT [MORE]
# MORE is added to the configuration: ports and cluster of a node. Its users are in clickhouse-users.xml.
# Installs the package when it is missing (as root). The server ends with the process that started this script.
set -euo pipefail
umask 022
[ $# -eq 2 ] || [ $# -eq 3 ] || { echo "usage: $0 DATA_DIR HTTP_PORT [MORE]" >&2; exit 2; }
D=$(realpath -m -- "$1") PORT=$2 MORE=${3:-} HERE=$(realpath -- "$(dirname -- "$0")")
mkdir -p "$D"/{data,tmp,files,log}

"$HERE/install.sh" clickhouse-server

cat >"$D/config.xml" <<C
<?xml version="1.0"?>
<yandex>
  <logger><level>warning</level><log>$D/log/server.log</log><errorlog>$D/log/error.log</errorlog><size>10M</size><count>1</count></logger>
  <listen_host>127.0.0.1</listen_host>
  <http_port>$PORT</http_port>
  <path>$D/data/</path>
  <tmp_path>$D/tmp/</tmp_path>
  <user_files_path>$D/files/</user_files_path>
  <mark_cache_size>67108864</mark_cache_size>
  <timezone>Asia/Tokyo</timezone><!-- Neither ours nor the exchange's: nothing may depend on it. -->
  <users_config>$HERE/clickhouse-users.xml</users_config>
  <default_profile>default</default_profile>
  <default_database>default</default_database>
  $MORE
</yandex>
C
exec setpriv --pdeathsig KILL clickhouse-server --config-file="$D/config.xml"
