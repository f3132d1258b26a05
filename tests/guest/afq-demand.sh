# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: afq
# A client that asks for less than its share gets what it asks for, soon, and the others use the rest of the disk. Weights
# decide between clients that together ask for more than the disk can do.
. ./lib.sh

# run SECONDS FIO_OPTION…: jobs, reported in /tmp/parts as "NAME IOS MEAN_US": I/Os, and the mean latency.
run() {
	seconds=$1
	shift
	fio --time_based=1 --runtime="$seconds" --zero_buffers=1 --output-format=terse --output=/tmp/fio.terse "$@" || fail "fio: $*"
	awk -F';' -v seconds="$seconds" '{ printf "%s %d %d\n", $3, ($8 + $49) * seconds, $40 + $81 }' /tmp/fio.terse >/tmp/parts
	cat /tmp/parts
}

# part NAME: its I/Os.
part() {
	awk -v name="$1" '$1 == name { print $2 }' /tmp/parts
}

# latency NAME: its mean latency in us.
latency() {
	awk -v name="$1" '$1 == name { print $3 }' /tmp/parts
}

# readers FIO_OPTION…: random readers of 16 KiB past the page cache, for a second.
readers() {
	run 1 --filename="$DEV" --direct=1 --ioengine=libaio --rw=randread --bs=16k "$@"
}

# at_least WHAT IS LEAST
at_least() {
	[ "$2" -ge "$3" ] || fail "$1: $2 instead of $3"
}

disk ssd data=none
scheduler afq
readers --name=deep --iodepth=32
deep=$(part deep)
readers --name=single
alone=$(latency single)
single=$(part single)

# A reader with one request at a time does not limit a reader with 32.
readers --name=deep --iodepth=32 --name=single
at_least "both readers" $(($(part deep) + $(part single))) $((deep * 92 / 100))
at_least "the reader with one request at a time" "$(part single)" $((single / 3))
[ "$(latency single)" -le $((alone * 4)) ] || fail "the reader with one request waits $(latency single) us, alone $alone"

# It limits a reader of lower weight, but not to its own speed.
readers --name=deep --iodepth=32 --prio=6 --name=single --prio=0
at_least "both readers of unequal weights" $(($(part deep) + $(part single))) $((deep * 70 / 100))
at_least "the one of higher weight" "$(part single)" $((single * 60 / 100))

# Nor does a reader that pauses limit others, and it is served soon.
readers --name=deep --iodepth=32 --name=sparse --thinktime=5ms
at_least "the deep reader beside a sparse one" "$(part deep)" $((deep * 90 / 100))
[ "$(latency sparse)" -le $((alone * 6)) ] || fail "the sparse reader waits $(latency sparse) us, alone $alone"

# A reader whose think time is shorter than the idle wait of the device.
readers --name=deep --iodepth=32 --name=short --thinktime=700us
at_least "the deep reader beside one with pauses" "$(part deep)" $((deep * 60 / 100))
at_least "both beside pauses" $(($(part deep) + $(part short))) $((deep * 90 / 100))

# Weights decide between two that read all the time.
run 1 --filename="$DEV" --direct=1 --ioengine=psync --rw=read --bs=128k --name=high --prio=0 --name=low --prio=6 --offset=1g
at_least "the high reader" "$(part high)" $(($(part low) * 3))
readers --iodepth=32 --name=high --prio=0 --name=low --prio=6
at_least "the high deep reader" "$(part high)" $(($(part low) * 3))

# A logger that makes a page dirty every 10 ms does not limit a database that makes all writes durable.
scheduler none
DISK=d1 disk ssd
scheduler afq
file_system
sync_loop="--directory=/tmp/mnt --ioengine=psync --bs=4k --size=8m --name=database --rw=randwrite --fsync=1"
# shellcheck disable=SC2086
run 2 $sync_loop
alone=$(part database)
# shellcheck disable=SC2086
run 2 $sync_loop --name=logger --rw=write --fsync=0 --thinktime=10ms
at_least "the database beside a logger" "$(part database)" $((alone * 85 / 100))
at_least "the logger" "$(part logger)" 150
# Nor does a logger that stores to a mapped file.
# shellcheck disable=SC2086
run 2 $sync_loop --name=logger --rw=write --fsync=0 --thinktime=10ms --ioengine=mmap
at_least "the database beside a mapped logger" "$(part database)" $((alone * 85 / 100))
rm /tmp/mnt/database*
sync

# written: sectors that were written to the disk, and the time in seconds.
written() {
	echo "$(awk '{ print $7 }' "/sys/block/${DEV#/dev/}/stat") $(cut -d' ' -f1 /proc/uptime)"
}

# writers SCHEDULER: sets $rate to the sectors a second that eight processes write through the page cache. Some may wait for long
# after their time is over.
writers() {
	scheduler "$1"
	before=$(written)
	run 8 --directory=/tmp/mnt --ioengine=psync --bs=128k --size=20m --rw=write --name=writers --numjobs=8
	rate=$(echo "$before $(written)" | awk '{ print int(($3 - $1) / ($4 - $2)) }')
	sync
}

# Where their calls are held for a share the disk writes most of what it does without a scheduler.
writers none
free=$rate
writers afq
echo "sectors a second: $rate, without a scheduler $free"
at_least "eight writers" "$rate" $((free * 80 / 100))
umount /tmp/mnt
scheduler none
