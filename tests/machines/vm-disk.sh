#!/bin/sh
# Makes a virtual machine's disk, kernel and initrd of a root directory: vm-disk.sh ROOT OUT. Writes OUT/{root.img,vmlinuz,initrd,key}.
set -e
root=$1
out=$2
here=$(dirname "$0")
mkdir "$out"

# The key with which tests log in. Whoever can read the user's cache directory has it; the machine has no address outside of this host.
ssh-keygen -q -t ed25519 -N '' -C machines -f "$out/key"
install -d -m 700 "$root/root/.ssh"
mv "$out/key.pub" "$root/root/.ssh/authorized_keys"
printf 'PermitRootLogin prohibit-password\nUseDNS no\n' >"$root/etc/ssh/sshd_config.d/machines.conf"

echo robot >"$root/etc/hostname"
echo '127.0.0.1 localhost robot' >"$root/etc/hosts"
: >"$root/etc/fstab"
# Addresses of QEMU's user network.
cat >"$root/etc/systemd/network/10-ethernet.network" <<'N'
[Match]
Name=e*
[Network]
Address=10.0.2.15/24
Gateway=10.0.2.2
LinkLocalAddressing=no
IPv6AcceptRA=no
N
systemd=$root/etc/systemd/system
mkdir -p "$systemd/multi-user.target.wants" "$systemd/graphical.target.wants"
ln -sf /lib/systemd/system/systemd-networkd.service "$systemd/multi-user.target.wants/systemd-networkd.service"
# None of these serves a test, and each costs seconds of an emulated processor.
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer \
  systemd-timesyncd.service systemd-pstore.service systemd-networkd-wait-online.service getty@tty1.service serial-getty@ttyS0.service; do
  ln -sf /dev/null "$systemd/$unit"
done
# The line that a test waits for.
cat >"$systemd/machine-up.service" <<'N'
[Unit]
After=multi-user.target ssh.service
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'echo MACHINE-UP >/dev/console'
[Install]
WantedBy=graphical.target
N
ln -sf /etc/systemd/system/machine-up.service "$systemd/graphical.target.wants/machine-up.service"

cp "$root"/boot/vmlinuz-* "$out/vmlinuz"
initrd=$out/initrd.d
mkdir -p "$initrd/bin" "$initrd/modules" "$initrd/dev" "$initrd/proc" "$initrd/sys" "$initrd/root"
cp /usr/bin/busybox "$initrd/bin/busybox"
cp "$here/vm-init.sh" "$initrd/init"
chmod 755 "$initrd/init"
drivers=$(echo "$root"/usr/lib/modules/*/kernel/drivers)
cp "$drivers"/virtio/virtio.ko "$drivers"/virtio/virtio_ring.ko "$drivers"/virtio/virtio_pci*.ko "$drivers"/block/virtio_blk.ko "$initrd/modules/"
(cd "$initrd" && find . | cpio --quiet -o -H newc | gzip -1) >"$out/initrd"
rm -rf "$initrd" "$root"/boot/*

truncate -s 3G "$out/root.img"
mke2fs -q -t ext4 -F -d "$root" "$out/root.img"
