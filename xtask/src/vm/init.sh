#!/bin/busybox sh
# The guest's first process: runs every test program, says how they ended, switches off.
export PATH=/bin:/sbin
/bin/busybox mkdir -p /proc /sys /dev /tmp /run
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
ip link set lo up
echo "guest: kernel $(uname -r), up after $(cut -d' ' -f1 /proc/uptime) s"

failed=0
export ROCESCOPE_BIN=/bin/rocescope RUST_BACKTRACE=0
while read -r test arguments; do
    echo "guest: running $test $arguments"
    # One at a time: the tests look at what is loaded in the whole system.
    # shellcheck disable=SC2086
    timeout 400 "/tests/$test" --test-threads=1 --show-output $arguments </dev/null || {
        echo "guest: $test failed: $?"
        failed=1
    }
done </tests/list

echo "guest: done after $(cut -d' ' -f1 /proc/uptime) s, failed=$failed"
sync
poweroff -f
