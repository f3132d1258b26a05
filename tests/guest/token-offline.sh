# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-token
# cpus: 2
# race: too
# A CPU goes offline at once while reads of its hardware queue wait for a debt of hours, and the reads are done.
. ./lib.sh

buckets=/sys/kernel/debug/block/simdisk-d0/sched/buckets
online=/sys/devices/system/cpu/cpu1/online

in_group() {
	sh -c 'echo $$ >"$0/cgroup.procs" && shift && exec "$@"' "$G/$1" "$@"
}

milliseconds() {
	awk '{ print $1 * 1000 }' /proc/uptime
}

# waiting NUMBER: wait until NUMBER reads wait.
waiting() {
	for _ in $(seq 3000); do
		awk -v want="$1" 'NR > 1 && $7 == want { found = 1 } END { exit !found }' $buckets && return 0
		sleep 0.01
	done
	fail "not $1 reads wait: $(cat $buckets)"
}

# A second, or the time that a busy host may take for one.
soon=$((${RACE-0} ? 20000 : 1000))
disk nvme queues=2
set -- "$Q"/../mq/*
[ $# = 2 ] || fail "hardware queues: $*"
scheduler split-token
weights
file_system
mkdir "$G/a"
dd if=/dev/zero of=/tmp/mnt/x bs=1M count=8 conv=fsync 2>/dev/null
echo 2048 >"$G/a/io.sluice.rate"
for round in 1 2; do
	in_group a dd if=/dev/zero of=/tmp/mnt/y$round bs=1M count=1 2>/dev/null
	readers=
	for n in 1 2 3; do
		in_group a taskset -c 1 dd if=/tmp/mnt/x of=/dev/null bs=64k count=1 skip=$n iflag=direct 2>/dev/null &
		readers="$readers $!"
	done
	waiting 3
	start=$(milliseconds)
	echo 0 >$online || fail "CPU 1 doesn't go offline"
	took=$(($(milliseconds) - start))
	[ $took -lt $soon ] || fail "CPU 1 takes $took ms to go offline: $(cat $buckets)"
	for reader in $readers; do
		wait "$reader" || fail "a read fails"
	done
	# A read that comes now is in the other queue, and waits.
	in_group a dd if=/tmp/mnt/x of=/dev/null bs=64k count=1 skip=9 iflag=direct 2>/dev/null &
	reader=$!
	waiting 1
	echo 1 >$online || fail "CPU 1 doesn't come back"
	echo max >"$G/a/io.sluice.rate"
	wait $reader || fail "a read fails"
	sync
	echo 2048 >"$G/a/io.sluice.rate"
done
umount /tmp/mnt
scheduler none
rmmod split-token
