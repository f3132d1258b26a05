# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: cpq
# each
# A task whose cgroup has its part of the tags does not wait behind the others of its cgroup for metadata. Nor does it wait for
# reads while it has a transaction of the file system open, as every fsync would wait with it. Nor does a real-time task wait.
# When all tags are in use, such tasks get a tag that becomes free.
. ./lib.sh

accounts=/sys/kernel/debug/block/simdisk-d0/sched/accounts

# readers CGROUP THREADS
readers() {
	as "$1" fio --thread --name="$1" --filename="$DEV" --direct=1 --ioengine=psync --numjobs="$2" --rw=randread --bs=4k \
		--offset=1g --size=64m --time_based --runtime=60 --output=/dev/null &
}

# expect_soon WHAT COMMAND…: run a command in the cgroup that wants much more than its part; it takes 50 ms at most.
expect_soon() {
	what=$1
	shift
	started=$(date +%s%N)
	as low "$@"
	took=$((($(date +%s%N) - started) / 1000000))
	echo "$what: $took ms"
	[ "$took" -lt 50 ] || fail "$what takes $took ms: $(cat $accounts)"
}

disk emmc
file_system
dd if=/dev/zero of=/tmp/mnt/file bs=64k count=1 conv=fsync status=none
# Cached metadata is no I/O, and ext4's read-ahead isn't marked as metadata.
umount /tmp/mnt
mount -o inode_readahead_blks=0 "$DEV" /tmp/mnt
scheduler cpq
echo 32 >"$Q/nr_requests"
echo +io >$G/cgroup.subtree_control
group low
echo 1 >$G/low/io.sluice.weight
readers low 100
readers high 40
until grep -q "weight=1 .*waiting=9" $accounts; do
	sleep 0.05
done
expect_soon "reading a directory" stat -c %s /tmp/mnt/file
# The block that becomes the last one is read, as data, to write zeroes behind the new end. 7.x reads it before the transaction.
case $(uname -r) in
7.*) ;;
*) expect_soon "a truncation" truncate -s 100 /tmp/mnt/file ;;
esac
# shellcheck disable=SC2016  # of the inner shell
expect_soon "reads of real-time class" ionice -c 1 sh -c 'for at in 1 2 3 4; do
		dd if="$0" of=/dev/null iflag=direct bs=4k count=1 skip=${at}000 status=none &
	done
	wait' "$DEV"
pkill -TERM fio
wait
umount /tmp/mnt
scheduler none
