# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-deadline
# Requests that wait behind a busy device are served by place while nothing expires. A read that expires is served in time, not
# sooner. A late read with a longer deadline doesn't delay one with a shorter deadline.
. ./lib.sh

tracing=/sys/kernel/tracing

# reads NAME GROUP FIO_OPTION…: reads in the background; reported in /tmp/NAME.json.
reads() {
	name=$1 group=$2
	shift 2
	# shellcheck disable=SC2016
	sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$G/$group" fio --name="$name" --filename="$DEV" --direct=1 --bs=4k \
		--ioengine=libaio --rw=randread --output-format=json --output="/tmp/$name.json" "$@" &
}

# between NAME LEAST MOST: the longest read of NAME took between LEAST and MOST ms.
between() {
	took=$(python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["jobs"][0]["read"]["lat_ns"]["max"] // 10**6)' "/tmp/$1.json")
	echo "$1 $took ms"
	if [ "$took" -lt "$2" ] || [ "$took" -gt "$3" ]; then
		fail "$1: a read takes $took ms, not $2 to $3: $(cat /sys/kernel/debug/block/simdisk-d0/sched/*s*)"
	fi
}

# The device has one request at a time, each for 50 ms.
disk ssd queue_depth=1 slots=1 slowdown=1000 read_cmd_ns=50000 write_cmd_ns=50000 read_lsb_ns=1 read_msb_ns=1 \
	read_latency_ns=0 data=none
scheduler split-deadline
echo 64 >"$Q/nr_requests"
echo 2 >"$Q/nomerges"
echo 60000 >"$Q/iosched/read_deadline"
weights
mkdir "$G/a" "$G/b"
# The scheduler learns the duration of a read.
reads warm b --size=64m --number_ios=20
wait

echo 1 >$tracing/events/block/block_rq_issue/enable
echo >$tracing/trace
reads place b --size=64m --iodepth=14 --iodepth_batch=14 --number_ios=14
wait
echo 0 >$tracing/events/block/block_rq_issue/enable
# The sweep goes up from its position, and starts again below once.
awk '{
	for (at = 1; at <= NF; at++)
		if ($at == "block_rq_issue:")
			break
	if (at > NF)
		next
	sector = $(at + 5) + 0
	down += n++ && sector < last
	last = sector
} END { print n " reads, " down " times down"; exit !(n == 14 && down <= 2) }' $tracing/trace >/tmp/verdict ||
	fail "not by place: $(cat /tmp/verdict)"

# By its place it would be the last of 25.
echo read=400000 >"$G/a/io.sluice.deadline"
reads many b --offset=64m --size=64m --iodepth=24 --iodepth_batch=24 --number_ios=24
sleep 0.15
reads one a --size=1m --number_ios=1
wait
between one 200 500
between many 1100 1500

# A deadline of a second for two seconds' work is missed.
echo read=1000000 >"$G/b/io.sluice.deadline"
echo read=250000 >"$G/a/io.sluice.deadline"
reads late b --offset=64m --size=64m --iodepth=40 --iodepth_batch=40 --number_ios=40
sleep 1.3
reads short a --size=64m --number_ios=4
wait
between short 50 350
between late 1900 2500

# Among reads with the same deadline one is served in time that a sequential reader, always nearer, would leave behind.
echo read=600000 >"$G/b/io.sluice.deadline"
reads flow b --rw=read --offset=64m --size=64m --iodepth=4 --number_ios=60
sleep 0.5
reads far b --size=1m --number_ios=1
wait
between far 300 700

# A request with a minute waits while others with short deadlines ask for more than the device can do, but not to their end.
echo read=default >"$G/b/io.sluice.deadline"
echo read=300000 >"$G/a/io.sluice.deadline"
reads flood a --offset=64m --size=64m --iodepth=24 --number_ios=90
sleep 0.5
reads patient b --size=1m --number_ios=1
wait
between patient 600 2200
scheduler none
