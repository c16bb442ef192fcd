#!/bin/sh
# Installs the Roamfleet agent on this machine, enrolls it and starts it. Run it again to upgrade: the robot keeps its identity.
# The server that hosts this script fills in its address, the version and the public keys that verify the packages.
#
# The braces around the whole script prevent that a shell which receives only a part of it, as from a broken download, runs that part.
{
set -eu

SERVER='@@SERVER@@'
VERSION='@@VERSION@@'
ARCHITECTURES='@@ARCHITECTURES@@'
# Public key of the apt repository, in base64.
APT_KEY='@@APT_KEY@@'
# Public key that signs SHA256SUMS.
SIGNING_KEY='@@SIGNING_KEY@@'

AGENT_DIRECTORY=/opt/roamfleet/agent
SETTINGS=/etc/roamfleet/agent.env
APP_USER=roamfleet-app
APP_HOME=/var/lib/roamfleet-app
STATE=/var/lib/roamfleet-agent
IDENTITY=$STATE/identity/robot.json
SERVICE=roamfleet-agent
OPT_MIB_MIN=250
WORK_MIB_MIN=150
ONLINE_SECONDS_MAX=60
LOCK_SECONDS_MAX=120
# A download slower than this many bytes per second for this many seconds is stopped.
SLOW_BYTES=1024
SLOW_SECONDS=30

work=''
enroll_key=${ROAMFLEET_ENROLL_KEY:-}
name=''
labels=''
ca_fingerprint=${ROAMFLEET_CA_FINGERPRINT:-}
action=install
dry_run=no
from=''
target=''
arch=''

usage() {
  cat <<'END'
Usage: sh install.sh [options]

Installs the Roamfleet agent, enrolls this robot and starts it. Asks nothing. Run it again to upgrade.

  --enroll-key KEY         enrollment key; - reads it from standard input (or the variable ROAMFLEET_ENROLL_KEY);
                           other users of this machine can see the arguments of a command while it runs
  --server URL             address of the server (default: the one this script comes from)
  --ca-fingerprint SHA256  trust the server's own certificate authority, which has this fingerprint
  --name NAME              name of the robot (default: the name of this machine)
  --label KEY=VALUE        label of the robot; may be repeated
  --dry-run                check everything and print what would be done
  --download-only DIR      download the packages into DIR, for a robot without a network
  --arch ARCH              with --download-only: amd64 or arm64 (default: this machine's)
  --from DIR               install from a directory that --download-only made
  --uninstall              remove the agent; the robot's identity and settings stay
  --purge                  remove the agent, the robot's identity, its settings and its data
END
}

say() { printf 'roamfleet: %s\n' "$*"; }
fail() {
  printf 'roamfleet: error: %s\n' "$*" >&2
  exit 1
}
has() { command -v "$1" >/dev/null 2>&1; }

clean_up() { [ -z "$work" ] || rm -rf "$work"; }

read_options() {
  while [ $# -gt 0 ]; do
    case $1 in
      --enroll-key | --server | --ca-fingerprint | --name | --label | --download-only | --arch | --from)
        [ $# -ge 2 ] || fail "$1 needs a value"
        set_option "$1" "$2"
        shift 2
        ;;
      --dry-run) dry_run=yes; shift ;;
      --uninstall) action=uninstall; shift ;;
      --purge) action=purge; shift ;;
      --help | -h) usage; exit 0 ;;
      *) fail "unknown option $1; --help lists the options" ;;
    esac
  done
}

set_option() {
  case $1 in
    --enroll-key) enroll_key=$2 ;;
    --server) SERVER=${2%/} ;;
    --ca-fingerprint) ca_fingerprint=$2 ;;
    --name) name=$2 ;;
    --label) labels=${labels:+$labels,}$2 ;;
    --download-only) action=download target=$2 ;;
    --arch) arch=$2 ;;
    --from) from=$2 ;;
  esac
}

# A value for the settings file. Refuses what systemd and shells read in different ways.
check_value() {
  case $2 in
    *[\"\\\$\`]* | *"
"*) fail "$1 must not contain quotes, backslashes, dollar signs or line breaks" ;;
  esac
}

check_options() {
  if [ "$enroll_key" = - ]; then
    [ ! -t 0 ] || printf 'Enrollment key: ' >&2
    IFS= read -r enroll_key || [ -n "$enroll_key" ] || fail "standard input contains no enrollment key"
  fi
  case $enroll_key in *[!A-Za-z0-9_]*) fail "the enrollment key contains invalid characters" ;; esac
  check_value --name "$name"
  check_value --label "$labels"
  case $ca_fingerprint in
    '') ;;
    sha256:*[!0-9a-fA-F]*) fail "--ca-fingerprint must be sha256: and 64 hexadecimal digits" ;;
    sha256:*) [ ${#ca_fingerprint} -eq 71 ] || fail "--ca-fingerprint must be sha256: and 64 hexadecimal digits" ;;
    *) fail "--ca-fingerprint must be sha256: and 64 hexadecimal digits" ;;
  esac
  case $action in uninstall | purge) return ;; esac
  case $SERVER in
    '') fail "the address of the server is missing: add --server https://HOST" ;;
    https://?*) ;;
    http://*) is_loopback || fail "$SERVER is plain http to another machine: anyone on the network could read and change what this robot runs" ;;
    *) fail "--server must be an address such as https://fleet.example.com" ;;
  esac
  case $SERVER in *[!A-Za-z0-9.:/_~%@-]*) case $SERVER in *[!][A-Za-z0-9.:/_~%@-]*) fail "--server contains invalid characters" ;; esac ;; esac
}

is_loopback() {
  host=${SERVER#http://}
  host=${host%%/*}
  case $host in
    '[::1]' | '[::1]:'*) return 0 ;;
    *) host=${host%%:*} ;;
  esac
  case $host in
    localhost) return 0 ;;
    127.*[!0-9.]*) return 1 ;;
    127.*) return 0 ;;
    *) return 1 ;;
  esac
}

check_machine() {
  if [ -z "$arch" ]; then
    if has dpkg; then
      arch=$(dpkg --print-architecture)
    else
      case $(uname -m) in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; *) arch=$(uname -m) ;; esac
    fi
  fi
  case $arch in
    amd64 | arm64) ;;
    *) fail "this machine's architecture is $arch; the agent runs on amd64 and arm64 (64-bit systems)" ;;
  esac
  case " $ARCHITECTURES " in
    *" $arch "*) ;;
    *) fail "the server has no package for $arch; it has: $ARCHITECTURES" ;;
  esac
  [ "$action" = install ] || return 0
  [ "$(uname -s)" = Linux ] || fail "the agent runs on Linux, not on $(uname -s)"
  if ! getconf GNU_LIBC_VERSION >/dev/null 2>&1; then fail "this system has no GNU C library, which the agent needs"; fi
  [ "$(getconf LONG_BIT)" = 64 ] || fail "this system is a 32-bit system; the agent needs a 64-bit one"
  [ -d /run/systemd/system ] || fail "systemd does not run on this machine, so the agent cannot be started as a service"
  unit=/etc/systemd/system/$SERVICE.service
  if [ -f "$unit" ] && ! grep -q "$AGENT_DIRECTORY/launch" "$unit"; then
    fail "$unit exists, which \`rf-agent install\` wrote: run \`rf-agent uninstall\`, which keeps the robot's identity, then run this script again"
  fi
  need_space /opt "$OPT_MIB_MIN"
  need_space /var/tmp "$WORK_MIB_MIN"
}

need_space() {
  place=$1
  [ -d "$place" ] || place=/
  free_kib=$(df -Pk "$place" | awk 'NR == 2 { print $4 }')
  [ "$free_kib" -ge $(($2 * 1024)) ] || fail "$place has $((free_kib / 1024)) MiB free; the installation needs $2 MiB there"
}

need_root() { [ "$(id -u)" = 0 ] || fail "this needs root: run it with sudo"; }

check_identity() {
  if [ -f "$IDENTITY" ]; then
    known=$(setting ROAMFLEET_SERVER)
    [ -z "$known" ] || [ "$known" = "$SERVER" ] ||
      fail "this robot is enrolled at $known, not at $SERVER: to enroll it anew, run this script with --purge first"
  elif [ -z "$enroll_key" ] && [ -z "$(setting ROAMFLEET_ENROLL_KEY)" ]; then
    fail "this robot is not enrolled and needs a key: add --enroll-key KEY; \`rf keys new\` and the dashboard create keys"
  fi
}

# Prints the value of a variable in the settings file.
setting() {
  [ ! -f "$SETTINGS" ] || sed -n "s/^$1=\"\{0,1\}\([^\"]*\)\"\{0,1\}\$/\1/p" "$SETTINGS" | tail -n 1
}

make_work() {
  parent=/var/tmp
  [ "$action" = install ] || parent=${TMPDIR:-/tmp}
  work=$(mktemp -d "$parent/roamfleet-install.XXXXXX")
  # apt reads the files as another user.
  chmod 755 "$work"
}

fetch() {
  curl -fsSL --proto '=https,http' --proto-redir '=https' --connect-timeout 15 --retry 3 --retry-connrefused \
    --speed-limit "$SLOW_BYTES" --speed-time "$SLOW_SECONDS" ${ca_file:+--cacert "$ca_file"} -o "$2" "$1" ||
    fail "cannot download $1"
}

# Downloads the certificate authority of the server without verification, then compares it with the fingerprint.
fetch_authority() {
  ca_file=''
  [ -n "$ca_fingerprint" ] || return 0
  curl -kfsS --connect-timeout 15 --retry 3 --retry-connrefused --max-time 60 --max-filesize 65536 -o "$work/ca.pem" "$SERVER/ca.pem" ||
    fail "cannot download $SERVER/ca.pem"
  sum=$(sed -n '/-----BEGIN CERTIFICATE-----/,/-----END CERTIFICATE-----/p' "$work/ca.pem" | grep -v -- ----- | base64 -d | sha256sum | cut -d ' ' -f 1)
  [ "sha256:$sum" = "$(printf %s "$ca_fingerprint" | tr A-F a-f)" ] ||
    fail "the certificate authority of $SERVER has the fingerprint sha256:$sum, not $ca_fingerprint: do not trust this connection"
  ca_file=$work/ca.pem
}

# Downloads the part of the apt repository that contains the agent, the tarball, and what verifies them.
download() {
  to=$1
  has curl || fail "curl is missing: install it, then run this script again"
  fetch_authority
  say "downloading roamfleet-agent $VERSION for $arch from $SERVER"
  for file in manifest.json SHA256SUMS SHA256SUMS.sig; do fetch "$SERVER/packages/$file" "$to/$file"; done
  if [ "$2" != tarball ]; then
    lists=dists/stable/main/binary-$arch
    mkdir -p "$to/apt/$lists"
    fetch "$SERVER/apt/dists/stable/InRelease" "$to/apt/dists/stable/InRelease"
    for file in Packages Packages.gz; do fetch "$SERVER/apt/$lists/$file" "$to/apt/$lists/$file"; done
    find_package "$to"
    mkdir -p "$to/apt/$(dirname "$package_file")"
    fetch "$SERVER/apt/$package_file" "$to/apt/$package_file"
  fi
  if [ "$2" != deb ]; then
    tarball=roamfleet-agent_${VERSION}_$arch.tar.gz
    fetch "$SERVER/packages/$tarball" "$to/$tarball"
  fi
}

# Finds the package of this version in the list of packages: sets package_version and package_file.
find_package() {
  found=$(awk -v RS= -v version="$VERSION" '
    /(^|\n)Package: roamfleet-agent(\n|$)/ {
      count = split($0, lines, "\n"); at = ""; file = ""
      for (i = 1; i <= count; i++) {
        if (lines[i] ~ /^Version: /) at = substr(lines[i], 10)
        if (lines[i] ~ /^Filename: /) file = substr(lines[i], 11)
      }
      if (at == version || index(at, version "-") == 1) print at " " file
    }' "$1/apt/dists/stable/main/binary-$arch/Packages" | tail -n 1)
  package_version=${found%% *}
  package_file=${found#* }
  package_file=${package_file#./}
  case $package_file in
    pool/*..* | /* | *[!A-Za-z0-9._+~/:-]*) fail "the list of packages contains an invalid file name" ;;
    pool/*.deb) ;;
    *) fail "the server's repository has no roamfleet-agent $VERSION for $arch; it may have been replaced just now: download the script again" ;;
  esac
}

# Verifies the signature of SHA256SUMS and the sum of one file.
verify_sums() {
  has openssl || fail "openssl is missing, which verifies the signature: install it, then run this script again"
  printf '%s\n' "$SIGNING_KEY" >"$work/signing-key.pem"
  base64 -d <"$1/SHA256SUMS.sig" >"$work/signature" || fail "SHA256SUMS.sig is damaged"
  openssl pkeyutl -verify -rawin -pubin -inkey "$work/signing-key.pem" -in "$1/SHA256SUMS" -sigfile "$work/signature" >/dev/null 2>&1 ||
    fail "the signature of SHA256SUMS is not valid: the packages are not from the owner of this server"
  (cd "$1" && grep -E "[ *](\./)?$2\$" SHA256SUMS | sha256sum -c - >/dev/null 2>&1) || fail "$2 is damaged: its SHA-256 is not the signed one"
}

# Has apt verify the repository's signature and the package. Prints the path of the verified package.
verified_package() {
  printf '%s\n' "$APT_KEY" | base64 -d >"$work/roamfleet.gpg"
  mkdir -p "$work/lists/partial" "$work/verified"
  chmod -R a+rX "$work"
  printf 'deb [arch=%s signed-by=%s] file:%s/apt stable main\n' "$arch" "$work/roamfleet.gpg" "$1" >"$work/roamfleet.list"
  set -- -q -o "Dir::Etc::SourceList=$work/roamfleet.list" -o Dir::Etc::SourceParts=- -o "Dir::State::Lists=$work/lists" \
    -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root -o Acquire::Languages=none
  apt-get "$@" update >"$work/log" 2>&1 </dev/null || fail "the apt repository is not valid or has a wrong signature: $(tail -n 3 "$work/log")"
  ! grep -q '^[EW]: ' "$work/log" || fail "the apt repository is not valid or has a wrong signature: $(grep '^[EW]: ' "$work/log")"
  (cd "$work/verified" && apt-get "$@" download "roamfleet-agent=$package_version") >"$work/log" 2>&1 </dev/null ||
    fail "the package is damaged: $(tail -n 3 "$work/log")"
  for file in "$work"/verified/*.deb; do package=$file; done
}

# Prints the changed settings file. Other lines of it stay.
new_settings() {
  [ ! -f "$SETTINGS" ] || grep -vE '^ROAMFLEET_(SERVER|CA_FINGERPRINT|ENROLL_KEY|ROBOT_NAME|ROBOT_LABELS)=' "$SETTINGS" || true
  printf 'ROAMFLEET_SERVER=%s\n' "$SERVER"
  put ROAMFLEET_CA_FINGERPRINT "$ca_fingerprint"
  put ROAMFLEET_ROBOT_NAME "$name"
  put ROAMFLEET_ROBOT_LABELS "$labels"
  # An enrolled robot needs no key, and a key on its disk could enroll others.
  [ -f "$IDENTITY" ] || put ROAMFLEET_ENROLL_KEY "$enroll_key"
}

# Prints a line with the value; without one, the line that the settings file has.
put() {
  value=${2:-$(setting "$1")}
  [ -z "$value" ] || printf '%s="%s"\n' "$1" "$value"
}

# Writes the settings file if it changes: sets changed_settings. An argument suppresses the message.
write_settings() {
  changed_settings=no
  mkdir -p "${SETTINGS%/*}"
  new=$SETTINGS.new
  (umask 077 && new_settings >"$new")
  if [ -f "$SETTINGS" ] && cmp -s "$new" "$SETTINGS"; then
    rm -f "$new"
    chmod 600 "$SETTINGS"
    return
  fi
  sync "$new" 2>/dev/null || true
  mv "$new" "$SETTINGS"
  changed_settings=yes
  [ $# -gt 0 ] || say "wrote $SETTINGS"
}

installed_version() {
  dpkg-query -W -f '${db:Status-Status} ${Version}' roamfleet-agent 2>/dev/null | sed -n 's/^installed //p'
}

install_package() {
  present=$(installed_version)
  if [ -n "$present" ] && dpkg --compare-versions "$present" ge "$package_version"; then
    say "roamfleet-agent $present is installed; the server has $package_version: no change"
    write_settings
    return
  fi
  verified_package "$1"
  write_settings
  say "installing roamfleet-agent $package_version${present:+, which replaces $present}"
  DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends -o "DPkg::Lock::Timeout=$LOCK_SECONDS_MAX" \
    -o Dpkg::Options::=--force-confold -o Dpkg::Options::=--force-confdef -o APT::Sandbox::User=root \
    install "$package" >"$work/log" 2>&1 </dev/null || fail "apt could not install the package: $(tail -n 8 "$work/log")"
}

install_agent() {
  need_root
  check_identity
  make_work
  way=deb
  { has apt-get && has dpkg; } || way=tarball
  if [ "$dry_run" = yes ]; then
    say "would install roamfleet-agent $VERSION for $arch as a ${way} from ${from:-$SERVER}, write $SETTINGS and start $SERVICE"
    return
  fi
  if [ -n "$from" ]; then
    [ -d "$from" ] || fail "the directory $from does not exist"
    # apt reads the files as another user, which may not be allowed to read the directory.
    cp -R "$from/." "$work/"
    [ "$way" = tarball ] || find_package "$work"
  else
    download "$work" "$way"
  fi
  if [ "$way" = deb ]; then install_package "$work"; else install_tarball "$work"; fi
  start_agent
}

start_agent() {
  systemctl daemon-reload
  systemctl enable "$SERVICE" >/dev/null 2>&1 || fail "systemd could not enable $SERVICE"
  if [ "$changed_settings" = yes ]; then systemctl restart "$SERVICE"; else systemctl start "$SERVICE"; fi || fail "systemd could not start $SERVICE"
  say "waiting for the robot to be online, at most $ONLINE_SECONDS_MAX s"
  waited=0
  until is_online; do
    if [ "$waited" -ge "$ONLINE_SECONDS_MAX" ]; then
      journalctl -u "$SERVICE" -n 15 --no-pager -o cat >&2 2>/dev/null || true
      fail "the agent is installed and runs, but is not online after $ONLINE_SECONDS_MAX s; it keeps trying. \`journalctl -u $SERVICE\` shows why"
    fi
    sleep 1
    waited=$((waited + 1))
  done
  # The robot is enrolled now and needs the key no more.
  write_settings quietly
  say "online: $(rf-agent status --json 2>/dev/null | sed -n 's/.*"robot_id":"\([^"]*\)","name":"\([^"]*\)".*/\2 (\1)/p') at $SERVER"
}

is_online() { rf-agent status --json 2>/dev/null | grep -q '"connected":true'; }

install_tarball() {
  tarball=roamfleet-agent_${VERSION}_$arch.tar.gz
  verify_sums "$1" "$tarball"
  place=$AGENT_DIRECTORY/$VERSION
  if [ -d "$place" ] && [ "$(readlink "$AGENT_DIRECTORY/current" 2>/dev/null)" = "$VERSION" ]; then
    say "roamfleet-agent $VERSION is installed: no change"
    write_settings
    return
  fi
  say "installing roamfleet-agent $VERSION into $place"
  # The launcher ignores names that begin with a dot.
  unpacked=$AGENT_DIRECTORY/.new-$VERSION
  rm -rf "$unpacked"
  mkdir -p "$unpacked"
  tar -xzf "$1/$tarball" -C "$unpacked" --no-same-owner || fail "cannot unpack $tarball"
  "$unpacked/bin/node" "$unpacked/rf-agent.mjs" --version >/dev/null || fail "the agent does not run on this system"
  sync
  make_app_user
  write_settings
  rm -rf "$place"
  mv "$unpacked" "$place"
  replace "$place/system/launch" "$AGENT_DIRECTORY/launch" 755
  replace "$place/system/rf-agent" /usr/local/bin/rf-agent 755
  replace "$place/system/$SERVICE.service" "/etc/systemd/system/$SERVICE.service" 644
  ln -sfn "$VERSION" "$AGENT_DIRECTORY/.current.new"
  mv -T "$AGENT_DIRECTORY/.current.new" "$AGENT_DIRECTORY/current"
  sync
  changed_settings=yes
}

# Creates the user that programs of releases run as, which cannot read the robot's key.
make_app_user() {
  ! id "$APP_USER" >/dev/null 2>&1 || return 0
  has useradd || fail "useradd is missing, which creates the user $APP_USER: create this system user with the home $APP_HOME, then run this script again"
  useradd --system --user-group --home-dir "$APP_HOME" --create-home --shell /usr/sbin/nologin "$APP_USER" || fail "cannot create the user $APP_USER"
}

# Copies a file by a rename, because the launcher may be running.
replace() {
  mkdir -p "${2%/*}"
  cp "$1" "$2.new"
  chmod "$3" "$2.new"
  mv "$2.new" "$2"
}

remove_agent() {
  need_root
  if [ "$dry_run" = yes ]; then
    say "would remove the agent$([ "$action" = uninstall ] || printf ', %s and %s' "$STATE" "$SETTINGS")"
    return
  fi
  verb=remove
  [ "$action" = uninstall ] || verb=purge
  if has dpkg-query && dpkg-query -W roamfleet-agent >/dev/null 2>&1; then
    make_work
    DEBIAN_FRONTEND=noninteractive apt-get -q -y -o "DPkg::Lock::Timeout=$LOCK_SECONDS_MAX" "$verb" roamfleet-agent \
      >"$work/log" 2>&1 </dev/null || fail "apt could not remove the package: $(tail -n 8 "$work/log")"
  else
    [ ! -d /run/systemd/system ] || systemctl disable --now "$SERVICE" >/dev/null 2>&1 || true
    # Agents of versions without this command end their workloads when they stop.
    ! has rf-agent || rf-agent stop-workloads >/dev/null 2>&1 </dev/null || true
    rm -f "/etc/systemd/system/$SERVICE.service" /usr/local/bin/rf-agent
    [ ! -d /run/systemd/system ] || systemctl daemon-reload
    rm -rf "$AGENT_DIRECTORY"
    # A server may be installed beside it.
    rmdir "${AGENT_DIRECTORY%/*}" 2>/dev/null || true
  fi
  if [ "$action" = purge ]; then
    rm -rf "$STATE" "$APP_HOME" "$SETTINGS" "$SETTINGS.new"
    rmdir "${SETTINGS%/*}" 2>/dev/null || true
    say "removed the agent, the robot's identity and its settings; the server still lists the robot: rf robots remove"
  else
    say "removed the agent; $STATE and ${SETTINGS%/*} stay, so that this robot keeps its identity when the agent is installed again"
  fi
}

main() {
  trap clean_up EXIT
  trap 'exit 130' INT TERM HUP
  umask 022
  read_options "$@"
  check_options
  case $action in
    uninstall | purge) remove_agent ;;
    download)
      check_machine
      make_work
      mkdir -p "$target"
      download "$target" all
      fetch "$SERVER/install.sh" "$target/install.sh"
      say "downloaded into $target; copy it to the robot, then: sudo sh install.sh --from . --enroll-key KEY"
      ;;
    install)
      check_machine
      install_agent
      ;;
  esac
}

main "$@"
exit 0
}
