# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-deadline
# full
# dmesg: I/O error|Buffer I/O|lost async page write|EXT4-fs|JBD2|Aborting journal|oom-kill|Out of memory|Memory cgroup|invoked oom|Call Trace|[?] lockdep_|capacity change
# debug
# While an fsync of much data is held and its file is written back, several faults happen. Its caller is killed, or runs out of
# memory; the file system is frozen, or full; the machine is suspended; writes fail; the disk goes. No process waits for the
# held fsync, errors are reported, and durable data is there.
. ./lib.sh

milliseconds() {
	awk '{ print $1 * 1000 }' /proc/uptime
}

# soon COMMAND…: the command ends within two seconds.
soon() {
	start=$(milliseconds)
	timeout 20 "$@" || fail "$* fails"
	took=$(($(milliseconds) - start))
	[ "$took" -lt 2000 ] || fail "$* takes $took ms"
}

in_group() {
	sh -c 'echo $$ >"$0/cgroup.procs" && shift && exec "$@"' "$G/$1" "$@"
}

# small: a process with a short deadline makes small writes durable all the time, until there is /tmp/enough.
small() {
	in_group a fio --name=small --directory=/tmp/mnt --size=1m --rw=randwrite --bs=4k --fsync=1 --time_based --runtime=600 \
		--trigger-file=/tmp/enough --output=/out/fio-a &
	small=$!
	sleep 0.2
}

# big COMMAND…: the command makes much data durable beside that, and its fsync is held.
big() {
	# shellcheck disable=SC2016
	sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$G/b" "$@" >/tmp/said 2>&1 &
	big=$!
	for _ in $(seq 1000); do
		! grep -q " fsync .*reason=fsync" /sys/kernel/debug/split/held || return 0
		sleep 0.01
	done
	fail "no fsync is held: $(cat /tmp/said /sys/kernel/debug/block/simdisk-d0/sched/forecast)"
}

# For perl: writes 4 MB to random places of a file, makes them durable, and reports the error.
cat >/tmp/burst <<'end'
use IO::Handle;
open(F, "+<", $ARGV[0]) or die;
srand(1);
for (1 .. 1024) { sysseek(F, 4096 * int(rand(16384)), 0); syswrite(F, chr(65 + $_ % 26) x 4096) == 4096 or die }
F->sync or die "$!\n";
end

mount_anew() {
	mkfs.ext4 -q -F -b 4096 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$DEV" 160m
	mkdir -p /tmp/mnt
	mount -o errors=continue,noatime "$DEV" /tmp/mnt
	dd if=/dev/zero of=/tmp/mnt/big bs=1M count=64 conv=fsync 2>/dev/null
}

weights
disk ssd
scheduler split-deadline
mkdir "$G/a" "$G/b"
echo fsync=1000 >"$G/a/io.sluice.deadline"
echo fsync=60000000 >"$G/b/io.sluice.deadline"
perl -e 1
mount_anew

# A killed process ends at once.
small
big perl /tmp/burst /tmp/mnt/big
kill -KILL $big
start=$(milliseconds)
wait $big && fail "the killed writer lives on"
took=$(($(milliseconds) - start))
[ $took -lt 500 ] || fail "the writer took $took ms to die"
! grep -q " fsync " /sys/kernel/debug/split/held || fail "a dead one is held: $(cat /sys/kernel/debug/split/held)"

# A freeze of the file system does not wait for the fsync, nor does a suspend of the machine.
big perl /tmp/burst /tmp/mnt/big
soon fsfreeze --freeze /tmp/mnt
fsfreeze --unfreeze /tmp/mnt
wait $big || fail "what was held fails after a freeze: $(cat /tmp/said)"
big perl /tmp/burst /tmp/mnt/big
echo 0 >/sys/module/suspend/parameters/pm_test_delay
echo freezer >/sys/power/pm_test
echo freeze >/sys/power/state || fail "the machine isn't suspended"
wait $big || fail "what was held fails after a suspend: $(cat /tmp/said)"

# Other processes fill the file system, and are killed for memory; the held process uses little memory.
echo +memory >"$G/cgroup.subtree_control"
echo 16M >"$G/b/memory.max"
mkdir "$G/c"
echo 16M >"$G/c/memory.max"
big perl /tmp/burst /tmp/mnt/big
dd if=/dev/zero of=/tmp/mnt/full bs=64k 2>/tmp/log && fail "it isn't full"
grep -q "No space left" /tmp/log || fail "it isn't full: $(cat /tmp/log)"
in_group c perl -e 'my @memory = (1) x 4000000' 2>/dev/null && fail "there is memory"
dmesg | grep -q "Memory cgroup out of memory" || fail "no process was killed for memory"
wait $big || fail "the held one fails: $(cat /tmp/said)"
echo max >"$G/b/memory.max"
rm /tmp/mnt/full

# Writes fail during writeback: the error is reported then, and only then.
big perl /tmp/burst /tmp/mnt/big
echo 7 >/sys/kernel/config/simdisk/d0/fail_every
wait $big && fail "its data is lost without an error"
grep -q "Input/output error" /tmp/said || fail "it is told $(cat /tmp/said)"
echo 0 >/sys/kernel/config/simdisk/d0/fail_every
touch /tmp/enough
wait $small || true
rm /tmp/enough
umount /tmp/mnt

# The disk stands still for longer than a policy may leave a call without an answer. A call that was let go when its own time
# was over, and whose file is being written, counts as answered.
echo fsync=3000000 >"$G/b/io.sluice.deadline"
tags=$(cat "$Q/nr_requests") timeout=$(cat "$Q/io_timeout")
mount_anew
small
big perl /tmp/burst /tmp/mnt/big
echo 4 >"$Q/nr_requests"
echo 15000 >"$Q/io_timeout"
echo 1 >/sys/kernel/config/simdisk/d0/hang_every
sleep 4
echo 0 >/sys/kernel/config/simdisk/d0/hang_every
wait $small && fail "what hangs doesn't fail"
wait $big || true
! dmesg | grep "ejected" || fail "what has had its answer is without one"
echo "$tags" >"$Q/nr_requests"
echo "$timeout" >"$Q/io_timeout"
echo fsync=60000000 >"$G/b/io.sluice.deadline"
umount /tmp/mnt

# Data that was made durable is there after a crash.
mount_anew
small
big perl /tmp/burst /tmp/mnt/big
wait $big || fail "an fsync fails: $(cat /tmp/said)"
md5sum </tmp/mnt/big >/tmp/before
big perl /tmp/burst /tmp/mnt/big
xfs_io -x -c "shutdown -f" /tmp/mnt || fail "no shutdown"
wait $big && fail "an fsync of a file system that was shut down succeeds"
wait $small || true
umount /tmp/mnt
mount "$DEV" /tmp/mnt
# The second burst writes the same data as the first.
md5sum </tmp/mnt/big >/tmp/after
cmp /tmp/before /tmp/after || fail "what was durable is lost"

# The disk goes.
small
big perl /tmp/burst /tmp/mnt/big
rmdir /sys/kernel/config/simdisk/d0
for _ in $(seq 300); do
	kill -0 $big 2>/dev/null || break
	sleep 0.01
done
kill -0 $big 2>/dev/null && fail "it waits for a disk that has gone: $(cat /sys/kernel/debug/split/held)"
wait $big && fail "an fsync to a disk that has gone succeeds"
wait $small || true
umount /tmp/mnt
rmmod split-deadline
