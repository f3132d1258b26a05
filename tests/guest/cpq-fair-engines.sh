# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: cpq
# A process beside one with 50 readers has half of the tags, whatever way it queues its I/O: many at once, from a thread of the
# kernel, without waiting. The readers keep the tags that they need.
. ./lib.sh

accounts=/sys/kernel/debug/block/simdisk-d0/sched/accounts

# start NAME OPTION…: start fio; its number in $process.
start() {
	name=$1
	shift
	fio --thread --name="$name" --filename="$DEV" --direct=1 --rw=randread --bs=4k --size=64m --time_based --runtime=60 \
		--output="/out/$name" "$@" &
	process=$!
}

# most PROCESS: the most tags that a process has in some looks, in $most.
most() {
	most=0
	for _ in $(seq 100); do
		while read -r what number _ used _; do
			if [ "$what $number" = "process $1" ] && [ "${used#used=}" -gt "$most" ]; then
				most=${used#used=}
			fi
		done <$accounts
	done
}

# try OPTION…
try() {
	start other --iodepth=256 "$@"
	other=$process
	for _ in $(seq 400); do
		most $other
		[ "$most" -lt 50 ] || break
	done
	sleep 0.1
	before=$(awk '$1 == "syscr:" { print $2 }' /proc/$readers/io)
	most $other
	others=$most
	most $readers
	after=$(awk '$1 == "syscr:" { print $2 }' /proc/$readers/io)
	echo "$*: $others tags, readers $most and $((after - before)) reads"
	# A request that must not wait is admitted if the map's first places are free: at most four more than the 64.
	if [ "$others" -lt 50 ] || [ "$others" -gt 68 ]; then
		fail "$*: $others tags, not 50 to 68"
	fi
	[ "$most" -ge 45 ] || fail "$*: the readers have $most tags"
	kill $other || fail "$*: $(cat /out/other)"
	wait $other || :
}

disk emmc data=none
scheduler cpq
echo 128 >"$Q/nr_requests"
start readers --ioengine=psync --numjobs=50
readers=$process
try --ioengine=libaio
try --ioengine=libaio --iodepth_batch_submit=32 --iodepth_batch_complete_min=16
try --ioengine=io_uring
try --ioengine=io_uring --iodepth_batch_submit=32 --iodepth_batch_complete_min=16
try --ioengine=io_uring --sqthread_poll
try --ioengine=io_uring --force_async=1
kill $readers
wait $readers || :
[ "$(cat $accounts)" = "tags=128 used=0 waiting=0" ] || fail "in the end: $(cat $accounts)"
scheduler none
