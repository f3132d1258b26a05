# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# kernels: 6.12
# Adaptive deadlines: on flash no stream keeps the sweep to itself until the fixed deadline, and nothing is lost for it.
. ./lib.sh

# job FILE FIO_OPTION…: four fields of fio's report: I/Os a second, the longest in us, mean, p99.
job() {
	out=$1
	shift
	fio --output-format=terse --output="$out.fio" --direct=1 --filename="$DEV" --time_based=1 --thread=1 \
		--norandommap=1 --randseed=2 --bs=4k --group_reporting=1 "$@" &&
		cut -d ';' -f 8,15,16,30 "$out.fio" | sed 's/;99.*=/;/; s/;/ /g' >"$out"
}

# holds WHAT AWK_CONDITION A B: the figures of two reports.
holds() {
	awk -v a="$(cat "$3")" -v b="$(cat "$4")" "BEGIN { split(a, fixed, \" \"); split(b, adapted, \" \"); exit !($2) }" ||
		fail "$1: fixed $(cat "$3"), adaptive $(cat "$4")"
}

disk emmc data=none queue_depth=8
scheduler cpq
echo 128 >"$Q/nr_requests"
for adaptive in 0 1; do
	echo $adaptive >"$Q/iosched/adaptive_expire"
	job /tmp/stream-$adaptive --runtime=3 --name=stream --ioengine=libaio --iodepth=100 --rw=read:4k &
	stream=$!
	job /tmp/random-$adaptive --runtime=3 --name=random --ioengine=psync --rw=randread --numjobs=4
	wait $stream
done
for adaptive in 0 1; do
	echo "$(cat /tmp/stream-$adaptive) $(cat /tmp/random-$adaptive)" >/tmp/both-$adaptive
done
holds "both together" "adapted[1] + adapted[5] >= 0.99 * (fixed[1] + fixed[5])" /tmp/both-0 /tmp/both-1
holds "beside a stream" "adapted[1] >= 2 * fixed[1] && fixed[4] > 200000 && adapted[4] < 50000" /tmp/random-0 /tmp/random-1
expect_dmesg_clean
