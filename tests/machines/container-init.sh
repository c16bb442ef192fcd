#!/bin/sh
# The engine mounts the container's cgroups read-only; systemd needs to write to them.
for mount in /sys/fs/cgroup /sys/fs/cgroup/*; do
  mountpoint -q "$mount" && mount -o remount,bind,rw "$mount"
done
exec /lib/systemd/systemd --system
