# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-noop
# full
# cpus: 2
# dmesg: I/O error
# debug
# race: too
# While 50 calls are held, another scheduler is chosen, the modules are unloaded, or the disk goes: all calls go on at once.
# Without a policy the kernel's code is unchanged, and other disks' policies are not affected.
. ./lib.sh

# sleepers: 50 tasks write, are held, and write on after that.
sleepers() {
	hold write
	fio --name=sleepers --directory=/tmp/mnt --thread --numjobs=50 --rw=write --bs=4k --size=16k --fallocate=none \
		--create_on_open=1 --group_reporting --output=/out/fio &
	load=$!
	wait_held 50 write
}

# awake: all of them have gone on.
awake() {
	wait $load || fail "a held write fails: $(cat /out/fio)"
}

# hooks NUMBER: NUMBER functions of the kernel are hooked.
hooks() {
	for _ in $(seq 600); do
		found=$(grep -cE '^(ext4_file_write_iter|ext4_sync_file|ext4_sync_fs|mnt_want_write) .* I ' \
			/sys/kernel/tracing/enabled_functions) || true
		[ "$found" != "$1" ] || return 0
		sleep 0.1
	done
	fail "$found hooks are in, not $1: $(cat /sys/kernel/tracing/enabled_functions)"
}

disk ssd
hooks 0
scheduler split-noop
hooks 4
file_system
for name in none mq-deadline; do
	sleepers
	scheduler $name
	awake
	scheduler split-noop
done
hooks 4

# Unloaded with sleepers, which sleep in the module until then.
for _ in 1 2 3 4 5; do
	sleepers
	scheduler none
	rmmod split-noop
	rmmod split
	hooks 0
	awake
	scheduler split-noop
done

# The module can't be unloaded either before a call inside the file system has returned to it.
kinds mkdir >"$Q/iosched/gates"
fsfreeze --freeze /tmp/mnt
mkdir /tmp/mnt/inside &
call=$!
sleep 0.1
scheduler none
rmmod split-noop
rmmod split &
unload=$!
sleep 3
[ -d /sys/module/split ] || fail "the module went before a call has returned to it"
fsfreeze --unfreeze /tmp/mnt
wait $call || fail "the call fails"
wait $unload || fail "the module stays"
scheduler split-noop

# A second disk comes and goes with a policy of its own.
DISK=d1 disk emmc
scheduler split-noop
_disk=d0 Q=/sys/block/simdisk-d0/queue
sleepers
echo none >/sys/block/simdisk-d1/queue/scheduler
wait_held 50 write
hooks 4
hold
awake
scheduler none
hooks 0

# Unplugged with sleepers.
scheduler split-noop
sleepers
echo 0 >/sys/kernel/config/simdisk/d0/power
for _ in $(seq 1000); do
	kill -0 $load 2>/dev/null || break
	sleep 0.05
done
kill -0 $load 2>/dev/null && fail "writes are held though their disk is gone: $(cat /sys/kernel/debug/split/held)"
hooks 0
umount /tmp/mnt
rmmod split-noop
rmmod split
