# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2154  # the lab sets what is in capitals
# Processes read 4 KiB from a file past the page cache, or each writes its part of 250 MiB once. The writes only make clean
# pages dirty: nothing is written back before all are done, and writeback is measured separately.
pages=64000
large_files 1 1g
sysctl -qw vm.dirty_background_bytes=$((680 << 20)) vm.dirty_bytes=$((700 << 20))

# load OPTION…
load_with() {
	fio --name=load --filename=/tmp/mnt/f0 --ioengine=psync --bs=4k --numjobs="$PROCESSES" --group_reporting=1 \
		--randseed="$SEED" --lat_percentiles=1 --clat_percentiles=1 --output-format=json+ --output=/out/fio.json "$@"
}

# The clock counts instructions, all of them but the few that start sync.
write_back() {
	before=$(date +%s%N)
	sync -f /tmp/mnt
	after=$(date +%s%N)
	echo "writeback-instructions-per-page $(((after - before) / pages))" >/out/readings
}

case $LOAD in
direct-read)
	watched load_with --direct=1 --rw=randread --norandommap=1 --size=1g --time_based=1 --runtime="$RUNTIME"
	;;
buffered-write)
	share=$((pages * 4 / PROCESSES))k
	watched load_with --rw=write --size=$share --offset_increment=$share
	write_back
	;;
esac
