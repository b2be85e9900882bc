#!/bin/sh
# First process of a bare root: an ordinary user who follows the README. What runs is in /fresh/parts.
set -u
cd /
umount -l /.host && rmdir /.host
user=engineer
failed=0
export DEBIAN_FRONTEND=noninteractive

now() { cut -d' ' -f1 /proc/uptime; }
say() { echo "fresh: $*"; }

# Runs a command of the user: name, command. Its output is in /tmp/NAME.
part() {
    start=$(now)
    say "$1: $2"
    # The limit is for a hang, not for a slow machine.
    timeout --kill-after=10 7200 su -l "$user" -c "$2" </dev/null >"/tmp/$1" 2>"/tmp/$1.err"
    status=$?
    seconds=$(echo "$start $(now)" | awk '{ print int($2 - $1 + 0.5) }')
    if [ $status = 0 ]; then
        say "$1: ok ($seconds s; load $(cut -d' ' -f1-3 /proc/loadavg), $(nproc) processors)"
        return 0
    fi
    say "$1: FAILED with $status ($seconds s): $2"
    tail -n 400 "/tmp/$1"
    tail -n 400 "/tmp/$1.err"
    failed=1
    return 1
}

# What a part must have said: its name, pattern.
has() {
    grep -qE -- "$2" "/tmp/$1" "/tmp/$1.err" && return
    say "$1: FAILED: no line has '$2'"
    cat "/tmp/$1" "/tmp/$1.err"
    failed=1
}

# What the tests skipped has a reason in xtask/src/fresh/skips: the list before their number, since unit tests of xtask
# print such lines too.
explained() {
    cat "/tmp/$1" "/tmp/$1.err" |
        awk '/^xtask: SKIP/ { list = list $0 "\n"; next } /^xtask: [0-9]+ skipped/ { printf "%s", list } { list = "" }' |
        sed 's/^xtask: //' | sort -u >/tmp/skipped
    grep -vE '^(#|$)' /fresh/skips >/tmp/reasons
    grep -vE -f /tmp/reasons /tmp/skipped >/tmp/unexplained || return 0
    say "$1: FAILED: skipped without a reason in xtask/src/fresh/skips:"
    cat /tmp/unexplained
    failed=1
}

# The report of the demonstration has a finding of every episode.
demonstrated() {
    head -n 4 /tmp/demo
    for finding in ecn.congestion loss.before_tap rnr.slow_receiver links.imbalance; do
        has demo "\[$finding\]"
    done
}

useradd --create-home --shell /bin/bash $user
echo "$user ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/fresh
chmod 440 /etc/sudoers.d/fresh
home=/home/$user
cat /fresh/settings >>$home/.profile
[ ! -f /fresh/cargo.toml ] || install -D -o $user -g $user -m 600 /fresh/cargo.toml $home/.cargo/config.toml
chown -R $user: $home

# shellcheck source=/dev/null
. /fresh/parts
exit $failed
