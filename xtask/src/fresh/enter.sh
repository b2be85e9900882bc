#!/bin/sh
# First process of mount, process and host name namespaces: makes a bare root the root, then runs its part.
# FOLDER TAR STAGE [RUSTUP_HOME CARGO_BIN]
set -eu
tree=$1/root tar=$2 stage=$3
mkdir "$tree"
mount --bind "$tree" "$tree"
tar --extract --preserve-permissions --numeric-owner --xattrs --file="$tar" --directory="$tree"
mkdir -p "$tree/fresh" "$tree/.host"
mount --bind "$stage" "$tree/fresh"
mount -o remount,bind,ro "$tree/fresh"
echo fresh >/proc/sys/kernel/hostname

# What the root of a container with privileges has.
mount -t proc proc "$tree/proc"
mount -t sysfs sysfs "$tree/sys"
mount -t bpf bpf "$tree/sys/fs/bpf"
mount -t tracefs tracefs "$tree/sys/kernel/tracing" || true
mount --rbind /sys/fs/cgroup "$tree/sys/fs/cgroup" || true
mount -t tmpfs -o mode=755 tmpfs "$tree/dev"
for device in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0; do
    name=${device%%:*} numbers=${device#*:}
    mknod -m 666 "$tree/dev/$name" c "${numbers%:*}" "${numbers#*:}"
done
mkdir "$tree/dev/net" "$tree/dev/pts" "$tree/dev/shm"
mknod -m 666 "$tree/dev/net/tun" c 10 200
mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts "$tree/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$tree/dev/shm"
ln -s pts/ptmx "$tree/dev/ptmx"
ln -s /proc/self/fd "$tree/dev/fd"
for name in stdin:0 stdout:1 stderr:2; do ln -s "/proc/self/fd/${name#*:}" "$tree/dev/${name%:*}"; done

# How this machine reaches the network.
rm -f "$tree/etc/resolv.conf"
cp -L /etc/resolv.conf "$tree/etc/resolv.conf"
{
    cat /etc/hosts
    echo 127.0.0.1 fresh
} >"$tree/etc/hosts"
[ ! -f /etc/ssl/certs/ca-certificates.crt ] || cp -L /etc/ssl/certs/ca-certificates.crt "$tree/etc/ssl/certs/ca-certificates.crt"
[ ! -s "$stage/apt.conf" ] || cp "$stage/apt.conf" "$tree/etc/apt/apt.conf.d/90fresh"
[ ! -f /etc/pip.conf ] || cp -L /etc/pip.conf "$tree/etc/pip.conf"

if [ $# -gt 3 ]; then
    mkdir -p "$tree/opt/rustup" "$tree/opt/rust"
    mount --bind "$4" "$tree/opt/rustup"
    mount --bind "$5" "$tree/opt/rust"
    mount -o remount,bind,ro "$tree/opt/rustup"
    mount -o remount,bind,ro "$tree/opt/rust"
fi

cd "$tree"
pivot_root . .host
# shellcheck disable=SC2093
exec /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 /bin/sh /fresh/run.sh
