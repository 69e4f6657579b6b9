#!/bin/sh
# Run a command in a root folder of another architecture. Started by __main__.py inside namespaces of its own (user,
# mount, process), so that nothing here is seen from outside, all ends with it, and no root is needed.
#
#   enter.sh ROOT REPOSITORY STATE BINFMT COMMAND...
#
# BINFMT is a line for binfmt_misc: its flag F has the kernel open the emulator now, outside the root folder.
set -eu
root=$1 repository=$2 state=$3 binfmt=$4
shift 4

mount --bind "$root" "$root"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/tmp"
mount --bind "$state" "$root/state"
mount --bind "$repository" "$root/repository"
mount -o remount,ro,bind "$root/repository"
mount -o remount,ro,bind "$root"
mount -t binfmt_misc binfmt_misc "$root/proc/sys/fs/binfmt_misc"
printf '%s' "$binfmt" >"$root/proc/sys/fs/binfmt_misc/register"

# Not by exec: this shell is process 1 here, and reaps what tests leave behind.
chroot "$root" /usr/bin/env -i -C /repository PATH=/usr/sbin:/usr/bin HOME=/tmp LC_ALL=C.UTF-8 \
    PYTHONPYCACHEPREFIX=/state/pycache PYTHONPATH=/repository/services:/repository:/state/installed \
    OPJOULE_TESTS_SLOWER=10 HYPOTHESIS_STORAGE_DIRECTORY=/tmp/hypothesis "$@"
