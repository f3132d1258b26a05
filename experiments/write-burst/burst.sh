# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2154  # the lab sets what is in capitals
# A reads a large file from its beginning on. For one second B, in the idle class, writes 4 KiB to random places of another. The
# files have 8 GiB: the reader never reaches the end, and B's places are far apart, as on a real disk.
large_files 2 8g
# The places of B's file are read before: otherwise B's first write waits for a read, which a scheduler may hold by itself.
filefrag /tmp/mnt/f1 >/dev/null

# job NAME FILE OPTION…
job() (
	name=$1 file=$2
	shift 2
	exec fio --name="$name" --filename="/tmp/mnt/$file" --size=8g --ioengine=psync --time_based=1 \
		--lat_percentiles=1 --clat_percentiles=1 --output-format=json+ --output="/out/fio-$name.json" "$@"
)

measure() {
	[ -z "$BURST" ] || job burst f1 --prioclass=3 --rw=randwrite --norandommap=1 --bs=4k --zero_buffers=1 \
		--randseed="$SEED" --startdelay="$BURST" --runtime=1 &
	job reader f0 --prioclass=2 --prio=4 --rw=read --bs=128k --ramp_time="$AFTER" --runtime="$RUNTIME" \
		--log_hist_msec=500 --log_hist_coarseness=2 --write_hist_log=/out/reader
	wait
}

watched measure
