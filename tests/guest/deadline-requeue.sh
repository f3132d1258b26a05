# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-deadline
# A flush that the driver gives back, to be tried again, does not count as under way for ever. A request with more time than a
# recent reader doesn't wait for it.
. ./lib.sh

tracing=/sys/kernel/tracing
faults=/sys/bus/pseudo/drivers/scsi_debug

milliseconds() {
	awk '{ print $1 * 1000 }' /proc/uptime
}

load sd_mod
modprobe scsi_debug dev_size_mb=16 ndelay=200000 max_queue=8 statistics=1
for _ in $(seq 50); do
	DEV=/dev/$(ls $faults/adapter0/host*/target*/*/block 2>/dev/null) || :
	[ ! -b "$DEV" ] || break
	sleep 0.1
done
Q=/sys/block/${DEV#/dev/}/queue
scheduler split-deadline
echo 1 >$tracing/events/block/block_rq_requeue/enable

# A transport error for every fourth command: the second flush.
echo 16 >$faults/opts
echo 4 >$faults/every_nth
for _ in $(seq 30); do
	dd if=/dev/zero of="$DEV" bs=4k count=1 oflag=direct conv=fsync status=none
	! grep -q "block_rq_requeue: [0-9,]* FF" $tracing/trace || break
done
grep -q "block_rq_requeue: [0-9,]* FF" $tracing/trace || fail "no flush is tried again"
echo 0 >$faults/every_nth
echo 0 >$faults/opts

dd if="$DEV" of=/dev/null bs=4k count=1 iflag=direct status=none
start=$(milliseconds)
dd if=/dev/zero of="$DEV" bs=4k count=1 oflag=direct status=none
took=$(($(milliseconds) - start))
echo "a write takes $took ms"
[ "$took" -lt 200 ] || fail "a write of an idle disk takes $took ms: $(cat "/sys/kernel/debug/block/${DEV#/dev/}/sched/"*s*)"
scheduler none
