#!/busybox/busybox sh
# Moves the host's tree to a file system of its own, and makes systemd its first process.
export PATH=/busybox
/busybox/busybox --install -s /busybox
mkdir -p /proc /sys /dev /root
mount -t proc proc /proc
mount -t devtmpfs devtmpfs /dev
echo "guest: kernel $(uname -r), up after $(cut -d' ' -f1 /proc/uptime) s"
mount -t tmpfs -o mode=0755 root /root
cp -a /tree/. /root
cd /root || exit
mkdir -p proc sys dev run tmp var/lib/dpkg/info var/lib/dpkg/updates var/log root home etc
: >var/lib/dpkg/status
: >var/lib/dpkg/available
cp usr/share/base-passwd/passwd.master etc/passwd
cp usr/share/base-passwd/group.master etc/group
[ -e bin/sh ] || ln -s dash bin/sh
echo guest >etc/hostname
echo 0123456789abcdef0123456789abcdef >etc/machine-id
umount /dev
exec switch_root /root /usr/lib/systemd/systemd --unit=rocescope-test.service --show-status=0
