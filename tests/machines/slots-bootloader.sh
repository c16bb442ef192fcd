#!/bin/sh
# The commands of RAUC's custom bootloader. The state is in /data/boot: `order` of the slots, and for each the attempts that are `left` and
# whether it is `good`.
set -e
cd /data/boot
put() {
  echo "$2" >"$1.new"
  sync "$1.new"
  mv "$1.new" "$1"
  sync .
}
case $1 in
  get-primary)
    for name in $(cat order); do
      [ "$(cat "left.$name")" -eq 0 ] || { echo "$name"; exit 0; }
    done
    exit 1
    ;;
  set-primary)
    put "left.$2" 3
    [ "$2" = A ] && put order 'A B' || put order 'B A'
    ;;
  get-state) [ "$(cat "good.$2")" = 1 ] && echo good || echo bad ;;
  set-state)
    if [ "$3" = good ]; then
      put "left.$2" 3
      put "good.$2" 1
    else
      put "left.$2" 0
      put "good.$2" 0
    fi
    ;;
esac
