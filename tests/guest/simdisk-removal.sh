# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# dmesg: I/O error
# The drive is unplugged under load: every request ends, nothing hangs, the content survives.
. ./lib.sh

config=/sys/kernel/config/simdisk/d0

start_load() {
	fio --name=load --filename="$DEV" --direct=1 --ioengine=libaio --iodepth=16 --numjobs=2 \
		--rw=randrw --bsrange=4k-64k --fsync=32 --time_based --runtime=60 --size=64m \
		--offset=4m --output=/out/fio >/dev/null 2>&1 &
	fio=$!
}

# The load must end by itself, with errors, soon after the drive went.
load_ends() {
	if wait $fio; then
		fail "$1: the load did not notice"
	fi
	[ ! -e "$DEV" ] || fail "$1: $DEV is still there"
}

running() {
	sed -n 's/^\(read\|write\) //p' $config/stats | awk '{ sum += $1 } END { print sum }'
}

wait_for_load() {
	for _ in $(seq 500); do
		[ "$(running)" -lt 100 ] || return 0
		sleep 0.01
	done
	fail "no load arrives"
}

for profile in ssd hdd emmc nvme; do
	for elevator in none mq-deadline bfq; do
		disk $profile sectors=262144
		scheduler $elevator
		tr '\0' x </dev/zero | head -c 4096 >/tmp/x
		dd if=/tmp/x of="$DEV" bs=4k oflag=direct status=none
		start_load
		wait_for_load
		echo 0 >$config/power
		load_ends "$profile $elevator"
		echo 1 >$config/power
		dd if="$DEV" bs=4k count=1 iflag=direct status=none | cmp - /tmp/x ||
			fail "$profile $elevator: the content is gone"
		echo 0 >$config/power
		rmdir $config
	done
done

# Commands that hang end with the drive, and rmdir alone unplugs it.
disk ssd sectors=262144
echo 50 >$config/hang_every
start_load
for _ in $(seq 500); do
	grep -qx "hung 0" $config/stats || break
	sleep 0.01
done
grep -qx "hung 0" $config/stats && fail "nothing hangs"
rmdir $config
load_ends "hanging commands"

# A buffered writer whose pages can no longer be written.
disk ssd sectors=262144
dd if=/dev/zero of="$DEV" bs=1M count=32 status=none &
writer=$!
sleep 0.05
echo 0 >$config/power
wait $writer || true
sync
rmdir $config
rmmod simdisk
expect_dmesg_clean 'I/O error'
