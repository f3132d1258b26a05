# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: mq-prio
# A low rank's backlog that could use all 64 tags leaves some to a higher rank that has requests now and then.
. ./lib.sh

tracing=/sys/kernel/tracing

# waits SCHEDULER: in /tmp/waits, the wait for a tag in us, for each of the high job's requests but the first.
waits() {
	scheduler "$1"
	echo 64 >"$Q/nr_requests"
	echo >$tracing/trace
	fio --thread --filename="$DEV" --direct=1 --ioengine=libaio --rw=randread --time_based --runtime=2 \
		--output=/out/fio --name=low --prioclass=3 --bs=64k --iodepth=128 --offset=1g --size=1g \
		--name=high --prioclass=1 --bs=4k --iodepth=8 --iodepth_batch=8 --iodepth_batch_complete_min=8 \
		--thinktime=30ms --thinktime_blocks=8 --thinktime_blocks_type=issue --size=1g
	# In the trace the sector follows the device and the kind of request; the size comes after it.
	tr , ' ' <$tracing/trace | awk -v dev="$(tr : ' ' <"/sys/block/${DEV#/dev/}/dev")" '
		index($0, ": " dev " ") == 0 { next }
		{
			for (i = 2; $i != "+"; i++);
			sector = $(i - 1)
			match($0, /[0-9]+\.[0-9]+:/)
			now = substr($0, RSTART, RLENGTH) * 1000000
		}
		sector >= 2097152 { next }
		/block_bio_queue:/ { came[sector] = now }
		/block_getrq:/ && count++ { printf "%d\n", now - came[sector] }' >/tmp/waits
	[ "$(wc -l </tmp/waits)" -gt 50 ] || fail "$1: the high job had $(wc -l </tmp/waits) requests"
}

disk ssd data=none
for event in bio_queue getrq; do
	echo 1 >$tracing/events/block/block_$event/enable
done

# The test is valid: where no tags are kept back, requests wait for them.
waits mq-deadline
longest=$(sort -n /tmp/waits | tail -n 1)
echo "mq-deadline: $longest us"
[ "$longest" -gt 1000 ] || fail "with mq-deadline too no request waits for a tag: $longest us"

waits mq-prio
longest=$(sort -n /tmp/waits | tail -n 1)
echo "mq-prio: $longest us"
[ "$longest" -lt 1000 ] || fail "a request waited $longest us for a tag"
