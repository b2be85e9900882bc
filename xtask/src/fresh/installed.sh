# Without Rust: the package is installed, used as a user's first five minutes go, and purged.
# shellcheck shell=sh disable=SC2154
listing() {
    find / -xdev \( -path /fresh -o -path /tmp -o -path /run -o -path /var/log -o -path /var/cache -o -path /var/lib/apt \
        -o -path /var/lib/dpkg -o -path "$home" -o -path /etc/ld.so.cache \) -prune -o -printf '%y %m %U:%G %p %l\n' | sort
    cat /etc/passwd /etc/group
    ls -A /run/rocescope /sys/fs/bpf 2>&1
}

for program in cargo rustc cc; do
    command -v $program >/dev/null && { say "FAILED: this root has $program"; failed=1; }
done
# tcpdump makes the capture.
part requirement 'sudo apt-get update --quiet=2 && sudo apt-get install --yes --quiet=2 tcpdump'
listing >/tmp/before
part install 'sudo apt-get install --yes --quiet=2 /fresh/rocescope.deb'
part version 'rocescope --version' && has version '^rocescope [0-9]'
part first 'rocescope' && cat /tmp/first
# 3: a check is critical, which depends on the machine.
part doctor 'rocescope doctor || [ $? = 3 ]' && has doctor 'kernel'
# A queue pair that sends 20 packets over the loopback interface: BTH of an RC SEND only, its PSN, eight bytes, ICRC.
cat >/tmp/send.sh <<'SEND'
sudo timeout 30 tcpdump --immediate-mode -U -c 20 -i lo -w roce.pcap udp port 4791 2>said &
for n in $(seq 100); do grep -q listening said && break; sleep 0.1; done
for n in $(seq 33 52); do
    printf "\x04\x00\xff\xff\x00\x00\x00\x17\x80\x00\x00\x$(printf %02x "$n")payload.\x01\x02\x03\x04" >/dev/udp/127.0.0.1/4791
done
wait $!
SEND
part capture 'bash /tmp/send.sh'
part replay 'rocescope replay roce.pcap' && has replay '^RoCE +20 packets'
part demo 'sudo rocescope demo' && demonstrated
part purge 'sudo apt-get purge --yes --quiet=2 rocescope'
listing >/tmp/after
if diff /tmp/before /tmp/after >/tmp/left; then
    say "purge: nothing is left"
else
    say "purge: FAILED: what differs from before the installation:"
    cat /tmp/left
    failed=1
fi
