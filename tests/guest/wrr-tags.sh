# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: wrr
# A backlog of the idle class that could use all tags leaves some to each higher class. A real-time reader beside 2 x 1024 reads
# in flight has a 99th percentile of at most twice that alone; without a scheduler it waits for tags.
. ./lib.sh

# 8000 commands a second, by weights.
disk nvme data=none slowdown=1 read_cmd_ns=125000 queue_depth=1023 arbitration="64 32 8"

# p99 NAME CLASS LEVEL: of single reads, in us, including the wait for a tag, which is in the submission.
p99() {
	fio --name="$1" --filename="$DEV" --direct=1 --bs=4k --ioengine=libaio --rw=randread --norandommap --iodepth=1 --time_based \
		--runtime=2 --lat_percentiles=1 --prioclass="$2" --prio="$3" --output-format=json --output=/tmp/p99
	python3 -c 'import json; print(json.load(open("/tmp/p99"))["jobs"][0]["read"]["lat_ns"]["percentile"]["99.000000"] // 1000)'
}

# backlog CLASS LEVEL COMMAND…: run a command beside reads that could take all tags.
backlog() {
	class=$1 level=$2
	shift 2
	fio --name=backlog --filename="$DEV" --direct=1 --bs=4k --ioengine=libaio --rw=randread --norandommap --iodepth=1024 \
		--numjobs=2 --time_based --runtime=1000 --prioclass="$class" --prio="$level" --output=/dev/null &
	sleep 0.5
	"$@"
	pkill -TERM fio || true
	wait
}

# under_way: the number of reads in flight.
under_way() {
	awk '{ print $1 }' "${Q%/queue}/inflight"
}

scheduler none
echo 1023 >"$Q/nr_requests"
alone=$(p99 alone 1 0)
beside=$(backlog 3 0 p99 beside 1 0)
echo "none: alone $alone us, beside a backlog $beside us"
[ "$beside" -gt $((10 * alone)) ] || fail "without a scheduler too a reader has a tag at once: $beside us"

scheduler wrr
echo 1023 >"$Q/nr_requests"
beside=$(backlog 3 0 p99 beside 1 0)
echo "wrr: beside a backlog $beside us"
[ "$beside" -le $((2 * alone)) ] || fail "p99 is $beside us beside a backlog, and $alone us alone"

# Each class has a part: the reads in flight match it, and a higher class gets more.
backlog 3 0 under_way >/tmp/idle
backlog 2 4 under_way >/tmp/medium
backlog 2 0 under_way >/tmp/high
backlog 1 0 under_way >/tmp/urgent
echo "under way: idle $(cat /tmp/idle), medium $(cat /tmp/medium), high $(cat /tmp/high), urgent $(cat /tmp/urgent)"
near() {
	off=$(($(cat "/tmp/$1") - $2))
	[ "${off#-}" -le 40 ] || fail "of $1 are $(cat "/tmp/$1") under way, not $2"
}
near idle 511
near medium 767
near high 895
near urgent 1023
# A smaller number of tags is shared in the same way.
echo 64 >"$Q/nr_requests"
backlog 3 0 under_way >/tmp/few
if [ "$(cat /tmp/few)" -lt 24 ] || [ "$(cat /tmp/few)" -gt 36 ]; then
	fail "of 64 tags idle has $(cat /tmp/few)"
fi
scheduler none
rmmod wrr
expect_dmesg_clean
