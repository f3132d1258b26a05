# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: mq-prio
# iolat and fio agree on the latency of the same I/Os within 2 %, in the median and in the tail. fio's latency includes a system
# call, some 5 us here, so the I/Os take a millisecond.
. ./lib.sh

# both DEVICE SCHEDULER FIO_OPTION…
both() {
	name="$1 $2"
	DISK=$1
	disk "$1" data=none ${slow:+slowdown=$slow}
	scheduler "$2"
	shift 2
	watch /tmp/csv --csv -d "$DEV" --op read --all
	fio --name=x --filename="$DEV" --direct=1 --ioengine=psync --numjobs="${jobs:-1}" --thread --group_reporting \
		--rw=randread --bs=4k --size=256m --output-format=json --output=/tmp/fio "$@"
	end_watch
	for percent in 50 99; do
		fio=$(awk -v at="\"$percent.000000\"" '/"clat_ns"/ { inside = 1 } inside && $1 == at { print $3 + 0; exit }' /tmp/fio)
		iolat=$(awk -F, -v percent=p${percent}_ns '
			NR == 1 { for (n = 1; n <= NF; n++) if ($n == percent) at = n }
			$8 == "q2c" { print $at }' /tmp/csv)
		echo "$name p$percent: fio $fio, iolat $iolat"
		awk -v a="$fio" -v b="$iolat" 'BEGIN { exit !(a > 0 && b / a > 0.98 && b / a < 1.02) }' ||
			fail "$name p$percent: fio says $fio ns, iolat $iolat"
	done
	echo 0 >/sys/kernel/config/simdisk/"$DISK"/power
	rmdir /sys/kernel/config/simdisk/"$DISK"
}

slow=16 both ssd none --number_ios=4000
slow=16 both ssd mq-deadline --number_ios=4000
slow=4 jobs=4 both emmc mq-prio --number_ios=1000
jobs=4 both hdd bfq --number_ios=100
