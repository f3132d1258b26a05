# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-token
# debug
# A process in debt blocks no other process. Others store to mapped files, change names, and look at the process, while it waits
# with locks that they might need. Its reads of metadata don't wait at all; a read of data waits for five seconds at most.
. ./lib.sh

buckets=/sys/kernel/debug/block/simdisk-d0/sched/buckets

in_group() {
	sh -c 'echo $$ >"$0/cgroup.procs" && shift && exec "$@"' "$G/$1" "$@"
}

milliseconds() {
	awk '{ print $1 * 1000 }' /proc/uptime
}

# A debug kernel takes several times as long for everything.
case $(uname -r) in
*-debug-*) slower=4 ;;
*) slower=1 ;;
esac

# soon MILLISECONDS WHAT COMMAND…: the command ends within that time.
soon() {
	limit=$(($1 * slower)) what=$2
	shift 2
	start=$(milliseconds)
	"$@" || fail "$what: it fails"
	took=$(($(milliseconds) - start))
	[ $took -lt "$limit" ] || fail "$what takes $took ms: $(cat $buckets /sys/kernel/debug/split/held)"
}

# held KIND: wait until a call of that kind is held.
held() {
	for _ in $(seq 300); do
		! grep -q " $1 .*reason=tokens" /sys/kernel/debug/split/held || return 0
		sleep 0.01
	done
	fail "no $1 is held: $(cat $buckets /sys/kernel/debug/split/held)"
}

disk ssd
scheduler split-token
weights
file_system -o no_prefetch_block_bitmaps
mkdir "$G/b" /tmp/mnt/cold
# Read the files that perl and fio need now.
perl -e 1
fio --name=x --filename=/tmp/mnt/x --size=8m --rw=write --bs=1m --end_fsync=1 --output=/dev/null
# A file of many pieces, whose extents are in blocks of their own.
perl -e 'open(F, ">", "/tmp/mnt/pieces") or die; for (0 .. 999) { sysseek(F, $_ * 8192, 0); syswrite(F, "x" x 4096) }'
for n in $(seq 100); do
	echo >"/tmp/mnt/cold/$n"
done
# Metadata that a journal has changed stays in memory when caches are dropped.
umount /tmp/mnt
mount -o no_prefetch_block_bitmaps "$DEV" /tmp/mnt
cat /tmp/mnt/x >/dev/null
echo 4096 >"$G/b/io.sluice.rate"

# Stores of two threads wait; another process stores, and another one looks at the process that waits.
in_group b fio --name=stores --filename=/tmp/mnt/x --size=8m --rw=randwrite --bs=4k --ioengine=mmap --invalidate=0 --numjobs=2 --thread \
	--output=/dev/null &
stores=$!
held store
soon 1000 "storing beside a call that waits" fio --name=y --filename=/tmp/mnt/y --size=4m --rw=write --bs=64k --ioengine=mmap \
	--output=/dev/null
for pid in $(pgrep -f name=stores); do
	# shellcheck disable=SC2016
	soon 1000 "looking at a process that waits" sh -c 'cat /proc/$0/cmdline /proc/$0/maps >/dev/null' "$pid"
done
pkill -KILL -f name=stores
wait $stores && fail "the stores aren't killed"

# Metadata, including extents, is read at once. The data behind it waits, but not longer than the limit.
soon 1000 "looking at a hundred files" in_group b ls -l /tmp/mnt/cold >/dev/null
soon 1000 "looking for a thousand pieces" in_group b filefrag /tmp/mnt/pieces >/dev/null
sync
start_reading=$(milliseconds)
in_group b dd if=/tmp/mnt/y of=/dev/null bs=4k count=1 skip=100 iflag=direct 2>/dev/null &
reader=$!
sleep 0.5
awk 'NR > 1 && $7 { found = 1 } END { exit !found }' $buckets || fail "no read waits: $(cat $buckets)"
soon 1000 "changing and syncing beside a read that waits" sh -c 'mkdir /tmp/mnt/new && echo >/tmp/mnt/new/file && sync'
wait $reader || fail "the reader fails"
took=$(($(milliseconds) - start_reading))
if [ $took -lt 4000 ] || [ $took -gt 6500 ]; then
	fail "a read takes $took ms in a large debt: $(cat $buckets)"
fi
echo max >"$G/b/io.sluice.rate"
sync

# A worker of io_uring that writes through the page cache holds no lock while it waits.
mkdir "$G/c"
echo 4096 >"$G/c/io.sluice.rate"
in_group c fio --name=uring --filename=/tmp/mnt/x --size=8m --rw=randwrite --bs=4k --ioengine=io_uring --iodepth=8 \
	--overwrite=1 --invalidate=0 --output=/dev/null &
uring=$!
held write
soon 1000 "removing what is being written" rm /tmp/mnt/x
echo max >"$G/c/io.sluice.rate"
wait $uring || fail "the writes fail"
umount /tmp/mnt
scheduler none
rmmod split-token
