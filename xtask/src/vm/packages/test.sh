#!/bin/bash
# Installs the package, runs its service in each way in which systemd starts, watches and ends it, upgrades and purges it, and looks for
# what is left.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C SYSTEMD_PAGER=
unit=rocescope-agent.service
failed=0
work=/run/test
mkdir -p $work

uptime() { cut -d' ' -f1 /proc/uptime; }

# Names what is checked; the rest is a command that must succeed.
check() {
    local what=$1
    shift
    if "$@" >$work/said 2>&1; then
        echo "guest: ok: $what ($(uptime) s)"
    else
        echo "guest: FAILED: $what: $*"
        tail -n 40 $work/said
        journalctl --no-pager --unit=$unit --output=short-monotonic --lines=12
        failed=1
    fi
}

not() { ! "$@"; }
is() { [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; return 1; }; }
value() { systemctl show --value --property="$1" "$unit"; }
pid() { value MainPID; }
log_has() { journalctl --sync; journalctl --unit=$unit --output=cat | grep -F -- "$1"; }

# Prints the metrics; the socket is one of rocescope-agent.socket, or its own.
scrape() {
    exec 3<>/dev/tcp/127.0.0.1/14791 || return 1
    printf 'GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3
    # Programs are loaded slowly in emulation: the first scrape waits for them.
    timeout 120 cat <&3
    exec 3>&-
}

# RoCE packets that were counted on the interface.
counted() { scrape | sed -n 's/^rocescope_link_packets_total{link="veth0",direction="ingress"} //p'; }

# What the agent has now, by a view that is attached to the socket in its RuntimeDirectory.
attached() { timeout 120 rocescope live --attach --output json --duration 1s | grep -F '"schema": "rocescope.report/1"'; }

# Says how it ended, and switches off.
end() {
    echo "guest: done after $(uptime) s, failed=$failed"
    sync
    systemctl --force --force poweroff
    sleep infinity
}

# Sends 20 packets of a queue pair from the far end, and waits until all are in the metrics. No byte is a newline, at which bash would
# begin another packet.
traffic() {
    ip netns exec far bash -c 'for n in {33..52}; do
        psn=$(printf "\\\\x%02x" "$n")
        # BTH: RC SEND only, partition 0xffff, queue pair 0x17, PSN; eight bytes, ICRC.
        printf "\x04\x00\xff\xff\x00\x00\x00\x17\x80\x00\x00${psn}payload.\x01\x02\x03\x04" >/dev/udp/10.7.0.1/4791
    done'
    for _ in {1..60}; do
        [ "$(counted)" = 20 ] && return
        sleep 1
    done
    echo "counted: $(counted)"
    scrape | grep -E 'link_|build|up'
    return 1
}

# Everything that a package may leave, in order: files, users, units; programs, links and maps in the kernel, filters.
listing() {
    find / -xdev \( -path /proc -o -path /sys -o -path /run -o -path /dev -o -path /tmp -o -path /var/tmp -o -path /var/log \
        -o -path /var/lib/dpkg -o -path /var/lib/systemd \) -prune -o -printf '%y %m %U:%G %p %l\n' | sort
    cat /etc/passwd /etc/group
    find /run/systemd/dynamic-uid -mindepth 1 2>/dev/null
    ls -A /run/rocescope /run/credentials /sys/fs/bpf 2>&1
    systemctl list-unit-files --no-legend 'rocescope*'
    systemctl list-units --no-legend --all 'rocescope*'
    for kind in prog link map; do
        echo "$kind:"
        bpftool --json "$kind" show | tr '{' '\n' | grep -oE '"(type|name)":"[^"]*"' | sort | uniq -c
    done
    for one in veth0 veth1 lo; do
        tc qdisc show dev "$one" 2>/dev/null
        tc filter show dev "$one" ingress 2>/dev/null
        tc filter show dev "$one" egress 2>/dev/null
    done
    ip -details link show dev veth0 | grep -E 'xdp|promiscuity' | sed 's/promiscuity \([0-9]*\).*/promiscuity \1/'
    ps -eo comm | grep -c '^rocescope'
    sysctl kernel.bpf_stats_enabled
}

modprobe -a veth rdma_rxe
ip link set lo up
ip netns add far
ip link add veth0 type veth peer name veth1 netns far
ip address add 10.7.0.1/24 dev veth0
ip link set veth0 up
ip -n far address add 10.7.0.2/24 dev veth1
ip -n far link set veth1 up
check "a Soft-RoCE device" rdma link add rxe0 type rxe netdev veth0

listing >$work/before 2>&1
check "the listing sees programs and files" grep -q '/usr/bin/dpkg' $work/before

# Installed, and neither enabled nor started.
check "dpkg installs it" dpkg --install /test/first.deb
check "its status" is "$(dpkg-query --show --showformat='${Status}' rocescope)" "install ok installed"
check "the listing sees the package" not diff -q $work/before <(listing 2>&1)
check "not enabled" not systemctl --quiet is-enabled $unit
check "not started" not systemctl --quiet is-active $unit
check "systemd has no complaint of the units" systemd-analyze verify --man=no $unit rocescope-agent.socket
check "confined" systemd-analyze security --threshold=25 $unit
check "the program runs" rocescope --version
check "its manual page is there" test -s /usr/share/man/man1/rocescope-agent.1.gz

# The processor is emulated and shared: limits of time are not what is tested here. Purging removes the file.
mkdir -p /etc/systemd/system/$unit.d
printf '[Unit]\nStartLimitIntervalSec=0\n[Service]\nTimeoutStartSec=10min\nTimeoutStopSec=5min\nWatchdogSec=2min\n' \
    >/etc/systemd/system/$unit.d/slow.conf
systemctl daemon-reload

# Started: systemctl returns when it is ready.
printf '[agent]\ninterval = "1s"\nrecord = "/var/lib/rocescope"\n' >/etc/rocescope/agent.toml
check "starts" systemctl start $unit
# Nothing of what follows can be true without it.
[ $failed = 0 ] || end
check "is active" systemctl --quiet is-active $unit
check "told systemd that it is ready" is "$(value Type) $(value SubState)" "notify running"
first=$(pid)
user=$(stat --format=%u "/proc/$first")
check "runs as a user of its own" test "$user" -ge 61184 -a "$user" -le 65519
check "metrics" eval 'scrape | grep -q "^rocescope_"'
check "packets are counted" traffic
check "a view attaches" attached

# The drop-in for more rights adds its capabilities; without it they are gone.
more=/etc/systemd/system/$unit.d/more-rights.conf
bounding() { sed -n 's/^CapBnd:[[:space:]]*//p' "/proc/$(pid)/status"; }
drop_in() { systemctl show --value --property=DropInPaths "$unit" | grep -F more-rights.conf; }
check "the drop-in is in the package" cp /usr/share/doc/rocescope/examples/more-rights.conf $more
check "systemd reads it" systemctl daemon-reload
check "restarts with it" systemctl restart $unit
check "it is loaded" drop_in
# CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE, CAP_NET_RAW, CAP_NET_ADMIN.
check "five capabilities" is "$(bounding)" 000000c000083000
check "packets are counted with it" traffic
rm $more
systemctl daemon-reload
check "restarts without it" systemctl restart $unit
check "three capabilities" is "$(bounding)" 000000c000001000
first=$(pid)
# 3: a check is critical.
check "doctor runs" eval 'rocescope doctor; case $? in 0 | 3) ;; *) false ;; esac'

# Reads its configuration again.
printf '[findings.ecn]\ncongestion_ratio = 0.5\n' >>/etc/rocescope/agent.toml
check "reloads" systemctl reload $unit
check "says so" log_has "/etc/rocescope/agent.toml reloaded"
check "as the same process" is "$(pid)" "$first"
check "active after it" systemctl --quiet is-active $unit
printf 'no table\n' >>/etc/rocescope/agent.toml
check "a wrong file: the reload returns" systemctl reload $unit
check "a wrong file is reported" log_has "the configuration stays as it was"
check "a wrong file ends nothing" is "$(pid) $(value SubState)" "$first running"
sed -i '$d' /etc/rocescope/agent.toml

# Restarted; the counts begin anew.
check "restarts" systemctl restart $unit
check "as another process" not is "$(pid)" "$first"
check "packets are counted after it" traffic
check "it recorded" eval 'find /var/lib/private/rocescope -type f | grep -q .'

# A process that stands still is ended by the watchdog and started again; on this kernel its filters outlive it.
printf '[Service]\nWatchdogSec=15s\nRestartSec=1s\n' >/etc/systemd/system/$unit.d/watchdog.conf
systemctl daemon-reload
check "restarts with a short watchdog" systemctl restart $unit
before=$(pid)
kill -STOP "$before"
for _ in {1..120}; do
    sleep 1
    [ "$(value NRestarts)" -ge 1 ] && [ "$(value SubState)" = running ] && break
done
check "the watchdog ended it" log_has "Watchdog timeout"
check "started again" is "$(value SubState)" running
check "as another process after the watchdog" not is "$(pid)" "$before"
check "packets are counted after the watchdog" traffic
before=$(pid)
restarts=$(value NRestarts)
kill -KILL "$before"
for _ in {1..120}; do
    sleep 1
    [ "$(value NRestarts)" -gt "$restarts" ] && [ "$(value SubState)" = running ] && break
done
check "started again after a kill" is "$(value SubState)" running
check "as another process after a kill" not is "$(pid)" "$before"
check "packets are counted after a kill" traffic

# Upgraded: the service gets the new program, the administrator keeps the configuration.
rm /etc/systemd/system/$unit.d/watchdog.conf
systemctl daemon-reload
check "restarts before the upgrade" systemctl restart $unit
before=$(pid)
sum=$(sha256sum </etc/rocescope/agent.toml)
check "upgrades" dpkg --install /test/second.deb
check "to the higher version" dpkg --compare-versions "$(dpkg-query --show --showformat='${Version}' rocescope)" gt \
    "$(dpkg-deb --field /test/first.deb Version)"
check "its service runs" is "$(value SubState)" running
check "with the new program" not is "$(pid)" "$before"
check "the configuration stays" is "$(sha256sum </etc/rocescope/agent.toml)" "$sum"
check "packets are counted after the upgrade" traffic

# Started by the first scrape.
check "stops" systemctl stop $unit
check "ended well" is "$(value Result)" success
check "nothing is attached" not eval 'tc filter show dev veth0 ingress | grep -q rocescope'
check "listens for it" systemctl start rocescope-agent.socket
check "is not started" not systemctl --quiet is-active $unit
# A scrape before the first reading is answered with 503.
check "the first scrape is answered" eval 'scrape | grep -q "^HTTP/1"'
for _ in {1..120}; do
    systemctl --quiet is-active $unit && break
    sleep 1
done
check "the first scrape started it" systemctl --quiet is-active $unit
check "metrics on the socket that systemd passed" eval 'scrape | grep -q "^rocescope_"'
check "a view attaches to one that a scrape started" attached
check "its socket is systemd's" is "$(systemctl show --value --property=TriggeredBy $unit)" rocescope-agent.socket
check "is enabled" systemctl enable $unit

# Gone.
check "is purged" dpkg --purge rocescope
check "ended with it" not systemctl --quiet is-active $unit
sleep 2
listing >$work/after 2>&1
check "nothing is left" diff $work/before $work/after

end
