# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-noop
# dmesg: I/O error|Buffer I/O|lost async page write|EXT4-fs|JBD2|Aborting journal|oom-kill|Out of memory|Memory cgroup|invoked oom|Call Trace|[?] lockdep_
# debug
# A full file system, a disk that fails, no memory, and a crash: the expected charges are settled, each account is freed, and
# the journal's data is there afterwards.
. ./lib.sh

dirty() {
	sed -n 's/.* dirty=//p' /sys/kernel/debug/split/ledger | awk '{ sum += $1 } END { printf "%d\n", sum }'
}

settled() {
	sync
	[ "$(dirty)" -eq 0 ] || fail "$1: nothing is dirty, and expected are $(dirty) bytes: $(cat /sys/kernel/debug/split/ledger)"
}

disk ssd
scheduler split-noop
mkfs.ext4 -q -b 4096 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$DEV" 64m
mkdir /tmp/mnt
mount -o errors=continue "$DEV" /tmp/mnt

# Full: writes fail, other calls go on.
for i in 1 2 3; do
	dd if=/dev/zero of=/tmp/mnt/full$i bs=64k status=none 2>/tmp/log &
done
wait
grep -q "No space left" /tmp/log || fail "the file system isn't full: $(cat /tmp/log)"
settled "full"
rm /tmp/mnt/full*
dd if=/dev/zero of=/tmp/mnt/after bs=64k count=16 conv=fsync status=none || fail "nothing can be written after it was full"
settled "after full"

# No memory: a writer's cgroup has 8 MiB, and another process of the cgroup takes them.
mount -t cgroup2 none $G
echo "+memory +io" >$G/cgroup.subtree_control
mkdir $G/small
echo 8M >$G/small/memory.max
small() {
	sh -c 'echo $PPID' >$G/small/cgroup.procs
	exec "$@"
}
(small dd if=/dev/zero of=/tmp/mnt/small bs=64k count=256 status=none) || true
(small dd if=/dev/zero of=/tmp/mnt/killed bs=64k count=64 status=none) &
(small perl -e 'my @memory = (1) x 2000000') || true
wait
dmesg | grep -q "Memory cgroup out of memory" || fail "no process was killed for memory"
settled "memory"

# A disk that fails now and then: lost data is reported, nothing hangs, and the books balance.
echo 20 >/sys/kernel/config/simdisk/d0/fail_every
for i in 1 2 3 4; do
	dd if=/dev/zero of=/tmp/mnt/bad$i bs=64k count=32 status=none 2>/dev/null &
done
wait
sync
echo 0 >/sys/kernel/config/simdisk/d0/fail_every
umount /tmp/mnt
[ "$(dirty)" -eq 0 ] || fail "failed: nothing is dirty, and expected are $(dirty) bytes"

# A crash while calls are held and a commit is under way: data that was durable before is there after the journal's replay.
mkfs.ext4 -q -F -b 4096 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$DEV" 64m
mount "$DEV" /tmp/mnt
perl -e 'for my $i (1 .. 200) { open(my $f, ">", "/tmp/mnt/$i") or die; syswrite($f, $i x 1000) or die; }'
sync -f /tmp/mnt
perl -e 'for my $i (201 .. 400) { open(my $f, ">", "/tmp/mnt/$i") or die; syswrite($f, $i x 1000) or die; }' &
hold fsync write
dd if=/dev/zero of=/tmp/mnt/held bs=64k count=1 conv=fsync status=none &
held=$!
wait_held 2 write
xfs_io -x -c "shutdown -f" /tmp/mnt || fail "no shutdown"
hold
wait $held && fail "a write to a file system that was shut down succeeds"
wait
umount /tmp/mnt
mount "$DEV" /tmp/mnt
dmesg | grep -q "recovery complete" || fail "the journal wasn't replayed"
for i in $(seq 200); do
	perl -e 'open(my $f, "<", "/tmp/mnt/$ARGV[0]") or exit 1; local $/; exit(<$f> ne $ARGV[0] x 1000)' "$i" ||
		fail "file $i isn't what it was when it was durable"
done
umount /tmp/mnt
e2fsck -fn "$DEV" >/tmp/log 2>&1 || fail "the file system is damaged: $(cat /tmp/log)"
echo none >"$Q/scheduler"
rmmod split-noop split
