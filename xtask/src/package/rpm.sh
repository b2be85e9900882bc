#!/bin/bash
# Installs the .rpm in a root of its own, upgrades it, removes it, and looks for what is left. SHELL runs its scripts.
set -euo pipefail
root=$1 shell=$2 first=$3 second=$4
config=$root/etc/rocescope/agent.toml
export PATH=$PATH:/usr/sbin:/sbin

fail() {
    echo "rpm: FAILED: $*" >&2
    exit 1
}

in_root() { rpm --root "$root" --dbpath /var/lib/rpm "$@"; }
# Debian's rpm asks whether it is meant.
change() {
    local means=()
    rpm --help | grep -q force-debian && means=(--force-debian)
    in_root "${means[@]}" "$@"
}
listing() { (cd "$root" && find . -path ./var/lib/rpm -prune -o -printf '%y %m %U:%G %p %l\n' | sort); }
version() { in_root --query --queryformat '%{VERSION}' rocescope; }

mkdir -p "$root"/{bin,tmp,var/lib/rpm,var/tmp,run}
# Folders that packages of the distribution own.
rpm --query --package --list "$first" | sed -n 's,/[^/]*$,,p' | grep -v /rocescope | while read -r folder; do
    mkdir -p "$root$folder"
done
cp "$shell" "$root/bin/sh"
in_root --initdb
listing >"$root.before"

change --install --nodeps "$first"
in_root --verify --nodeps rocescope || fail "files differ from those of the package"
chroot "$root" /usr/bin/rocescope --version >/dev/null || fail "the program does not run"
before=$(version)
[ -f "$config" ] || fail "no configuration"
cp -p "$config" "$root.config"
echo '# of the administrator' >>"$config"

change --upgrade --nodeps "$second"
[ "$(version)" != "$before" ] || fail "the version is still $before"
grep -q 'of the administrator' "$config" || fail "the configuration was replaced"
[ "$(in_root --query --all | grep -c '^rocescope-')" = 1 ] || fail "both versions are installed"

cp -p "$root.config" "$config"
change --erase rocescope
listing >"$root.after"
diff "$root.before" "$root.after" || fail "what is left, or gone"
echo "rpm: installed, upgraded and removed; nothing is left"
