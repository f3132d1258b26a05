# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: mq-prio
# Requests that wait behind a busy device are served by rank, and within a rank in order of arrival, except in a turn. A request
# that the driver gives back, to be tried again, counts as inside the device until it is done.
. ./lib.sh

tracing=/sys/kernel/tracing

# One request at a time, each for 50 ms. Turns of lower ranks open once a second, the longest period.
disk ssd queue_depth=1 slots=1 slowdown=1000 read_cmd_ns=50000 read_lsb_ns=1 read_msb_ns=1 read_latency_ns=0 data=none
scheduler mq-prio
echo 64 >"$Q/nr_requests"
echo 2 >"$Q/nomerges"
echo 1 >"$Q/iosched/low_share"
for event in block/block_rq_insert block/block_rq_issue sluice/rank_turn; do
	echo 1 >$tracing/events/$event/enable
done

# A job's position in MiB tells its rank. RT 0 keeps the device busy, then the jobs start from the lowest rank on.
job() {
	echo "--name=rank$1 --prioclass=$2 --prio=$3 --offset=$1m --startdelay=$4ms"
}
# shellcheck disable=SC2046  # words on purpose
fio --thread --filename="$DEV" --direct=1 --ioengine=libaio --iodepth=6 --rw=randread --bs=4k --size=1m \
	--number_ios=6 --output=/dev/null $(job 0 1 0 0) $(job 16 3 0 20) $(job 15 2 7 40) $(job 12 2 4 60) \
	$(job 8 2 0 80) $(job 1 1 1 100) $(job 0 1 0 120)

# In the trace the sector follows the device, the kind of request, its size and a pair of brackets.
tr , ' ' <$tracing/trace | awk -v dev="$(tr : ' ' <"/sys/block/${DEV#/dev/}/dev")" '
	function rank(  i) {
		for (i = 1; $i != "()"; i++);
		sector = $(i + 1)
		return int(sector / 2048)
	}
	index($0, ": " dev " ") == 0 { next }
	/rank_turn:/ { turns++ }
	/block_rq_insert:/ { r = rank(); fifo[r, last[r]++ + 0] = sector }
	/block_rq_issue:/ {
		r = rank()
		if (fifo[r, first[r] + 0] != sector)
			print "rank " r ": sector " sector " is not the oldest, " fifo[r, first[r] + 0] " is"
		first[r]++
		match($0, /[0-9]+\.[0-9]+:/)
		now = substr($0, RSTART, RLENGTH) * 1000
		if (!issued++)
			start = now
		order = order " " r
		# All have come when the sixth is issued; a request is chosen before the device is free for it.
		if (issued < 7)
			next
		for (higher in last)
			if (higher + 0 < r && first[higher] + 0 < last[higher]) {
				exceptions++
				break
			}
	}
	END {
		print "order:" order
		if (issued != 42)
			print issued " issued"
		if (exceptions > turns)
			print exceptions " went before their betters, in " turns " turns"
		# A missed turn is made up for.
		if (turns < 2 || turns > 4)
			print turns " turns in 2.1 s, with one a second"
		# The device is idle while the scheduler waits for more requests of a rank, until hold_ms after its last.
		if (now - start > 41 * 50 + 5 * 20)
			print "it took " now - start " ms, 50 each"
	}' >/tmp/verdict
cat /tmp/verdict
[ "$(wc -l </tmp/verdict)" = 1 ] || fail "wrong order"

# A transport error for every other command; commands take half a second each.
load sd_mod
modprobe scsi_debug dev_size_mb=16 ndelay=500000000 max_queue=8 statistics=1
faults=/sys/bus/pseudo/drivers/scsi_debug
until DEV=/dev/$(ls $faults/adapter0/host*/target*/*/block 2>/dev/null) && [ -b "$DEV" ]; do
	sleep 0.1
done
Q=/sys/block/${DEV#/dev/}/queue
scheduler mq-prio
echo 1 >$tracing/events/block/block_rq_requeue/enable
echo 16 >$faults/opts
echo 2 >$faults/every_nth
dd if="$DEV" of=/dev/null bs=4k count=2 iflag=direct status=none &
until grep -q block_rq_requeue $tracing/trace; do
	kill -0 $! 2>/dev/null || fail "no request is tried again"
	sleep 0.02
done
sleep 0.2
issued=$(awk 'NR > 1 && NR < 19 { n += $3 } END { print n }' "/sys/kernel/debug/block/${DEV#/dev/}/sched/state")
[ "$issued" = 1 ] || fail "$issued requests are inside the device while one is tried again"
wait
echo 0 >$faults/every_nth
scheduler none
