# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: cpq
# Asynchronous writes take async_depth of 128 parts of the tags, also after the number of tags has changed; reads take all.
. ./lib.sh

# look: keeps the most tags in use so far in $busy.
look() {
	while read -r line; do
		case $line in
		busy=*) [ "${line#busy=}" -le "$busy" ] || busy=${line#busy=} ;;
		esac
	done <"$tags"
}

# most: the most tags in use at once while the page cache is written back, in $busy.
most() {
	echo 0 >/proc/sys/vm/dirty_writeback_centisecs
	dd if=/dev/zero of="$DEV" bs=64k count=256 conv=notrunc status=none
	busy=0
	echo 1 >/proc/sys/vm/dirty_writeback_centisecs
	for _ in $(seq 2000); do
		look
	done
	sync "$DEV"
}

# reading: the most tags in use while fio reads 64 deep, in $busy.
reading() {
	fio --thread --filename="$DEV" --direct=1 --ioengine=libaio --iodepth=64 --rw=randread --bs=4k --size=64m \
		--time_based --runtime=1 --output=/out/fio --name=read &
	busy=0
	while kill -0 $! 2>/dev/null; do
		look
	done
	wait $!
}

disk ssd data=none
scheduler cpq
echo 2 >"$Q/nomerges"
echo 16 >"$Q/max_sectors_kb"
# Switch off the kernel's own throttle of writeback.
echo 0 >"$Q/wbt_lat_usec"
tags=/sys/kernel/debug/block/${DEV#/dev/}/hctx0/sched_tags
# The last close of a disk waits until all is written. While this descriptor is open, writeback runs and no process waits.
exec 3<>"$DEV"
echo 1 >/proc/sys/vm/dirty_expire_centisecs

for case in "64 96 48" "64 32 16" "128 96 96" "128 32 32" "64 128 64"; do
	# shellcheck disable=SC2086  # words on purpose
	set -- $case
	echo "$1" >"$Q/nr_requests"
	echo "$2" >"$Q/iosched/async_depth"
	most
	echo "nr_requests $1, async_depth $2: $busy in use"
	[ "$busy" -le "$3" ] || fail "more than $3"
	[ "$busy" -gt $(($3 * 3 / 4)) ] || fail "less than $3"
done
echo 64 >"$Q/nr_requests"
echo 1 >"$Q/iosched/async_depth"
reading
[ "$busy" -gt 60 ] || fail "reads have $busy of 64 tags"
