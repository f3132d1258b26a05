# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2086  # words on purpose
# modules: cpq
# Writes beside a reader are bound where the disk itself is shallow, though its host adapter takes many requests; and where
# it becomes deep they aren't any more.
. ./lib.sh

# beside DEPTH: sets writes, of which the disk does so many a second beside a reader if it takes so much at once.
beside() {
	echo "$1" >/sys/block/sda/device/queue_depth
	[ "$(cat /sys/block/sda/device/queue_depth)" = "$1" ] || fail "the disk's depth isn't $1"
	fio --thread --filename=/dev/sda --direct=1 --ioengine=libaio --bs=4k --time_based --runtime=1 --output-format=terse \
		--terse-version=3 --output=/out/fio --name=writer --rw=randwrite --iodepth=64 --name=reader --rw=randread ||
		fail "fio: $(cat /out/fio)"
	writes=$(awk -F ';' '{ writes += $49 } END { print int(writes) }' /out/fio)
	echo "depth $1: $writes writes a second beside a reader"
}

modprobe sd_mod
modprobe scsi_debug dev_size_mb=64 ndelay=1000000 max_queue=128
until [ -b /dev/sda ]; do sleep 0.1; done
[ "$(cat /sys/class/scsi_host/host0/can_queue)" -gt 64 ] || fail "the adapter is shallow: $(cat /sys/class/scsi_host/host0/can_queue)"
load cpq
echo cpq >/sys/block/sda/queue/scheduler
beside 31
bound=$writes
[ "$bound" -lt 3000 ] || fail "a shallow disk does $bound writes a second beside a reader"
beside 64
[ "$writes" -gt $((bound * 4)) ] || fail "a deep disk does $writes writes a second beside a reader, a shallow one $bound"
beside 31
[ "$writes" -lt 3000 ] || fail "a disk that became shallow does $writes writes a second beside a reader"
echo none >/sys/block/sda/queue/scheduler
