# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# schedulers: mq-prio cpq sluice afq split-token split-deadline split-noop wrr
# full: afq split-deadline split-noop
# cpus: 2
# race: too
# Several hardware queues, drivers that sleep, shared tags, a disk that takes one request for all of its hardware queues, and
# zoned devices where the kernel keeps the order of writes.
. ./lib.sh

# null SETTING…: a null_blk device that keeps its data.
null() {
	mkdir $config
	for setting in size=64 poll_queues=0 memory_backed=1 completion_nsec=100000 irqmode=2 "$@"; do
		echo "${setting#*=}" >"$config/${setting%%=*}"
	done
	echo 1 >$config/power
	DEV=/dev/nullb0
	Q=/sys/block/nullb0/queue
}

# write_and_verify FIO_OPTION…: write and verify from both CPUs, with two ranks, 16 MiB each.
write_and_verify() {
	fio --thread --filename="$DEV" --direct=1 --ioengine=libaio --iodepth=32 --bsrange=4k-32k --io_size=4m \
		--verify=crc32c --verify_fatal=1 --verify_backlog=64 --output=/out/fio "$@" \
		--name=high --size=16m --cpus_allowed=0 --prioclass=1 \
		--name=low --size=16m --cpus_allowed=1 --prioclass=3 --offset=16m \
		--name=none --size=16m --offset=32m || fail "$*: $(cat /out/fio)"
}

modprobe null_blk nr_devices=0 submit_queues="$(nproc)" poll_queues=0
config=/sys/kernel/config/nullb/nullb0
queues=$(nproc)
for setting in hw_queue_depth=4 blocking=1 shared_tags=1; do
	null submit_queues="$queues" $setting
	set -- "$Q"/../mq/*
	[ $# = "$queues" ] || fail "$setting: hardware queues $*"
	scheduler "$SCHEDULER"
	write_and_verify --rw=randwrite
	scheduler none
	scheduler "$SCHEDULER"
	rmdir $config
done

# More queues than CPUs where there are two, few tags in each.
disk nvme queues=4 queue_depth=2 slots=4
scheduler "$SCHEDULER"
write_and_verify --rw=randwrite

# Each CPU has a hardware queue, and the disk takes one request. The read of CPU 1 waits in its queue until the read of CPU 0
# has ended, which then runs that queue. mq-deadline's flag that running one queue is enough must not stay set.
load sd_mod
modprobe scsi_debug dev_size_mb=16 submit_queues="$queues" ndelay=100000000
until DEV=/dev/$(ls /sys/bus/pseudo/drivers/scsi_debug/adapter0/host*/target*/*/block 2>/dev/null) && [ -b "$DEV" ]; do
	sleep 0.1
done
Q=/sys/block/${DEV#/dev/}/queue
set -- "$Q"/../mq/*
[ $# = "$queues" ] || fail "scsi_debug: hardware queues $*"
echo 1 >"$Q/../device/queue_depth"
scheduler mq-deadline
scheduler "$SCHEDULER"
readers=
for cpu in $(seq 0 $((queues - 1))); do
	taskset -c "$cpu" dd if="$DEV" of=/dev/null bs=4k count=1 skip=$((cpu * 64)) iflag=direct status=none &
	readers="$readers $!"
	sleep 0.02
done
for reader in $readers; do
	for _ in $(seq 100); do
		kill -0 "$reader" 2>/dev/null || continue 2
		sleep 0.1
	done
	fail "a read waits for ever in another hardware queue"
done
scheduler none

null zoned=1 zone_size=4 size=64 submit_queues="$queues"
if [ -e /sys/kernel/debug/block/nullb0/zone_wplugs ] || [ "$SCHEDULER" = cpq ]; then
	scheduler "$SCHEDULER"
	write_and_verify --rw=write --zonemode=zbd
elif echo "$SCHEDULER" 2>/dev/null >"$Q/scheduler"; then
	# This kernel leaves the order of a zone's writes to elevators. Of ours only cpq keeps it.
	fail "the kernel takes $SCHEDULER for a zoned device"
fi
rmdir $config
