# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: sluice
# dmesg: I/O error|Buffer I/O|lost async page write|EXT4-fs|JBD2|Aborting journal|oom-kill|Out of memory|Memory cgroup|invoked oom|Call Trace|[?] lockdep_
# debug
# race: too
# Beside commits of best effort 0 idle writers are held and some of their writeback is kept back. They are killed, frozen, and
# run out of memory and room; the scheduler changes, the journal ends, the disk goes. Nothing stays held, and nothing is lost.
. ./lib.sh

held=/sys/kernel/debug/split/held

milliseconds() {
	awk '{ print $1 * 1000 }' /proc/uptime
}

# soon WHAT COMMAND…: the command succeeds within a second; on CPUs that race a second may be long.
soon() {
	most=800
	[ -z "${RACE-}" ] || most=20000
	what=$1
	shift
	start=$(milliseconds)
	until "$@"; do
		[ $(($(milliseconds) - start)) -lt $most ] || fail "$what"
		sleep 0.02
	done
}

gone() {
	! kill -0 "$1" 2>/dev/null
}

none_held() {
	! grep -q . $held
}

frozen() {
	grep -q "frozen 1" $G/copy/cgroup.events
}

# start_log: commits of best effort 0, until the file system fails or the process is killed.
start_log() {
	ionice -c 2 -n 0 dd if=/dev/zero of=/tmp/mnt/log bs=8k count=100000000 oflag=dsync status=none 2>/dev/null &
	log=$!
}

# start_copies NUMBER: NUMBER idle writers, of which at least one is soon held.
start_copies() {
	copies=
	for number in $(seq "$1"); do
		ionice -c 3 dd if=/dev/zero of="/tmp/mnt/copy$number" bs=256k count=100000 status=none 2>"/tmp/said$number" &
		copies="$copies $!"
	done
	for _ in $(seq 100); do
		! grep -q " write " $held || return 0
		sleep 0.1
	done
	fail "no copy is held beside commits"
}

# end PID…: the processes end, each with an error or killed.
end() {
	for pid; do
		if wait "$pid"; then fail "process $pid ended well"; fi
	done
}

mount -t cgroup2 none $G
echo "+memory +io" >$G/cgroup.subtree_control
mkdir $G/copy $G/small
disk ssd
scheduler sluice
mkfs.ext4 -q -b 4096 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$DEV" 200m
mkdir /tmp/mnt
mount "$DEV" /tmp/mnt
echo kept >/tmp/mnt/kept
sync

# Killed.
start_log
start_copies 4
# shellcheck disable=SC2086
kill -KILL $copies
for pid in $copies; do
	soon "a copy that was killed is there after 0.8 s" gone "$pid"
done
# shellcheck disable=SC2086
end $copies
none_held || fail "of killed copies are held: $(cat $held)"

# Frozen, and thawed.
start_copies 2
for pid in $copies; do
	echo "$pid" >$G/copy/cgroup.procs
done
echo 1 >$G/copy/cgroup.freeze
soon "copies aren't frozen after 0.8 s: $(cat $held)" frozen
echo 0 >$G/copy/cgroup.freeze
soon "a copy that was thawed isn't held again" grep -q " write " $held

# Another scheduler, and back: held calls and kept-back writeback are released.
echo none >"$Q/scheduler"
none_held || fail "without the scheduler are held: $(cat $held)"
echo sluice >"$Q/scheduler"

# No room: writers get the error.
# shellcheck disable=SC2086
end $log $copies
grep -q "No space left" /tmp/said1 || fail "the file system isn't full: $(cat /tmp/said1)"
rm /tmp/mnt/log /tmp/mnt/copy*

# No memory: a copy's cgroup has 16 MiB, and another process of the cgroup wants more.
echo 16M >$G/small/memory.max
start_log
(sh -c 'echo $PPID' >$G/small/cgroup.procs && exec ionice -c 3 dd if=/dev/zero of=/tmp/mnt/small bs=64k count=400 status=none) &
small=$!
(sh -c 'echo $PPID' >$G/small/cgroup.procs && exec perl -e 'my @memory = (1) x 4000000') || true
dmesg | grep -q "Memory cgroup out of memory" || fail "nothing was killed for memory"
wait $small || true

# The journal ends: no call stays held.
start_copies 3
xfs_io -x -c "shutdown -f" /tmp/mnt || fail "no shutdown"
# shellcheck disable=SC2086
end "$log" $copies
none_held || fail "of a file system that was shut down are held: $(cat $held)"
umount /tmp/mnt
mount "$DEV" /tmp/mnt
[ "$(cat /tmp/mnt/kept)" = kept ] || fail "what was durable is lost"

# The disk goes.
start_log
start_copies 3
echo 0 >/sys/kernel/config/simdisk/d0/power
# A write to the page cache fails once the journal has ended.
# shellcheck disable=SC2086
end "$log" $copies
none_held || fail "of a disk that has gone are held: $(cat $held)"
umount /tmp/mnt
rmmod sluice split
