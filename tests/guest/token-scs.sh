# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-token split-noop
# full
# scs-token works at system calls alone: bytes that are read from the disk or written, wherever they are, are limited to the
# rate. Reads from memory cost nothing, and overwriting dirty data is charged again.
. ./lib.sh

RATE=1000000
seconds=20

# amount FIO_OPTION…: bytes a second that a process with the rate reads or writes.
amount() {
	sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$G/b" \
		fio --name=x --filename=/tmp/mnt/x --size=64m --time_based=1 --runtime="$seconds" --overwrite=1 --norandommap=1 \
		--output-format=terse --output=/tmp/fio "$@" || fail "fio: $*: $(cat /tmp/fio)"
	awk -F';' '{ print ($7 + $48) * 1024 }' /tmp/fio
}

# keeps NAME FIO_OPTION…: the amount is the rate within 5 %, whatever it costs the disk.
keeps() {
	name=$1
	shift
	found=$(amount "$@")
	echo "$name $found"
	if [ "$found" -lt $((RATE * 95 / 100)) ] || [ "$found" -gt $((RATE * 105 / 100)) ]; then
		fail "$name: $found bytes a second, not $RATE"
	fi
}

# hooked FUNCTION NUMBER: soon the function is hooked (1) or not (0).
hooked() {
	for _ in $(seq 600); do
		found=$(grep -c "^$1 " /sys/kernel/tracing/enabled_functions) || true
		[ "$found" != "$2" ] || return 0
		sleep 0.1
	done
	fail "$1: $found hooks, not $2: $(cat /sys/kernel/tracing/enabled_functions)"
}

# Gates that have a cost while they are open exist only for policies that need them.
disk ssd
scheduler split-noop
hooked ext4_file_read_iter 0
hooked ext4_page_mkwrite 0
scheduler split-token
hooked ext4_file_read_iter 0
hooked ext4_page_mkwrite 1
scheduler scs-token
hooked ext4_file_read_iter 1
hooked ext4_page_mkwrite 0
scheduler split-noop
hooked ext4_file_read_iter 0
hooked ext4_file_write_iter 1
scheduler scs-token
weights
file_system -o no_prefetch_block_bitmaps,noatime
mkdir "$G/b"
fio --name=x --filename=/tmp/mnt/x --size=64m --rw=write --bs=1m --end_fsync=1 --output=/dev/null
echo $RATE >"$G/b/io.sluice.rate"

keeps "direct sequential read" --rw=read --bs=64k --direct=1
keeps "direct random read" --rw=randread --bs=4k --direct=1
keeps "direct random read of 16" --rw=randread --bs=4k --direct=1 --numjobs=16 --thread --group_reporting=1
keeps "deep io_uring read" --rw=randread --bs=4k --direct=1 --ioengine=io_uring --iodepth=16
keeps "sequential write" --rw=write --bs=64k
keeps "random write" --rw=randwrite --bs=4k
keeps "write of dirty memory" --rw=write --bs=4k --size=1m --invalidate=0
seconds=2
found=$(amount --rw=read --bs=4k --size=1m --invalidate=0 --pre_read=1)
[ "$found" -gt $((RATE * 20)) ] || fail "reads from memory: $found bytes a second"

# split-token holds what scs-token lets go, and the other way round, as soon as it is chosen. Data that is dirty by then would
# be charged when it is written.
sync
scheduler split-token
seconds=10
found=$(amount --rw=randread --bs=4k --direct=1)
[ "$found" -lt $((RATE * 3 / 4)) ] || fail "with split-token random reads are $found bytes a second"
# Making a megabyte dirty costs four, which are paid first.
seconds=8
found=$(amount --rw=write --bs=4k --size=1m --invalidate=0)
[ "$found" -gt $((RATE * 20)) ] || fail "with split-token writes of dirty memory are $found bytes a second"
umount /tmp/mnt
scheduler none
rmmod split-token
