#!/bin/busybox sh
# First program of a virtual machine with two systems: chooses a slot by the state on /dev/vdc, counts the attempt, and starts systemd there.
# It is the machine's bootloader; slots-bootloader.sh changes the state for RAUC.
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
for name in virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk; do
  $b insmod /modules/$name.ko
done
tries=0
while [ ! -b /dev/vdc ] && [ $tries -lt 200 ]; do
  $b usleep 50000
  tries=$((tries + 1))
done
$b mkdir /data
$b mount -t ext4 /dev/vdc /data
slot=
for name in $($b cat /data/boot/order); do
  left=$($b cat /data/boot/left.$name)
  [ "$left" -gt 0 ] || continue
  slot=$name
  # Only a slot that is not confirmed can run out of attempts.
  [ "$($b cat /data/boot/good.$name)" = 1 ] || echo $((left - 1)) >/data/boot/left.$name
  break
done
$b sync
$b umount /data
echo "machine: slot ${slot:-missing}" >/dev/console
case $slot in
  A) root=/dev/vda ;;
  B) root=/dev/vdb ;;
  *) $b poweroff -f ;;
esac
$b mount -t ext4 -o rw,noatime $root /root || $b reboot -f
$b mount --move /dev /root/dev
$b mount -t tmpfs -o mode=755,nosuid,nodev run /root/run
echo $slot >/root/run/slot
$b umount /proc /sys
exec $b switch_root /root /sbin/init
