# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: mq-prio
# If a low rank has all the tags that a higher one leaves it, its reads of metadata don't wait for a tag behind its other
# requests. Otherwise each task that needs the same directory would wait too.
. ./lib.sh

tracing=/sys/kernel/tracing

# readers NAME THREADS PRIOCLASS
readers() {
	fio --thread --name="$1" --filename="$DEV" --direct=1 --ioengine=psync --numjobs="$2" --prioclass="$3" --rw=randread \
		--bs=4k --offset=1g --size=64m --time_based --runtime=60 --output=/dev/null &
}

disk ssd
file_system
touch /tmp/mnt/file
# Cached metadata is no I/O, and ext4's read-ahead isn't marked as metadata.
umount /tmp/mnt
mount -o inode_readahead_blks=0 "$DEV" /tmp/mnt
scheduler mq-prio
echo 32 >"$Q/nr_requests"
readers high 1 1
readers low 100 3
until awk '$1 == 16 { exit $2 < 15 }' "/sys/kernel/debug/block/${DEV#/dev/}/sched/state"; do
	sleep 0.05
done
for event in bio_queue getrq; do
	echo 1 >$tracing/events/block/block_$event/enable
done
ionice -c 3 stat -c %s /tmp/mnt/file
echo 0 >$tracing/tracing_on
pkill -TERM fio
wait
# The sector follows the device and the kind of request.
awk '
	{ for (i = 2; i < NF && $i != "+"; i++); }
	$(i - 2) !~ /^RS?M/ { next }
	{
		sector = $(i - 1)
		match($0, /[0-9]+\.[0-9]+:/)
		now = substr($0, RSTART, RLENGTH) * 1000000
	}
	/block_bio_queue:/ { came[sector] = now }
	/block_getrq:/ { printf "%d\n", now - came[sector] }' $tracing/trace >/tmp/waits
cat /tmp/waits
[ -s /tmp/waits ] || fail "no metadata was read"
longest=$(sort -n /tmp/waits | tail -n 1)
[ "$longest" -lt 1000 ] || fail "metadata waited $longest us for a tag"
umount /tmp/mnt
scheduler none
