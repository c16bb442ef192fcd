#!/bin/sh
# A robot with the two slots A and B, simulated by files in the directory $1. It implements the commands of an os_image hook. An image is a
# file whose first word is how the system of this image behaves (good, offline, dead, broken). The commands get-* and set-* are those that
# RAUC needs of a bootloader.
set -eu
cd "$1"
set -- "$@" "" "" ""
booted=$(cat booted)
case $booted in A) other=B ;; B) other=A ;; esac
put() { printf '%s' "$2" >"$1.new" && mv "$1.new" "$1"; }
case $2 in
get-* | set-*)
  echo "$2 $3 $4" >>calls
  # A test stops RAUC at one command of the bootloader.
  if [ -e hang ] && [ "$(cat hang)" = "$2 $3 $4" ]; then put installing $$; exec sleep 600; fi
  ;;
esac
case $2 in
status) printf '{"booted": "%s", "other": "%s", "boot_id": "%s"}\n' "$booted" "$other" "$(cat boot_id)" ;;
install)
  echo "install $3 $ROAMFLEET_RELEASE" >>calls
  put good.$other 0
  put tries.$other 0
  : >slot.$other
  if grep -q '^broken' "$3"; then echo "LastError: signature verification failed: self-signed certificate" >&2; exit 1; fi
  if [ -e hang ]; then put installing $$; exec sleep 600; fi
  cat "$3" >slot.$other
  put tries.$other 3
  # Like RAUC, this makes the new slot the next one to boot.
  put primary $other
  ;;
activate) echo "activate $3" >>calls; put primary "$3" ;;
confirm) echo confirm >>calls; put good.$booted 1 ;;
boot)
  # What the bootloader does: it starts the primary slot while that is good or has tries left, otherwise the other one.
  p=$(cat primary)
  while [ "$(cat good.$p)" = 0 ] && [ "$(cat tries.$p)" -gt 0 ]; do
    put tries.$p $(($(cat tries.$p) - 1))
    grep -q '^dead' slot.$p || break
  done
  if [ "$(cat good.$p)" = 0 ] && grep -q '^dead' slot.$p; then case $p in A) p=B ;; B) p=A ;; esac; put primary $p; fi
  put booted $p
  put boot_id "$(cat /proc/sys/kernel/random/uuid)"
  echo "boot $p" >>calls
  if grep -q '^offline' slot.$p; then touch offline; else rm -f offline; fi
  ;;
get-primary) cat primary ;;
get-state) if [ "$(cat "good.$3")" = 1 ]; then echo good; else echo bad; fi ;;
set-primary) put primary "$3"; put "tries.$3" 3 ;;
set-state) if [ "$4" = good ]; then put "good.$3" 1; else put "good.$3" 0; put "tries.$3" 0; fi ;;
reboot) sh "$0" "$1" boot; kill -TERM $PPID ;;
esac
