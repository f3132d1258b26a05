# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-noop
# A process in a held call can be killed at once, and then has done nothing; a signal that doesn't kill doesn't release the
# call.
. ./lib.sh

# killed KIND UNDONE COMMAND…: the command is killed while it is held; then the condition UNDONE holds.
killed() {
	kind=$1 condition=$2
	shift 2
	hold "$kind"
	"$@" >/tmp/log 2>&1 &
	wait_held 1 "$kind"
	kill -STOP $!
	kill -CONT $!
	sleep 0.3
	wait_held 1 "$kind"
	start=$(milliseconds)
	kill -KILL $!
	wait $! && fail "$* did not die"
	took=$(($(milliseconds) - start))
	[ "$took" -lt 50 ] || fail "$* took $took ms to die"
	wait_held 0
	hold
	eval "$condition" || fail "$* did something though it was killed"
	times=$((times + 1))
}

milliseconds() {
	awk '{ print $1 * 1000 }' /proc/uptime
}

disk ssd
scheduler split-noop
file_system
cd /tmp/mnt || exit
: >file
times=0
killed write "[ ! -s file ]" dd if=/dev/zero of=file bs=4k count=1 conv=notrunc
killed write "[ ! -s file ]" dd if=/dev/zero of=file bs=4k count=1 conv=notrunc oflag=direct
killed write "[ ! -s file ]" xfs_io -c "sendfile -i /bin/ls 0 4096" file
killed fsync true xfs_io -c fsync file
killed sync true sync
killed creat "[ ! -e new ]" touch new
killed mkdir "[ ! -e new ]" mkdir new
killed unlink "[ -e file ]" rm file
killed rename "[ -e file ]" mv file new
killed truncate "[ ! -s file ]" perl -e "truncate('file', 5000) or die"
killed change "[ ! -x file ]" chmod +x file

# A process dies as a whole, with held threads and one that waits for the lock of an open file, which a held thread has.
hold write
fio --name=many --directory=/tmp/mnt --thread --numjobs=20 --rw=write --bs=4k --size=64k --fallocate=none --create_on_open=1 \
	--output=/out/fio &
wait_held 20 write
kill -KILL $!
wait $! && fail "fio did not die"
wait_held 0
hold
times=$((times + 20))
grep -q " let_go=0 dropped=$times " /sys/kernel/debug/split/devices ||
	fail "not $times: $(cat /sys/kernel/debug/split/devices)"
cd /
umount /tmp/mnt
