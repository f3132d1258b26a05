# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-noop
# stack
# debug
# Calls on a file system are held for the disks below its stack: for each of them that holds calls, one after the other, and once.
. ./lib.sh
. ./stack.sh

# at DISK COMMAND…: run one of lib.sh's functions for a disk.
at() {
	_disk=$1
	Q=/sys/block/simdisk-$1/queue
	shift
	"$@"
}

# ends PROCESS: wait until it has ended, for 10 s at most.
ends() {
	for _ in $(seq 1000); do
		kill -0 "$1" 2>/dev/null || return 0
		sleep 0.01
	done
	fail "process $1 is held: $(cat /sys/kernel/debug/split/held)"
}

# put NAME: begin to write a file. Sets WRITER.
put() {
	dd if=/tmp/text of="/tmp/mnt/$1" bs=64k conv=notrunc status=none &
	WRITER=$!
}

weights
for disk in 1 0; do
	DISK=d$disk disk ssd
done
head -c 65536 /dev/urandom >/tmp/text

# One disk below two layers.
stack crypt-lvm
at d0 scheduler split-noop
file_system
: >/tmp/mnt/file
sync
for kind in write fsync rename; do
	at d0 hold $kind
	case $kind in
	write) put file ;;
	fsync) sync /tmp/mnt/file & WRITER=$! ;;
	rename) mv /tmp/mnt/file /tmp/mnt/other & WRITER=$! ;;
	esac
	at d0 wait_held 1 $kind
	at d0 hold
	ends "$WRITER"
done
cmp /tmp/text /tmp/mnt/other
umount /tmp/mnt
dmsetup remove_all
at d0 scheduler none

# Two disks.
DEV=/dev/simdisk-d0
stack raid1
for disk in d0 d1; do
	at $disk scheduler split-noop
done
file_system
: >/tmp/mnt/file
sync
at d1 hold write
put file
at d1 wait_held 1 write
at d1 hold
ends "$WRITER"

# A write is held on its way back, an fsync at its gate.
for kind in write fsync; do
	at d0 hold $kind
	at d1 hold $kind
	case $kind in
	write) put file ;;
	fsync) sync /tmp/mnt/file & WRITER=$! ;;
	esac
	until grep -q $kind /sys/kernel/debug/split/held; do sleep 0.01; done
	first=$(sed -n "s/^simdisk-\(d.\) $kind.*/\1/p" /sys/kernel/debug/split/held)
	second=d1
	[ "$first" = d0 ] || second=d0
	echo 0 >"/sys/block/simdisk-$first/queue/iosched/hold" # its gate stays closed, and lets nobody wait
	at $second wait_held 1 $kind
	kinds $kind >"/sys/block/simdisk-$first/queue/iosched/hold"
	at $second hold
	ends "$WRITER"
	at "$first" hold
done
cmp /tmp/text /tmp/mnt/file

# Each part of a splice is held anew, on each disk.
cat >/tmp/splice.py <<'P'
import os, sys
source = os.open("/tmp/text", os.O_RDONLY)
target = os.open("/tmp/mnt/spliced", os.O_WRONLY | os.O_CREAT)
left = 65536
while left:
    left -= os.sendfile(target, source, None, left)
P
at d0 hold write
at d1 hold write
python3 /tmp/splice.py &
writer=$!
rounds=0
while kill -0 $writer 2>/dev/null; do
	for disk in d0 d1; do
		at $disk hold
		sleep 0.02
		at $disk hold write
	done
	rounds=$((rounds + 1))
	[ $rounds -lt 500 ] || fail "a splice isn't done: $(cat /sys/kernel/debug/split/held)"
done
wait $writer
at d0 hold
at d1 hold
cmp /tmp/text /tmp/mnt/spliced

# A killed call goes.
at d0 hold write
at d1 hold write
put file
until grep -q write /sys/kernel/debug/split/held; do sleep 0.01; done
kill -KILL "$WRITER"
ends "$WRITER"
wait "$WRITER" || :
! grep . /sys/kernel/debug/split/held || fail "a killed call is held"
at d0 hold
at d1 hold

# Without the scheduler of one disk the other one holds calls.
at d0 scheduler none
at d1 hold write
put file
at d1 wait_held 1 write
at d1 hold
ends "$WRITER"
at d1 scheduler none
put file
ends "$WRITER"
umount /tmp/mnt
expect_dmesg_clean
