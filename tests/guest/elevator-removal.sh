# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# schedulers: mq-prio cpq sluice afq split-token split-deadline split-noop wrr
# full: afq split-token split-noop
# cpus: 2
# race: too
# dmesg: I/O error
# The drive is unplugged, and a CPU goes offline and online, under a load of several ranks, also on several hardware queues.
. ./lib.sh

config=/sys/kernel/config/simdisk/d0

# started: the number of requests that the drive has started.
started() {
	awk '$1 == "read" || $1 == "write" { sum += $2 } END { print sum }' $config/stats
}

# start_load: a load that lasts until /tmp/enough is there, or until the drive is gone.
start_load() {
	before=$(started)
	fio --thread --filename="$DEV" --direct=1 --ioengine=libaio --iodepth=16 --rw=randrw --bsrange=4k-64k \
		--fsync=32 --size=64m --time_based --runtime=6000 --trigger-file=/tmp/enough --output=/out/fio \
		--name=high --prioclass=1 \
		--name=middle --numjobs=2 --prioclass=2 --prio=3 --name=low --prioclass=3 >/dev/null 2>&1 &
	load=$!
	until [ $(($(started) - before)) -gt 100 ]; do
		kill -0 $load || fail "$profile: the load ended early: $(cat /out/fio)"
		sleep 0.05
	done
}

for profile in ssd hdd nvme; do
	disk $profile sectors=262144
	scheduler "$SCHEDULER"
	start_load
	for _ in 1 2 3; do
		for value in 0 1; do
			for cpu in /sys/devices/system/cpu/cpu[1-9]; do
				echo $value >"$cpu/online"
			done
			sleep 0.1
		done
	done
	kill -0 $load || fail "$profile: the load ended early: $(cat /out/fio)"
	touch /tmp/enough # which fio removes
	wait $load || fail "$profile: the load did not survive a CPU's going: $(cat /out/fio)"

	start_load
	echo 0 >$config/power
	if wait $load; then
		fail "$profile: the load did not notice"
	fi
	[ ! -e "$DEV" ] || fail "$profile: $DEV is still there"
	# It is usable afterwards.
	echo 1 >$config/power
	scheduler "$SCHEDULER"
	dd if="$DEV" of=/dev/null bs=4k count=4 iflag=direct status=none || fail "$profile: no read"
	echo 0 >$config/power
	rmdir $config
done
rmmod "$(echo "$SCHEDULER" | tr - _)"
