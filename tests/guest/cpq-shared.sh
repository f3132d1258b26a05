# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: cpq
# cpus: 2
# full
# dmesg: I/O error
# Disks that share the tags of one driver (namespaces of an NVMe controller, units of a SCSI host), each with its own settings.
# Each does all its requests with the right data, a flood on one doesn't stop the other, and one is removed.
. ./lib.sh

# job DISK NAME FIO_OPTION…: start fio; its number in $job.
job() {
	at=$1 name=$2
	shift 2
	fio --thread --filename="/dev/$at" --direct=1 --ioengine=libaio --bs=4k --size=8m --output="/out/$at-$name" \
		--name="$name" "$@" &
	job=$!
}

# ends NUMBER: the process ends with success.
ends() {
	wait "$1" || fail "$what: $(cat "/out/$one"-* "/out/$other"-*)"
}

# verify DISK: two classes write and read back, each in its own area.
verify() {
	job "$1" verify --rw=randwrite --iodepth=16 --io_size=256k --verify=crc32c --verify_fatal=1 --prioclass=1 \
		--name=idle --prioclass=3 --offset=8m
}

# busy QUEUE_DISK: wait until the load is inside the device.
busy() {
	until awk '{ exit $1 + $2 < 2 }' "/sys/block/$1/inflight"; do
		kill -0 "$job" || fail "$what: no load: $(cat "/out/$one"-* "/out/$other"-*)"
		sleep 0.01
	done
}

# share ONE ONE_QUEUE OTHER OTHER_QUEUE: test two disks, with the queues that have a scheduler.
share() {
	one=$1 other=$3
	for Q in "/sys/block/$2/queue" "/sys/block/$4/queue"; do
		scheduler cpq
		echo 64 >"$Q/nr_requests"
	done
	echo 1 >"/sys/block/$2/queue/iosched/fifo_batch"
	echo 100 >"/sys/block/$2/queue/iosched/max_tgroup_io_ratio"
	[ "$(cat "$Q/iosched/fifo_batch" "$Q/iosched/max_tgroup_io_ratio")" = "16
50" ] || fail "$what: the knobs of $2 are those of $4"

	verify "$one"
	first=$job
	verify "$other"
	ends "$job"
	ends "$first"

	job "$one" flood --rw=randrw --iodepth=64 --time_based --runtime=60 --offset=16m
	flood=$job
	busy "$2"
	job "$other" reader --rw=randread --iodepth=1 --number_ios=200
	ends "$job"
	# The books of one are checked while the other's requests have the tags.
	scheduler none
	scheduler cpq
	verify "$other"
	ends "$job"
	kill "$flood" || fail "$what: the flood ended: $(cat "/out/$one-flood")"
	wait "$flood" || :
}

what=nvme
DISK=d0 disk nvme
DISK=d1 disk nvme
modprobe -a nvme-tcp nvmet-tcp
loopback
nvmet=/sys/kernel/config/nvmet
subsystem=$nvmet/subsystems/sluice
mkdir "$subsystem" $nvmet/ports/1
echo 1 >"$subsystem/attr_allow_any_host"
for number in 1 2; do
	mkdir "$subsystem/namespaces/$number"
	echo "/dev/simdisk-d$((number - 1))" >"$subsystem/namespaces/$number/device_path"
	echo 1 >"$subsystem/namespaces/$number/enable"
done
for pair in trtype=tcp adrfam=ipv4 traddr=127.0.0.1 trsvcid=4420; do
	echo "${pair#*=}" >"$nvmet/ports/1/addr_${pair%=*}"
done
ln -s "$subsystem" $nvmet/ports/1/subsystems/sluice
echo transport=tcp,traddr=127.0.0.1,trsvcid=4420,nqn=sluice,queue_size=16 >/dev/nvme-fabrics
until [ -b /dev/nvme0n1 ] && [ -b /dev/nvme0n2 ]; do sleep 0.1; done
# With multipath, several paths serve a disk, and the paths have the schedulers.
share nvme0n1 nvme0c0n1 nvme0n2 nvme0c0n2
echo 1 >/sys/class/nvme/nvme0/delete_controller

what=scsi
load sd_mod
modprobe scsi_debug dev_size_mb=32 ndelay=200000 max_queue=8 max_luns=2
units() {
	ls -d /sys/bus/pseudo/drivers/scsi_debug/adapter0/host*/target*/*/block/* 2>/dev/null
}
until [ "$(units | wc -l)" = 2 ]; do sleep 0.1; done
# shellcheck disable=SC2046  # words on purpose
set -- $(units)
share "${1##*/}" "${1##*/}" "${2##*/}" "${2##*/}"
# One disk is removed under load, and the other gets all shared tags.
job "$other" left --rw=randrw --iodepth=64 --time_based --runtime=60
busy "$other"
echo 1 >"/sys/block/$other/device/delete"
if wait "$job"; then
	fail "$what: the load did not notice that $other went"
fi
verify "$one"
ends "$job"
Q=/sys/block/$one/queue
scheduler none
rmmod cpq
