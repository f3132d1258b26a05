# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2016  # it is perl that expands
# modules: split-noop
# debug
# Charges stay right when pages move, blocks are smaller than pages, there is no journal, the hooks come and go, or a drive
# completes a part of a request.
. ./lib.sh

# file_system_of SIZE [OPTION…]: make another ext4, with blocks of that size.
file_system_of() {
	size=$1
	shift
	mkfs.ext4 -q -F -b "$size" -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$@" "$DEV" 200m
	mount "$DEV" /tmp/mnt
}

# pieces NAME FILE NUMBER: overwrite NUMBER blocks of 1 KiB of a file.
pieces() {
	as "$1" perl -e 'open(my $file, "+<", $ARGV[0]) or die; syswrite($file, "x" x 1024) // die for 1 .. $ARGV[1]' "$2" "$3"
}

weights
disk ssd
scheduler split-noop
mkdir /tmp/mnt

# Half of the pages lie between dirty ones; the kernel moves them together.
file_system_of 4096
truncate -s 200m /tmp/mnt/hole
as moved perl -e 'open(my $hole, "<", "/tmp/mnt/hole"); open(my $file, ">", "/tmp/mnt/moved");
	for (1 .. 2000) { sysread($hole, my $buffer, 98304); syswrite($file, "x" x 4096) }'
rm /tmp/mnt/hole
expect_charged moved dirty 8192000
echo 1 >/proc/sys/vm/compact_memory
[ "$(awk '/pgmigrate_success/ { print $2 }' /proc/vmstat)" -gt 1000 ] || fail "few pages were moved: $(grep migr /proc/vmstat)"
sync
expect_charged moved data 8192000
expect_charged moved dirty 0
umount /tmp/mnt

# Four blocks a page: the estimate is for a whole dirty page, the charge for what is written.
file_system_of 1024
dd if=/dev/zero of=/tmp/mnt/small bs=1k count=400 conv=fsync status=none
pieces small /tmp/mnt/small 400
expect_charged small dirty 409600
for n in $(seq 20); do
	: >"/tmp/mnt/few$n"
	pieces few "/tmp/mnt/few$n" 1
done
expect_charged few dirty 81920
rm /tmp/mnt/few1?
expect_charged few dirty 40960
as durable sync
expect_charged durable metadata 0
expect_charged few data 10240
expect_charged few dirty 0
expect_charged small data 409600
expect_charged small dirty 0
umount /tmp/mnt

# A process that makes another's file durable, and writes its own, pays for its own.
file_system_of 4096 -O ^has_journal
as writer dd if=/dev/zero of=/tmp/mnt/writer bs=64k count=16 status=none
as syncer sh -c 'sync /tmp/mnt/writer && dd if=/dev/zero of=/tmp/mnt/syncer bs=64k count=64 conv=fsync status=none'
expect_charged writer data $((1 << 20))
expect_charged syncer data $((4 << 20))

# The hooks are removed a second after the last policy. A policy that is chosen in that moment has all of them, and so have its
# tags.
for delay in 1 1.05 1.1 1.2 1.4; do
	echo none >"$Q/scheduler"
	sleep $delay
	echo split-noop >"$Q/scheduler"
	as "late$delay" dd if=/dev/zero "of=/tmp/mnt/late$delay" bs=64k count=16 conv=fsync status=none
	expect_charged "late$delay" data $((1 << 20))
done
expect_charged nobody data 0
umount /tmp/mnt

# The drive completes half of every 13th read, and is asked for the rest, which is charged once.
load sd_mod
modprobe scsi_debug dev_size_mb=16 max_queue=8
for _ in $(seq 50); do
	DEV=/dev/$(ls /sys/bus/pseudo/drivers/scsi_debug/adapter0/host*/target*/*/block 2>/dev/null) || :
	[ ! -b "$DEV" ] || break
	sleep 0.1
done
Q=/sys/block/${DEV#/dev/}/queue
scheduler split-noop
echo 256 >/sys/bus/pseudo/drivers/scsi_debug/opts
echo 13 >/sys/bus/pseudo/drivers/scsi_debug/every_nth
as requeued dd if="$DEV" of=/dev/null bs=4k count=1000 iflag=direct status=none
expect_charged requeued read 4096000
