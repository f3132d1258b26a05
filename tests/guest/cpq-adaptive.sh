# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: cpq
# kernels: 6.12
# full
# Adaptive deadlines. On flash no stream keeps the sweep to itself until the fixed deadline. Without such a stream, reads and
# writes are as many and as late as with the fixed deadlines. On a disk that seeks the fixed deadlines stay.
. ./lib.sh

tracing=/sys/kernel/tracing

# job FILE FIO_OPTION…: append six fields of fio's report: reads a second, the longest in us, p99, and the same of writes.
job() {
	out=$1
	shift
	fio --output-format=terse --terse-version=3 --output="$out.fio" --direct=1 --filename="$DEV" --time_based=1 --thread=1 \
		--norandommap=1 --bs=4k --group_reporting=1 --size=1g --invalidate=0 "$@" || fail "fio: $(cat "$out.fio")"
	awk -F ';' '{
		sub(/.*=/, "", $30)
		sub(/.*=/, "", $71)
		print $8, $15, $30, $49, $56, $71
	}' "$out.fio" >>"$out"
}

# holds WHAT AWK_CONDITION A B: the condition holds for the sums of the figures of two reports.
holds() {
	for report in "$3" "$4"; do
		awk '{ for (i = 1; i <= NF; i++) sum[i] += $i } END { for (i = 1; i <= NF; i++) printf "%d ", sum[i] }' \
			"$report" >"$report.sum"
	done
	echo "$1: fixed $(cat "$3.sum"), adaptive $(cat "$4.sum")"
	awk -v a="$(cat "$3.sum")" -v b="$(cat "$4.sum")" \
		"BEGIN { split(a, fixed, \" \"); split(b, adapted, \" \"); exit !($2) }" || fail "$1"
}

# both NAME FIO_OPTION…: the same load with fixed and with adaptive deadlines, for three orders of random places.
both() {
	name=$1
	shift
	for adaptive in 0 1; do
		echo $adaptive >"$Q/iosched/adaptive_expire"
		for seed in 1 2 3; do
			job "/tmp/$profile-$name-$adaptive" --runtime=500ms --randseed=$seed "$@"
		done
	done
}

# same NAME AWK_CONDITION
same() {
	holds "$profile, $1" "$2" "/tmp/$profile-$1-0" "/tmp/$profile-$1-1"
}

# stream SECONDS NAME: a stream that always has reads, and four threads at random places.
stream() {
	job "/tmp/stream-$2" --runtime="$1" --randseed=2 --name=stream --ioengine=libaio --iodepth=100 --rw=read:4k &
	stream=$!
	job "/tmp/random-$2" --runtime="$1" --randseed=2 --name=random --ioengine=psync --rw=randread --numjobs=4
	wait $stream
}

disk emmc data=none queue_depth=8
scheduler cpq
echo 128 >"$Q/nr_requests"
for adaptive in 0 1; do
	echo $adaptive >"$Q/iosched/adaptive_expire"
	stream 3 $adaptive
	paste -d ' ' /tmp/stream-$adaptive /tmp/random-$adaptive >/tmp/both-$adaptive
done
holds "both together" "adapted[1] + adapted[7] >= 0.99 * (fixed[1] + fixed[7])" /tmp/both-0 /tmp/both-1
holds "beside a stream" "adapted[1] >= 2 * fixed[1] && fixed[3] > 200000 && adapted[3] < 50000" /tmp/random-0 /tmp/random-1
rmdir /sys/kernel/config/simdisk/d0

for settings in "emmc queue_depth=8" "ssd slowdown=4"; do
	profile=${settings% *}
	# shellcheck disable=SC2086  # words on purpose
	disk $settings data=none
	scheduler cpq
	echo 128 >"$Q/nr_requests"
	both reads --name=reads --ioengine=libaio --iodepth=64 --rw=randread
	same reads "adapted[1] >= 0.99 * fixed[1] && adapted[3] <= 1.05 * fixed[3]"
	both writes --name=writes --ioengine=libaio --iodepth=64 --rw=randwrite
	same writes "adapted[4] >= 0.99 * fixed[4] && adapted[6] <= 1.05 * fixed[6]"
	both mixed --name=mixed --ioengine=libaio --iodepth=64 --rw=randrw
	same mixed "adapted[1] + adapted[4] >= 0.98 * (fixed[1] + fixed[4]) && adapted[6] <= 1.1 * fixed[6]"
	rmdir /sys/kernel/config/simdisk/d0
done

# Only the adaptive deadline can expire here.
disk hdd data=none
scheduler cpq
echo 128 >"$Q/nr_requests"
echo 1 >"$Q/iosched/cpq_log"
echo 600000 >"$Q/iosched/read_expire"
echo 1 >"$Q/iosched/adaptive_expire"
echo 1 >$tracing/events/sluice/cpq_dispatch/enable
for rotating in 0 1; do
	echo $rotating >"$Q/rotational"
	echo >$tracing/trace
	stream 1 hdd
	late=$(grep -c why=deadline $tracing/trace) || :
	echo "rotating $rotating: $late by deadline"
	[ $((late > 0)) != $rotating ] || fail "rotating $rotating: $late went by a deadline"
done
expect_dmesg_clean
