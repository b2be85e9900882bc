#!/bin/bash
# Runs a container of the bundle in a network namespace of its own, with a link whose far end sends RoCE packets.
set -euo pipefail
bundle=$1 link=$2
host=rocescope-$$ far=rocescope-far-$$ container=rocescope-$$
port=14791
export PATH=$PATH:/usr/sbin:/sbin

fail() {
    echo "container: FAILED: $*" >&2
    cat "$bundle/said" >&2
    exit 1
}

# Its processes end with it, and the namespaces with them.
finish() {
    runc --root "$bundle/state" delete --force "$container" 2>/dev/null || true
    ip netns delete "$host" 2>/dev/null || true
    ip netns delete "$far" 2>/dev/null || true
}
trap finish EXIT

inside() { nsenter --net="/run/netns/$host" "$@"; }

scrape() {
    inside bash -c "exec 3<>/dev/tcp/127.0.0.1/$port && printf 'GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3 && timeout 30 cat <&3" 2>/dev/null
}

counted() { scrape | sed -n "s/^rocescope_link_packets_total{link=\"$link\",direction=\"ingress\"} //p"; }

wait_for() {
    local what=$1
    shift
    for _ in $(seq 120); do
        "$@" && return
        kill -0 "$runner" 2>/dev/null || fail "the container ended while waiting for $what"
        sleep 0.5
    done
    fail "no $what after a minute"
}

ip netns add "$host"
ip netns add "$far"
ip link add "$link" netns "$host" type veth peer name "$link" netns "$far"
for end in "$host 10.9.0.1" "$far 10.9.0.2"; do
    read -r name address <<<"$end"
    ip -n "$name" link set lo up
    ip -n "$name" address add "$address/24" dev "$link"
    ip -n "$name" link set "$link" up
done

inside runc --root "$bundle/state" run --bundle "$bundle" "$container" </dev/null >"$bundle/said" 2>&1 &
runner=$!
answers() { scrape | grep -q '^rocescope_'; }
wait_for "metrics" answers

# What the container gives, and what the program keeps of it: all threads have given everything up.
pid=$(runc --root "$bundle/state" state "$container" | sed -n 's/.*"pid": \([0-9]*\).*/\1/p')
[ -n "$pid" ] || fail "runc names no process"
grep -qE '^[0-9]+ [0-9]+ [0-9:]+ [^ ]+ / ro[, ]' "/proc/$pid/mountinfo" || fail "the root of the container can be written to"
[ "$(readlink "/proc/$pid/ns/pid")" = "$(readlink /proc/self/ns/pid)" ] || fail "other processes than the host's"
for status in /proc/"$pid"/task/*/status; do
    grep -q '^NoNewPrivs:[[:space:]]*1$' "$status" || fail "$status: new privileges"
    # CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN are the most that a thread may have.
    held=$(sed -n 's/^CapBnd:[[:space:]]*//p' "$status")
    ((0x$held & ~0xc000001000)) && fail "$status: capabilities $held"
done

# Twenty packets of a queue pair: BTH of an RC SEND only, its PSN, eight bytes, ICRC.
ip netns exec "$far" bash -c 'for n in {33..52}; do
    psn=$(printf "\\\\x%02x" "$n")
    printf "\x04\x00\xff\xff\x00\x00\x00\x17\x80\x00\x00${psn}payload.\x01\x02\x03\x04" >/dev/udp/10.9.0.1/4791
done'
all() { [ "$(counted)" = 20 ]; }
wait_for "20 packets" all

runc --root "$bundle/state" kill "$container" TERM
status=0
wait "$runner" || status=$?
[ "$status" = 0 ] || fail "it ended with $status"
echo "container: export counted 20 packets with three capabilities, a read-only root and no new privileges"
