#!/bin/sh
# As root: runs a script as the first process of namespaces of its own, and removes its folder afterwards.
# $1: the folder; $2: the script, whose arguments follow. Ends all when standard input ends: its writer is gone then, however it went.
set -u
folder=$1
shift
remove() {
    for _ in 1 2 3 4 5; do
        rm -rf --one-file-system -- "$1" && return
        sleep 1
    done
    echo "fresh: cannot remove $1" >&2
}
# Those of another run are not to be removed while it goes on.
exec 9<"$folder/files"
flock --nonblock 9 || {
    echo "fresh: another run uses $folder" >&2
    exit 1
}
# An interrupt ends what runs inside; the folder goes all the same.
trap : INT HUP TERM
remove "$folder/root" # of a run that was killed
exec 3<&0 </dev/null
(
    trap '' INT HUP TERM # which may be meant for the group of processes, this one among them
    cat <&3 >/dev/null
    kill -KILL "$(cat "$folder/pid")" 2>/dev/null
) >/dev/null 2>&1 &
watch=$!
exec 3<&-
# In the foreground: what a shell starts in the background ignores interrupts.
# shellcheck disable=SC2016
sh -c 'echo $$ >"$0/pid"; exec setpriv --pdeathsig KILL unshare --mount --pid --uts --ipc --fork --kill-child sh "$@"' "$folder" "$@"
status=$?
kill -KILL "$watch" 2>/dev/null
remove "$folder"
exit "$status"
