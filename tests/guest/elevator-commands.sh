# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# schedulers: mq-prio cpq sluice afq split-token split-deadline split-noop wrr
# full: split-token split-deadline split-noop
# race: too
# Commands other than reads and writes pass: flush, FUA, discard, write zeroes, pass-through; and so do requeued commands.
. ./lib.sh

tracing=/sys/kernel/tracing

# count EVENT PATTERN
count() {
	grep " block_$1: " $tracing/trace | grep -c "$2" || :
}

# flow EVENT KIND: the trace has requests of a kind.
flow() {
	[ "$(count "$1" "$2")" -gt 0 ] || fail "$name: no block_$1 of kind '$2'"
}

reads() {
	awk '{ print $1 }' "/sys/block/${DEV#/dev/}/stat"
}

# every_command [SECONDS]: send every command beside reads and writes of two ranks, which go on for SECONDS afterwards.
every_command() {
	before=$(reads)
	echo >$tracing/trace
	fio --thread --filename="$DEV" --direct=1 --ioengine=libaio --iodepth=8 --bs=4k --size=4m --output=/out/fio \
		--time_based --runtime=6000 --trigger-file=/tmp/enough --name=high --prioclass=1 --rw=randread --rate_iops=1000 \
		--name=low --prioclass=3 --rw=randwrite --fsync=8 --verify=crc32c --verify_backlog=8 --offset=4m &
	load=$!
	until [ "$(reads)" -gt $((before + 300)) ]; do
		kill -0 $load || fail "$name: the load ended early: $(cat /out/fio)"
		sleep 0.05
	done
	for _ in 1 2 3; do
		dd if=/dev/zero of="$DEV" bs=4k count=1 oflag=direct,dsync status=none
		blkdiscard -f -o 0 -l 1m "$DEV" 2>/dev/null
		blkdiscard -f -z -o 0 -l 1m "$DEV" 2>/dev/null
		[ ! -e "/sys/block/${DEV#/dev/}/device/rescan" ] || echo 1 >"/sys/block/${DEV#/dev/}/device/rescan"
	done
	sleep "${1:-0.5}"
	kill -0 $load || fail "$name: the load ended early: $(cat /out/fio)"
	touch /tmp/enough # which fio removes
	wait $load || fail "$name: $(cat /out/fio)"
	cp $tracing/trace /out/trace-$name
	flow rq_issue ' FF\? '
	flow rq_issue ' DS\? '
	# The scheduler's exit proves that it counted all of them.
	scheduler none
}

# Without this the last events of a busy second overwrite the first.
echo 16384 >$tracing/buffer_size_kb
for event in insert issue requeue; do
	echo 1 >$tracing/events/block/block_rq_$event/enable
done

name=simdisk
disk nvme
scheduler "$SCHEDULER"
every_command
flow rq_issue ' \(N\|WZ\)S\? '
flow rq_issue ' WFS\? '

name=scsi
load sd_mod
modprobe scsi_debug dev_size_mb=16 ndelay=200000 max_queue=8 submit_queues="$(nproc)" lbpu=1 lbpws=1
for _ in $(seq 50); do
	DEV=/dev/$(ls /sys/bus/pseudo/drivers/scsi_debug/adapter0/host*/target*/*/block 2>/dev/null) || :
	[ ! -b "$DEV" ] || break
	sleep 0.1
done
Q=/sys/block/${DEV#/dev/}/queue
scheduler "$SCHEDULER"
# A transport error for every 13th command: the SCSI layer requeues it.
echo 16 >/sys/bus/pseudo/drivers/scsi_debug/opts
echo 13 >/sys/bus/pseudo/drivers/scsi_debug/every_nth
every_command
flow rq_requeue ' [RW]'
flow rq_issue ' N '

# Every 13th read gets half of its data: the rest comes back to the scheduler as a request.
name=scsi-short
scheduler "$SCHEDULER"
echo 256 >/sys/bus/pseudo/drivers/scsi_debug/opts
every_command
flow rq_requeue ' R'

# Every 99th command is lost: after a second it is aborted, and sent again.
name=scsi-lost
scheduler "$SCHEDULER"
echo 1 >"/sys/block/${DEV#/dev/}/device/timeout"
echo 4 >/sys/bus/pseudo/drivers/scsi_debug/opts
echo 99 >/sys/bus/pseudo/drivers/scsi_debug/every_nth
every_command 2.5
flow rq_requeue ' [RW]'
