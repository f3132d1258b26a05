# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2154  # the lab sets what is in capitals
# Readers of the disk, none of which has a priority, and a process that dirties a page of a file now and then.
mkfs.ext4 -q -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$DEV" 1g
mkdir -p /tmp/mnt
mount "$DEV" /tmp/mnt

# job NAME OPTION…
job() (
	name=$1
	shift
	exec fio --name="$name" --bs=4k --time_based=1 --runtime="$RUNTIME_SETTLED" --ramp_time=1s --randseed="$SEED" \
		--lat_percentiles=1 --clat_percentiles=1 --output-format=json+ --output="/out/fio-$name.json" "$@"
)

# reads NAME OPTION…: at random, behind the file system, past the page cache.
reads() {
	job "$@" --filename="$DEV" --offset=4g --size=24g --rw=randread --norandommap=1 --direct=1 --ioengine=libaio
}

deep() {
	reads deep --iodepth=32
}

light() {
	reads light --iodepth=1
}

# thinking: 5 ms from a read's end to the next one's begin.
thinking() {
	reads thinking --iodepth=1 --thinktime=5000
}

# logging: a page each 10 ms, through the page cache.
logging() {
	job logging --filename=/tmp/mnt/log --size=512m --rw=write --ioengine=psync --thinktime=10000 --invalidate=0
}

measure() {
	pids=
	for name in $JOBS; do
		"$name" &
		pids="$pids $!"
	done
	for pid in $pids; do
		wait "$pid"
	done
}

watched measure
