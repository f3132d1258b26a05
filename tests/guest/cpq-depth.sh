# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2086  # words on purpose
# modules: cpq
# Writes beside a reader are limited on a disk that is shallow when the scheduler is chosen, even if its host adapter takes many
# requests. They are not limited on a deep disk, nor without a volatile cache, which indicates an array. A disk whose queue is
# full for a moment does not change its kind, and the knob overrides the choice. A request that the driver gives back, to be
# tried again, counts as inside the device until it is done.
. ./lib.sh

# depth NUMBER: set the number of requests that the disk takes.
depth() {
	echo "$1" >/sys/block/sda/device/queue_depth
	[ "$(cat /sys/block/sda/device/queue_depth)" = "$1" ] || fail "the disk's depth isn't $1"
}

# choose DEPTH: set the scheduler again, on a disk of that depth.
choose() {
	depth "$1"
	scheduler none
	scheduler cpq
}

# beside WHAT KNOB LEAST MOST: check the writes a second beside a reader, and the knob's value.
beside() {
	[ "$(cat $Q/iosched/writes_beside_reads)" = "$2" ] || fail "$1: the bound is $(cat $Q/iosched/writes_beside_reads), not $2"
	fio --thread --filename=/dev/sda --direct=1 --ioengine=libaio --bs=4k --time_based --runtime=400ms --output-format=terse \
		--terse-version=3 --output=/out/fio --name=writer --rw=randwrite --iodepth=64 --name=reader --rw=randread ||
		fail "fio: $(cat /out/fio)"
	writes=$(awk -F ';' '{ writes += $49 } END { print int(writes) }' /out/fio)
	echo "$1: $writes writes a second beside a reader"
	if [ "$writes" -lt "$3" ] || [ "$writes" -gt "$4" ]; then
		fail "$1: $writes writes a second beside a reader, not $3 to $4"
	fi
}

modprobe sd_mod
modprobe scsi_debug dev_size_mb=64 ndelay=1000000 max_queue=128
until [ -b /dev/sda ]; do sleep 0.1; done
Q=/sys/block/sda/queue
[ "$(cat /sys/class/scsi_host/host0/can_queue)" -gt 64 ] || fail "the adapter is shallow: $(cat /sys/class/scsi_host/host0/can_queue)"
choose 31
beside "a shallow disk" 2 300 3000
echo 0 >$Q/iosched/writes_beside_reads
beside "a shallow disk without a bound" 0 12000 99999
choose 64
depth 31
beside "a deep disk whose depth has fallen" 0 12000 99999
echo "write through" >$Q/write_cache
choose 31
beside "a shallow disk without a volatile cache" 0 12000 99999
echo 2 >$Q/iosched/writes_beside_reads
beside "the same with a bound" 2 300 3000

# A transport error for every other command; commands take half a second each.
tracing=/sys/kernel/tracing
faults=/sys/bus/pseudo/drivers/scsi_debug
echo 1 >$tracing/events/block/block_rq_requeue/enable
echo 500000000 >$faults/ndelay
echo 16 >$faults/opts
echo 2 >$faults/every_nth
dd if=/dev/sda of=/dev/null bs=4k count=2 iflag=direct status=none &
until grep -q block_rq_requeue $tracing/trace; do
	kill -0 $! 2>/dev/null || fail "no request is tried again"
	sleep 0.02
done
sleep 0.2
issued=$(awk 'NR > 1 && NR < 8 { n += $4 } END { print n }' /sys/kernel/debug/block/sda/sched/state)
[ "$issued" = 1 ] || fail "$issued requests are inside the device while one is tried again"
wait
echo 0 >$faults/every_nth
scheduler none
