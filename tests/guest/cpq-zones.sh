# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: cpq
# cpus: 2
# Writes to a zone stay in their order, whether the kernel or cpq keeps it: across classes, and on a busy device.
. ./lib.sh

# write: several jobs of several classes, each I/O with a class of its own, verified at the end.
write() {
	fio --thread --filename="$DEV" --direct=1 --ioengine=libaio --iodepth=16 --bs=4k --zonemode=zbd --rw=write \
		--verify=crc32c --verify_fatal=1 --cmdprio_percentage=50 --cmdprio_class=1 --output=/out/fio \
		--name=first --prioclass=2 --size=8m --offset=8m --name=second --prioclass=3 --size=8m --offset=24m ||
		fail "$name: $(cat /out/fio)"
	# Several zones at a time; only the order within each zone matters.
	fio --thread --filename="$DEV" --direct=1 --ioengine=libaio --iodepth=16 --bs=4k --zonemode=zbd --rw=randwrite \
		--max_open_zones=4 --number_ios=2000 --output=/out/fio --name=random --size=16m --offset=40m ||
		fail "$name: $(cat /out/fio)"
	scheduler none 2>/dev/null || :
}

name=null_blk
modprobe null_blk nr_devices=0
config=/sys/kernel/config/nullb/nullb0
mkdir $config
for setting in size=64 poll_queues=0 memory_backed=1 completion_nsec=100000 irqmode=2 submit_queues=2 zoned=1 \
	zone_size=4 zone_nr_conv=2; do
	echo "${setting#*=}" >"$config/${setting%%=*}"
done
echo 1 >$config/power
DEV=/dev/nullb0
Q=/sys/block/nullb0/queue
scheduler cpq
write
rmdir $config

# Every 13th command fails: the block layer sends it once more.
name=scsi
load sd_mod
modprobe scsi_debug dev_size_mb=64 ndelay=200000 max_queue=8 zbc=managed zone_size_mb=4 zone_nr_conv=2
for _ in $(seq 50); do
	DEV=/dev/$(ls /sys/bus/pseudo/drivers/scsi_debug/adapter0/host*/target*/*/block 2>/dev/null) || :
	[ ! -b "$DEV" ] || break
	sleep 0.1
done
Q=/sys/block/${DEV#/dev/}/queue
scheduler cpq
echo 32768 >/sys/bus/pseudo/drivers/scsi_debug/opts
echo 13 >/sys/bus/pseudo/drivers/scsi_debug/every_nth
write
