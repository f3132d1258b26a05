# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: afq
# full
# kernels: 6.12
# limit: 2700
# Eight levels write, through the page cache and durably, on a disk and on an SSD: each has its share of the throughput.
# experiments/afq checks the numbers, over a longer time.
. ./lib.sh

# levels PROCESSES FIO_OPTION…: PROCESSES processes of each level write for 20 s, after a warm-up.
levels() {
	processes=$1
	shift
	{
		printf '[global]\ndirectory=/tmp/mnt\nioengine=psync\nzero_buffers=1\ninvalidate=0\nnumjobs=%s\n' "$processes"
		printf 'group_reporting=1\ntime_based=1\nprioclass=2\n'
		for level in 0 1 2 3 4 5 6 7; do
			printf '[p%s]\nnew_group=1\nfilename=f%s\nprio=%s\n' $level $level $level
		done
	} >/tmp/levels.fio
	for seconds in 4 20; do
		fio --runtime=$seconds --output-format=terse --output=/tmp/fio.terse "$@" /tmp/levels.fio || fail "fio: $*"
	done
}

# deviate MOST: the mean deviation from 8:7:…:1 is at most MOST per cent.
deviate() {
	awk -F';' -v most="$1" '
		{ bytes[substr($3, 2)] = $47; all += $47 }
		END {
			for (i = 0; i < 8; i++) {
				ideal = all * (8 - i) / 36
				off = (bytes[i] - ideal) / ideal * 100
				mean += (off < 0 ? -off : off) / 8
			}
			print "deviation " mean " %, " all / 1024 " MiB"
			exit mean > most
		}' /tmp/fio.terse || fail "levels deviate"
}

for profile in hdd ssd; do
	DISK=$profile disk $profile
	scheduler afq
	mkfs.ext4 -q -E nodiscard "$DEV" 16g
	mkdir -p /tmp/mnt
	mount "$DEV" /tmp/mnt
	levels 1 --rw=write --bs=128k --size=1g
	deviate 10
	rm /tmp/mnt/f*
	levels 5 --rw=randwrite --norandommap=1 --bs=4k --size=16m --fsync=1
	deviate 10
	umount /tmp/mnt
	scheduler none
	rmmod afq
done
