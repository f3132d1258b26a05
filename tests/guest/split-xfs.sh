# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2016  # it is perl that expands
# modules: split-noop
# each
# debug
# XFS: its calls are held, each writer is charged what it has written, and the log is charged to those that commit.
. ./lib.sh

# create NAME FILES: make small files, while another process makes them durable now and then.
create() {
	as "$1" perl -e 'my ($folder, $files) = @ARGV; mkdir $folder or die;
		for (1 .. $files) { open(my $new, ">", "$folder/$_") or die; syswrite($new, "x" x 5000) == 5000 or die;
			select(undef, undef, undef, 0.01) }' "/tmp/mnt/$1" "$2" &
	eval "pid_$1=$!"
}

# made NAME…: the files of these are there, and durable.
made() {
	for _ in $(seq 10); do
		sleep 0.2
		sync -f /tmp/mnt
	done
	for one; do
		eval "wait \$pid_$one" || fail "$one can't make files"
	done
	sync -f /tmp/mnt
}

weights
modprobe xfs
disk ssd
scheduler split-noop
mkfs.xfs -q "$DEV"
mkdir /tmp/mnt
mount "$DEV" /tmp/mnt

# Each gate.
hold write fsync
as held dd if=/dev/zero of=/tmp/mnt/held bs=64k count=16 conv=fsync status=none &
pid=$!
wait_held 1 write
hold fsync
wait_held 1 fsync
hold
wait $pid || fail "a held call fails"
hold sync
sync -f /tmp/mnt &
pid=$!
wait_held 1 sync
hold
wait $pid || fail "a held sync fails"
hold mkdir
mkdir /tmp/mnt/folder &
pid=$!
wait_held 1 mkdir
hold
wait $pid || fail "a held mkdir fails"
expect_charged held data $((1 << 20))

# Data, written by kernel threads and by the process that makes it durable.
as direct dd if=/dev/zero of=/tmp/mnt/direct bs=64k count=32 oflag=direct status=none
as left dd if=/dev/zero of=/tmp/mnt/left bs=64k count=32 status=none
as right dd if=/dev/zero of=/tmp/mnt/right bs=64k count=16 status=none
expect_charged left dirty $((2 << 20))
sync
expect_charged direct data $((2 << 20))
expect_charged left data $((2 << 20))
expect_charged right data $((1 << 20))
expect_charged left dirty 0
expect_charged nobody data 0

# Large folios that are split while they are dirty: the estimate for the whole folio is settled.
as parted dd if=/dev/zero of=/tmp/mnt/parted bs=1M count=4 status=none
truncate -s 1500k /tmp/mnt/parted
sync
expect_charged parted dirty 0

# The log.
create many 150
create few 50
made many few
echo "log: many $(charged many log), few $(charged few log), nobody $(charged nobody log), all $(charged total log)"
cat /sys/kernel/debug/split/ledger >/out/ledger
all=$(charged total log)
[ "$all" -gt 100000 ] || fail "only $all bytes of log"
[ $(($(charged nobody log) * 10)) -le "$all" ] ||
	fail "nobody is charged $(charged nobody log) of $all bytes of log"
[ "$(charged many log)" -ge $((2 * $(charged few log))) ] ||
	fail "the process that made three times the files has $(charged many log) bytes of log, the other $(charged few log)"

create late 20
made late
[ "$(charged late log)" -gt 0 ] || fail "a process that came later has no part of the log: $(cat /sys/kernel/debug/split/ledger)"

# The log's contents are written to their place, which no account is charged for as data.
umount /tmp/mnt
[ "$(charged nobody metadata)" -gt 0 ] || fail "nothing of what was logged was written: $(cat /sys/kernel/debug/split/ledger)"
expect_charged nobody data 0
expect_dmesg_clean
