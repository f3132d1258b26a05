# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# cpus: 2
# dmesg: I/O error
# Several submission queues, used from several CPUs: right content, and removal under load.
. ./lib.sh

config=/sys/kernel/config/simdisk/d0

load_both_cpus() {
	fio --name=queues --filename="$DEV" --direct=1 --ioengine=libaio --iodepth=16 --numjobs=2 \
		--cpus_allowed=0,1 --cpus_allowed_policy=split --rw=randwrite --bs=4k "$@"
}

for round in 1 2 3; do
	disk nvme sectors=262144
	scheduler none
	[ -d /sys/block/simdisk-d0/mq/1 ] || fail "one queue only: $(ls /sys/block/simdisk-d0/mq)"
	load_both_cpus --size=4m --offset_increment=4m --verify=crc32c --verify_fatal=1 --output=/out/fio ||
		fail "round $round: wrong content"
	load_both_cpus --size=32m --offset_increment=32m --time_based --runtime=60 --output=/dev/null 2>/dev/null &
	sleep 0.2
	echo 0 >$config/power
	if wait $!; then
		fail "round $round: the load did not notice the removal"
	fi
	rmdir $config
done
rmmod simdisk
expect_dmesg_clean 'I/O error'
