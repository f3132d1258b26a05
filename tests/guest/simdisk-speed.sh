# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# The driver adds nothing to the model's time: compared with tests/units/measure, divided by slowdown.
. ./lib.sh

# delivers PROFILE IOPS FIO_OPTION…: the drive delivers IOPS within 3 %.
delivers() {
	profile=$1 expected=$2
	shift 2
	disk "$profile" data=none
	scheduler none
	fio --name=speed --filename="$DEV" --direct=1 --ioengine=libaio --time_based --runtime=2 \
		--group_reporting --output-format=terse --terse-version=3 --output=/out/fio "$@"
	iops=$(awk -F ';' '{ print $8 + $49 }' /out/fio)
	if [ $((iops * 100)) -lt $((expected * 97)) ] || [ $((iops * 100)) -gt $((expected * 103)) ]; then
		fail "$profile $*: $iops IOPS, expected $expected"
	fi
	rmdir /sys/kernel/config/simdisk/d0
}

delivers ssd 17543 --rw=randread --bs=4k --iodepth=8 --numjobs=4
delivers ssd 953 --rw=read --bs=128k --iodepth=16
delivers emmc 11000 --rw=randread --bs=4k --iodepth=8 --numjobs=4
delivers hdd 964 --rw=read --bs=128k --iodepth=16
rmmod simdisk
expect_dmesg_clean
