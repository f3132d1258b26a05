# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2154  # the lab sets what is in capitals
# sysbench's file I/O on ext4, in a cgroup whose memory holds a third of its files, so that most reads reach the disk.
files=/tmp/files memory=/sys/fs/cgroup/sysbench
mkfs.ext4 -q -N 4096 "$DEV"
mkdir $files $memory
mount "$DEV" $files
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
echo 48M >$memory/memory.max

# fileio ARGUMENT…
fileio() (
	cd $files || exit
	exec ionice -c 2 -n 0 sysbench fileio --file-num=16 --file-total-size=128M --file-block-size=16384 "$@"
)

# The neighbour: a reader of large pieces, which every scheduler can tell to be less urgent.
neighbour() {
	fio --name=neighbour --filename=$files/neighbour --size=64m --direct=1 --ioengine=libaio --rw=randread --bs=64k \
		--iodepth=16 --prioclass=2 --prio=7 --time_based=1 --runtime="$RUNTIME" --randseed="$SEED" \
		--lat_percentiles=1 --clat_percentiles=1 --output-format=json+ --output=/out/fio.json
}

measure() {
	[ -z "$NEIGHBOUR" ] || neighbour &
	(
		echo 0 >$memory/cgroup.procs
		# shellcheck disable=SC2086
		fileio --file-test-mode=rndrw --time="$RUNTIME" --rand-seed="$SEED" --histogram=on $SYNC run
	) >/out/sysbench.txt
	wait $!
}

fileio prepare >/dev/null
[ -z "$NEIGHBOUR" ] || dd if=/dev/zero of=$files/neighbour bs=1M count=64 oflag=direct status=none
sync
echo 3 >/proc/sys/vm/drop_caches
watched measure
