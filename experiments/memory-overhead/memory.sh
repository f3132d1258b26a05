# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2154  # the lab sets what is in capitals
# The load of an HDFS worker that receives blocks: eight writers, each of files of 64 MiB one after the other. Ten times a
# second the framework's memory is read, in bytes.
memory=/sys/kernel/debug/split/memory
large_files 1 1m
sysctl -qw vm.dirty_ratio="$RATIO" vm.dirty_background_ratio=$((RATIO / 2))
[ ! -e ${memory%/*} ] || [ -e $memory ] || fail "split does not say how many bytes it keeps: there is no $memory"

# Sets kept: the bytes that the framework uses; nothing if there is no framework.
look() {
	kept=0
	[ ! -e $memory ] || while read -r name value; do
		[ "$name" != bytes ] || kept=$value
	done <$memory
}

# Reads it until the file /tmp/done is there.
look_on() {
	count=0 sum=0 most=0
	until [ -e /tmp/done ]; do
		look
		count=$((count + 1)) sum=$((sum + kept))
		[ "$kept" -le "$most" ] || most=$kept
		sleep 0.1
	done
	echo "ram-bytes $(($(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo) * 1024))"
	echo "average-bytes $((sum / count))"
	echo "most-bytes $most"
}

measure() {
	look_on >/out/readings &
	fio --name=load --directory=/tmp/mnt --nrfiles=16 --filesize=64m --file_service_type=sequential --numjobs=8 \
		--group_reporting=1 --ioengine=psync --rw=write --bs=64k --zero_buffers=1 --fallocate=none \
		--time_based=1 --runtime="$RUNTIME" --randseed="$SEED" --lat_percentiles=1 --clat_percentiles=1 \
		--output-format=json+ --output=/out/fio.json
	touch /tmp/done
	wait
}

watched measure
