# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-deadline
# An fsync's data is estimated from all dirty data of its file, contiguous or scattered. Swap-out goes before requests without a
# deadline.
. ./lib.sh

# estimate NAME BYTES COMMAND…: the forecast for a command's fsync is about the time of BYTES at 70 MB/s.
estimate() {
	: >/sys/kernel/tracing/trace
	name=$1 ms=$(($2 / 70000))
	shift 2
	"$@"
	found=$(sed -n 's/.*deadline_fsync:.* data=\([0-9]*\)$/\1/p' /sys/kernel/tracing/trace | sort -n | tail -n 1)
	found=$((${found:-0} / 1000000))
	echo "$name: $found ms, by its size $ms"
	if [ "$found" -lt $((ms * 8 / 10)) ] || [ "$found" -gt $((ms * 12 / 10)) ]; then
		fail "$name is to take $found ms, by its size $ms"
	fi
}

disk ssd
scheduler split-deadline
datasheet ssd
echo 60000 >"$Q/iosched/fsync_deadline"
file_system
echo 1 >/sys/kernel/tracing/events/sluice/deadline_fsync/enable
estimate "one piece" $((64 << 20)) dd if=/dev/zero of=/tmp/mnt/f bs=1M count=64 conv=fsync status=none
# Every 16th page of the file, 3000 in all, at 6600 a second.
estimate "scattered" $((3000 * 10606)) python3 -c 'import os
fd = os.open("/tmp/mnt/g", os.O_CREAT | os.O_WRONLY)
for page in range(3000):
    os.pwrite(fd, bytes(4096), page * 65536)
os.fsync(fd)'
# Beside other dirty data of its account.
estimate "a part" $((24 << 20)) python3 -c 'import os
left, right = (os.open(f"/tmp/mnt/{name}", os.O_CREAT | os.O_WRONLY) for name in ("left", "right"))
os.write(left, bytes(24 << 20))
os.write(right, bytes(24 << 20))
os.fsync(left)'
echo 0 >/sys/kernel/tracing/events/enable
umount /tmp/mnt
scheduler none

# A short fsync keeps the disk from requests with more time. Only swap-out is written back.
echo 0 >/proc/sys/vm/dirty_writeback_centisecs
DISK=d1 disk hdd
scheduler split-deadline
echo 100 >"$Q/iosched/fsync_deadline"
file_system
dd if=/dev/zero of=/tmp/mnt/swap bs=1M count=64 conv=fsync status=none
chmod 600 /tmp/mnt/swap
mkswap /tmp/mnt/swap >/dev/null
swapon /tmp/mnt/swap
sh -c 'while :; do dd if=/dev/zero of=/tmp/mnt/log bs=4k count=1 conv=fsync,notrunc status=none; done' &
log=$!
mount -t cgroup2 none $G
echo +memory >$G/cgroup.subtree_control
mkdir $G/small
echo 24m >$G/small/memory.max
# shellcheck disable=SC2016
sh -c 'echo $$ >"$0/cgroup.procs" && exec python3 -c "
held = bytearray(48 << 20)
for at in range(0, len(held), 4096):
    held[at] = at >> 12 & 255"' "$G/small" &
load=$!
while kill -0 $load 2>/dev/null; do
	! grep -q '^none [0-9]* [1-9]' /sys/kernel/debug/block/simdisk-d1/sched/classes || fail "swap-out is the last: $(
		cat /sys/kernel/debug/block/simdisk-d1/sched/classes
	)"
	sleep 0.05
done
wait $load || fail "the load can't swap"
[ "$(awk '/^pswpout/ { print $2 }' /proc/vmstat)" -ge 5000 ] || fail "little was swapped out: $(grep pswp /proc/vmstat)"
kill $log
wait $log || :
sleep 0.5
swapoff /tmp/mnt/swap
umount /tmp/mnt
scheduler none
expect_dmesg_clean
