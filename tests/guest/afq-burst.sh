# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: afq
# each
# An account has no more dirty than the device writes in a burst, by whatever call or store, and loses no throughput by that while it
# is alone. So a commit that comes waits no longer. IDLE writes back what it has dirty beside others as well, a little at a
# time.
. ./lib.sh

# dirty_kib: in the page cache, and not being written.
dirty_kib() {
	awk '$1 == "Dirty:" { print $2 }' /proc/meminfo
}

# most_dirty COMMAND…: the most KiB that are dirty while it runs, in $most, and how long that takes, in $took ms.
most_dirty() {
	most=0
	began=$(date +%s%3N)
	"$@" &
	while kill -0 $! 2>/dev/null; do
		now=$(dirty_kib)
		[ "$now" -le "$most" ] || most=$now
		grep dirty /sys/kernel/debug/split/held >>/tmp/held || :
		sleep 0.05
	done
	wait $! || fail "$*: $?"
	took=$(($(date +%s%3N) - began))
	echo "burst_ms $(cat "$Q/iosched/burst_ms"): $*: $most KiB dirty, $took ms"
}

large() {
	dd if=/dev/zero of=/tmp/mnt/large bs=256k count=400 conv=fsync status=none
	rm /tmp/mnt/large
}

small() {
	mkdir /tmp/mnt/small
	python3 -c '
for number in range(2000):
    open(f"/tmp/mnt/small/{number}", "wb").write(bytes(49152))
'
	sync
	rm -r /tmp/mnt/small
}

mapped() {
	truncate -s 96m /tmp/mnt/mapped
	python3 -c '
import mmap
file = open("/tmp/mnt/mapped", "r+b")
pages = mmap.mmap(file.fileno(), 0)
for at in range(0, len(pages), 4096):
    pages[at] = 1
pages.flush()
'
	rm /tmp/mnt/mapped
}

# commit: append, and make it durable; ms.
commit() {
	began=$(date +%s%3N)
	dd if=/dev/zero of=/tmp/mnt/log bs=8k count=1 oflag=append conv=notrunc,fdatasync status=none
	echo $(($(date +%s%3N) - began))
}

# copy COMMAND…: while an idle process writes until the disk is full, and has done so for a second.
copy() {
	ionice -c 3 dd if=/dev/zero of=/tmp/mnt/copy bs=1M status=none &
	copy=$!
	sleep 1
	"$@"
	kill $copy || :
	wait $copy || :
	rm /tmp/mnt/copy
	sync
}

# The drive takes half as much as its datasheet says, which is learned.
disk ssd
scheduler afq
file_system

# learned: what the device is known to take, in per cent of the model's time.
learned() {
	sed -n 's/.*slow_pct //p' "/sys/kernel/debug/block/${DEV#/dev/}/sched/learned"
}

for write in large small mapped; do
	echo 0 >"$Q/iosched/burst_ms"
	most_dirty $write
	[ "$most" -ge 60000 ] || fail "nothing to hold back: $most KiB"
	free=$took
	echo 200 >"$Q/iosched/burst_ms"
	most_dirty $write
	# 200 ms of 70 MB/s, and a call; 40 ms pass between two looks.
	[ "$most" -le 20000 ] || fail "$write has $most KiB dirty"
	[ "$took" -le $((free * 105 / 100)) ] || fail "$write takes $took ms, not $free"
	if [ "$write" = large ] && { [ "$(learned)" -lt 150 ] || [ "$(learned)" -gt 300 ]; }; then
		fail "the device is said to take $(learned) % of its time"
	fi
done
for kind in write store; do
	grep -q "$kind pid=.* reason=dirty" /tmp/held || fail "no $kind was held: $(cat /tmp/held)"
done
# first: the first commit beside a copy.
first() {
	first=$(commit)
	echo "burst_ms $(cat "$Q/iosched/burst_ms"): the first commit $first ms"
}

copy first
[ "$first" -le 500 ] || fail "a commit took $first ms"
echo 0 >"$Q/iosched/burst_ms"
copy first
[ "$first" -ge 1000 ] || fail "a commit beside all that is dirty took but $first ms"

# drain: beside a reader of best effort.
drain() {
	fio --name=reader --filename="$DEV" --offset=1g --size=1g --rw=randread --bs=4k --direct=1 --time_based --runtime=5 \
		--invalidate=0 --output=/tmp/fio &
	reader=$!
	sleep 1.5
	from=$(dirty_kib)
	written=$(stat -c %s /tmp/mnt/copy)
	sleep 3
	to=$(dirty_kib)
	written=$(($(stat -c %s /tmp/mnt/copy) - written))
	wait $reader || fail "fio: $(cat /tmp/fio)"
	echo "dirty: $from KiB, 3 s later $to; meanwhile $written bytes"
}

echo 1000 >"$Q/iosched/burst_ms"
copy drain
[ "$from" -ge 8192 ] || fail "nothing to drain: $from KiB"
[ "$to" -lt $((from - 1024)) ] || fail "IDLE keeps $to of $from KiB dirty"
[ "$written" -ge 2097152 ] || fail "IDLE wrote but $written bytes, not a call each second"
