#!/usr/bin/env bash
# Runs Debian's postfix in the foreground on 127.0.0.1 only, until it is killed. Nothing of the system's own postfix is used:
# configuration, queue, certificate and mailboxes lie in the folder that is given.
#   postfix-start.sh DIR PORT
# Mail to anybody at example.com is accepted and delivered to DIR/mail/inbox, a Maildir, but for gone@example.com, who is
# refused for good, and later@example.com, who is refused for now. STARTTLS is offered with a certificate for localhost
# that is signed by DIR/ca.pem, an authority of its own.
# Installs the package when it is missing (as root). The server ends with the process that started this script.
set -euo pipefail
umask 022
[ $# -eq 2 ] || { echo "usage: $0 DIR PORT" >&2; exit 2; }
D=$(realpath -m -- "$1") PORT=$2
mkdir -p "$D"/{conf,queue,data,mail,log}
chmod 755 "$D"    # postfix's processes are another user, who must get to their folders
[ "$(id -u)" = 0 ] || { echo "postfix's master needs root" >&2; exit 1; }

"$(dirname -- "$0")/install.sh" postfix openssl

{
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj '/CN=flowdrop test CA' -keyout "$D/ca.key" -out "$D/ca.pem"
  openssl req -newkey rsa:2048 -nodes -subj '/CN=localhost' -keyout "$D/server.key" -out "$D/server.csr"
  openssl x509 -req -days 2 -in "$D/server.csr" -CA "$D/ca.pem" -CAkey "$D/ca.key" -CAcreateserial -out "$D/server.pem" \
    -extfile <(printf 'subjectAltName=DNS:localhost,IP:127.0.0.1')
} 2>"$D/log/openssl.log"

owner=$(id -u postfix) group=$(id -g postfix)
chown postfix: "$D/data" "$D/mail"
chown root: "$D/queue"
cat >"$D/conf/main.cf" <<C
compatibility_level = 3.6
queue_directory = $D/queue
data_directory = $D/data
maillog_file_prefixes = $D
maillog_file = $D/log/mail.log
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
myhostname = localhost
mydestination =
local_transport = error:nobody lives here
relay_domains =
mynetworks = 127.0.0.0/8
alias_maps =
alias_database =
virtual_mailbox_domains = example.com
virtual_mailbox_base = $D/mail
virtual_mailbox_maps = static:inbox/
virtual_minimum_uid = 1
virtual_uid_maps = static:$owner
virtual_gid_maps = static:$group
smtpd_recipient_restrictions = check_recipient_access inline:{{gone@example.com = 550 5.1.1 no such user}, {later@example.com = 450 4.2.0 come again later}}, reject_unauth_destination
smtpd_tls_security_level = may
smtpd_tls_cert_file = $D/server.pem
smtpd_tls_key_file = $D/server.key
smtputf8_enable = yes
C
cat >"$D/conf/master.cf" <<C
127.0.0.1:$PORT inet n - n - - smtpd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
error unix - - n - - error
virtual unix - n n - - virtual
proxymap unix - - n - - proxymap
anvil unix - - n - 1 anvil
tlsmgr unix - - n 1000? 1 tlsmgr
postlog unix-dgram n - n - 1 postlogd
C

postfix -c "$D/conf" check
exec setpriv --pdeathsig KILL /usr/lib/postfix/sbin/master -c "$D/conf" -d
