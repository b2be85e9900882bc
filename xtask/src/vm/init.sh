#!/busybox/busybox sh
# The guest's first process: runs every test program, says how they ended, switches off.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin:/busybox
/busybox/busybox --install -s /busybox
mkdir -p /proc /sys /dev /tmp /run/netns /share /var/run
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
# Programs that give up root look for whom to become.
echo 'root:x:0:0:root:/:/busybox/sh' >/etc/passwd
# A file that only root may read.
echo 'root:*:20000:0:99999:7:::' >/etc/shadow && chmod 600 /etc/shadow
ip link set lo up
echo "guest: kernel $(uname -r), up after $(cut -d' ' -f1 /proc/uptime) s"

failed=0
# Its device exists only once it is loaded; the other modules come when an interface of their kind is made.
modprobe tun || failed=1
# Where the tests leave what the host looks at afterwards.
modprobe virtio_pci # built into newer kernels
modprobe -a 9pnet_virtio 9p && mount -t 9p -o trans=virtio,version=9p2000.L share /share || {
    echo "guest: the folder of the host cannot be mounted"
    failed=1
}
export ROCESCOPE_VM_RESULTS=/share RUST_BACKTRACE=0

# Begins each line with the time since the start: that of a test is the time of its end.
# shellcheck disable=SC2016
stamp='{ getline now < "/proc/uptime"; close("/proc/uptime"); split(now, part, " "); printf "%7.1f %s\n", part[1], $0; fflush() }'

# Runs tests one at a time (they look at what is loaded in the whole system): test program, its arguments.
try() {
    test=$1
    shift
    {
        ROCESCOPE_BIN=/programs/rocescope timeout 2400 "/tests/$test" --test-threads=1 --show-output "$@" </dev/null
        echo $? >/tmp/status
    } 2>&1 | tee /tmp/output | awk "$stamp"
    return "$(cat /tmp/status)"
}

second=
while read -r test arguments; do
    echo "guest: running $test $arguments"
    # shellcheck disable=SC2086
    try "$test" $arguments || {
        echo "guest: $test failed: $?"
        # The processor is emulated and shared: a test of timers, on a host that was busy for a while, gets a second try.
        # Without a list of names at the end, the program itself failed.
        names=$(awk '/^failures:/ { names = "" } /^    [A-Za-z0-9_:]+$/ { names = names " " $1 } END { print names }' /tmp/output)
        # shellcheck disable=SC2086
        if [ -n "$names" ] && try "$test" --include-ignored --exact $names; then
            second="$second$names"
        else
            failed=1
        fi
    }
    echo "guest: ran $test, $(cut -d' ' -f1 /proc/uptime) s after the start"
done </tests/list

[ -z "$second" ] || echo "guest: passed at the second try:$second"
echo "guest: done after $(cut -d' ' -f1 /proc/uptime) s, failed=$failed"
sync
poweroff -f
