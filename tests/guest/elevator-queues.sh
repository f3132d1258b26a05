# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# schedulers: mq-prio cpq afq split-token split-deadline split-noop wrr
# cpus: 2
# Several hardware queues, drivers that sleep, shared tags; zoned devices where the kernel orders their writes.
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

# write_and_verify FIO_OPTION…: both CPUs, two ranks, each its own 16 MiB.
write_and_verify() {
	fio --thread --filename="$DEV" --direct=1 --ioengine=libaio --iodepth=32 --bsrange=4k-32k --io_size=4m \
		--verify=crc32c --verify_fatal=1 --verify_backlog=64 --output=/out/fio "$@" \
		--name=high --size=16m --cpus_allowed=0 --prioclass=1 \
		--name=low --size=16m --cpus_allowed=1 --prioclass=3 --offset=16m \
		--name=none --size=16m --offset=32m || fail "$*: $(cat /out/fio)"
}

modprobe null_blk nr_devices=0
config=/sys/kernel/config/nullb/nullb0
for settings in "submit_queues=2 hw_queue_depth=4" "submit_queues=2 blocking=1" "shared_tags=1 submit_queues=2"; do
	# shellcheck disable=SC2086  # words on purpose
	null $settings
	set -- "$Q"/../mq/*
	[ $# = 2 ] || fail "$settings: hardware queues $*"
	scheduler "$SCHEDULER"
	write_and_verify --rw=randwrite
	scheduler none
	scheduler "$SCHEDULER"
	rmdir $config
done

# More queues than CPUs, few tags in each.
disk nvme queues=4 queue_depth=2 slots=4
scheduler "$SCHEDULER"
write_and_verify --rw=randwrite

null zoned=1 zone_size=4 size=64 submit_queues=2
if [ -e /sys/kernel/debug/block/nullb0/zone_wplugs ] || [ "$SCHEDULER" = cpq ]; then
	scheduler "$SCHEDULER"
	write_and_verify --rw=write --zonemode=zbd
elif echo "$SCHEDULER" 2>/dev/null >"$Q/scheduler"; then
	# This kernel leaves the order of a zone's writes to elevators. Of ours only cpq keeps it.
	fail "the kernel takes $SCHEDULER for a zoned device"
fi
rmdir $config
