# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: afq
# Durable and buffered writes are served by pass. IDLE's are held while others are active, with the reason shown, but proceed
# within starvation_ms. A process that is alone, or overwrites dirty data, is never held. A held process can be killed.
. ./lib.sh

# writers SECONDS FIO_OPTION…: processes that write on the file system, reported in /tmp/parts as "NAME BYTES".
writers() {
	seconds=$1
	shift
	fio --directory=/tmp/mnt --ioengine=psync --time_based=1 --runtime="$seconds" --group_reporting=1 --invalidate=0 \
		--zero_buffers=1 --output-format=terse --output=/tmp/fio.terse "$@" || fail "fio: $*"
	awk -F';' '{ print $3, ($6 + $47) * 1024 }' /tmp/fio.terse >/tmp/parts
	cat /tmp/parts
}

part() {
	awk -v name="$1" '$1 == name { print $2 }' /tmp/parts
}

# ratio HIGH LOW LEAST MOST: the ratio of their bytes, in tenths, is between LEAST and MOST.
ratio() {
	found=$(($(part "$1") * 10 / $(part "$2")))
	if [ $found -lt "$3" ] || [ $found -gt "$4" ]; then
		fail "$1 has $found tenths of $2, not $3 to $4"
	fi
}

let_go() {
	sed -n 's/.* let_go=\([0-9]*\) .*/\1/p' /sys/kernel/debug/split/devices
}

disk ssd
scheduler afq
# After a mount a thread reads bitmaps ahead, which would be a second process.
file_system -o no_prefetch_block_bitmaps

# A single account is never held, even with several threads, and the gates are open.
writers 1 --thread --numjobs=4 --rw=randwrite --bs=4k --size=4m --fsync=1 --name=alone
[ "$(let_go)" = 0 ] || fail "$(let_go) were held though they were alone"

# Five processes of each of two levels make every write durable: the ratio is 8 to 2.
writers 8 --rw=randwrite --norandommap --bs=4k --size=8m --fsync=1 --numjobs=5 --name=p0 --prio=0 --name=p6 --new_group --prio=6
ratio p0 p6 32 48
[ "$(let_go)" -gt 0 ] || fail "no call was held"
# The charge of a call while it was inside was taken back.
awk 'NR > 1 && $7 >= 1048576 { print; found = 1 } END { exit found }' /sys/kernel/debug/block/simdisk-d0/sched/clients ||
	fail "returned calls still count"

# IDLE is held beside others, shows the reason, and proceeds nevertheless.
(
	sleep 2
	cat /sys/kernel/debug/split/held >/tmp/held
) &
writers 4 --rw=randwrite --bs=4k --size=8m --fsync=1 --name=be --name=idle --new_group --prioclass=3
grep -q "reason=idle" /tmp/held || fail "held are $(cat /tmp/held)"
[ "$(part idle)" -ge 8192 ] || fail "IDLE starves"
[ "$(part idle)" -le $((6 * 4096)) ] || fail "IDLE isn't idle"

# IDLE does not proceed at once when others pause, for less than the 40 ms after which it may. It ends before they do.
writers 3 --rw=randwrite --bs=4k --size=8m --fsync=1 --name=be --thinktime=30ms --name=idle --new_group --prioclass=3 \
	--runtime=2
[ "$(part idle)" -le $((5 * 4096)) ] || fail "IDLE goes in the pauses of others"

# When the others have ended, IDLE gets everything.
writers 2 --rw=randwrite --bs=4k --size=8m --fsync=1 --name=idle --new_group --prioclass=3
idle=$(part idle)
scheduler none
writers 2 --rw=randwrite --bs=4k --size=8m --fsync=1 --name=idle --new_group --prioclass=3
[ "$idle" -ge $(($(part idle) * 90 / 100)) ] || fail "IDLE alone writes $idle of $(part idle)"
scheduler afq

# Overwriting dirty data costs nothing: once all of it is dirty, no call is held.
echo 0 >/proc/sys/vm/dirty_writeback_centisecs
(
	sleep 1.5
	let_go >/tmp/before
) &
writers 3 --rw=write --bs=4k --size=4m --name=high --prio=0 --name=low --new_group --prio=7
[ "$(let_go)" = "$(cat /tmp/before)" ] || fail "held are $(cat /tmp/before), then $(let_go)"
[ "$(part low)" -ge $(($(part high) * 80 / 100)) ] || fail "a process that costs nothing waits"

# A process in a held call can be killed, and leaves nothing behind.
fio --directory=/tmp/mnt --name=be --rw=randwrite --bs=4k --size=8m --fsync=1 --time_based --runtime=3 --output=/out/fio &
load=$!
sleep 0.5
ionice -c 3 sh -c 'while :; do dd if=/dev/zero of=/tmp/mnt/idle bs=4k count=1 conv=fsync status=none; done' &
loop=$!
for _ in $(seq 100); do
	pid=$(sed -n 's/.* pid=\([0-9]*\) comm=dd .*/\1/p' /sys/kernel/debug/split/held | head -n 1)
	[ -z "$pid" ] || break
	sleep 0.02
done
[ -n "$pid" ] || fail "no call is held"
kill -KILL $loop "$pid"
sleep 0.2
! grep -q "pid=$pid " /sys/kernel/debug/split/held || fail "$pid was killed and is still held"
wait $load || fail "fio: $(cat /out/fio)"
umount /tmp/mnt
scheduler none
