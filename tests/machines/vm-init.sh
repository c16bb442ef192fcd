#!/bin/busybox sh
# First program of a virtual machine: mounts /dev/vda as the root and starts systemd there.
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
for name in virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk; do
  $b insmod /modules/$name.ko
done
tries=0
while [ ! -b /dev/vda ] && [ $tries -lt 200 ]; do
  $b usleep 50000
  tries=$((tries + 1))
done
if ! $b mount -t ext4 -o rw,noatime /dev/vda /root; then
  echo "machine: cannot mount /dev/vda" >/dev/console
  $b poweroff -f
fi
$b mount --move /dev /root/dev
$b umount /proc /sys
exec $b switch_root /root /sbin/init
