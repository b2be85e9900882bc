#!/bin/sh
# First process of a mount namespace: the bare root of a distribution as a tar file.
# FOLDER SUITE ARCHIVE SCRIPT KEYRING SOURCES TAR
set -eu
folder=$1 suite=$2 archive=$3 script=$4 keyring=$5 sources=$6 tar=$7
tree=$folder/root
mkdir "$tree"
mount -t proc proc /proc
# What every image of these distributions has; and sudo, with which an ordinary user becomes root.
debootstrap --variant=minbase --include=ca-certificates,sudo --keyring="$keyring" "$suite" "$tree" "$archive" \
    "/usr/share/debootstrap/scripts/$script" >"$folder/log" 2>&1 || {
    tail -n 20 "$folder/log" >&2
    exit 1
}
cp "$sources" "$tree/etc/apt/sources.list"
rm -rf "$tree"/var/cache/apt/archives/*.deb "$tree"/var/lib/apt/lists/*
tar --create --file="$tar.partial" --directory="$tree" --numeric-owner --xattrs .
mv "$tar.partial" "$tar"
