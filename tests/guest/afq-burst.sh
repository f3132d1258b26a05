# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: afq
# An account's dirty data is at most what the device writes in a burst, with every call and with stores. Alone it loses no
# throughput by that. All accounts of a class together have two bursts, those of IDLE a quarter of one, which costs some
# throughput. So a new commit waits no longer. IDLE writes back its dirty data beside others as well, a little at a time, and
# then goes on.
. ./lib.sh

# dirty_kib: KiB in the page cache that are dirty and not being written.
dirty_kib() {
	awk '$1 == "Dirty:" { print $2 }' /proc/meminfo
}

# learned: how fast the drive is said to write, MB/s.
learned() {
	sed 's/.* write_mbps=\([0-9]*\) .*/\1/' "$Q/iosched/costs"
}

# written: how many kB the drive has written, and in how many ms.
written() {
	awk '{ print int($7 * 512 / 1000), $10 }' "$Q/../stat"
}

# most_dirty COMMAND…: run a command; sets most, the most KiB that are dirty meanwhile, took, its duration in ms, wrote, how fast
# the drive wrote meanwhile, MB/s, and said, how fast it was said to, on average.
most_dirty() {
	most=0
	said=0
	looks=0
	before=$(written)
	began=$(date +%s%3N)
	"$@" &
	while kill -0 $! 2>/dev/null; do
		now=$(dirty_kib)
		[ "$now" -le "$most" ] || most=$now
		grep dirty /sys/kernel/debug/split/held >>/tmp/held || :
		said=$((said + $(learned)))
		looks=$((looks + 1))
		sleep 0.05
	done
	wait $! || fail "$*: $?"
	took=$(($(date +%s%3N) - began))
	said=$((said / looks))
	wrote=$(echo "$before $(written)" | awk '{ print int(($3 - $1) / ($4 - $2)) }')
	echo "burst_ms $(cat "$Q/iosched/burst_ms"): $*: $most KiB dirty, $took ms, $wrote MB/s, said to be $said"
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

# many: processes of the idle class, each of which writes little.
many() {
	mkdir /tmp/mnt/many
	ionice -c 3 python3 -c '
import os
for number in range(1400):
    if not os.fork():
        open(f"/tmp/mnt/many/{number}", "wb").write(bytes(65536))
        os._exit(0)
    assert os.wait()[1] == 0
'
	sync
	rm -r /tmp/mnt/many
}

# several: processes that each write much.
several() {
	for number in 1 2 3 4 5 6 7 8; do
		dd if=/dev/zero of=/tmp/mnt/several$number bs=256k count=32 status=none &
	done
	wait
	rm /tmp/mnt/several*
}

# commit: append to a file and make it durable; prints the ms.
commit() {
	began=$(date +%s%3N)
	dd if=/dev/zero of=/tmp/mnt/log bs=8k count=1 oflag=append conv=notrunc,fdatasync status=none
	echo $(($(date +%s%3N) - began))
}

# copy COMMAND…: run a command while an idle process writes until the disk is full; the process writes for a second before.
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

disk ssd
scheduler afq
file_system

for write in large small mapped many; do
	echo 0 >"$Q/iosched/burst_ms"
	most_dirty $write
	[ "$most" -ge 50000 ] || fail "nothing to hold back: $most KiB"
	free=$took
	echo 200 >"$Q/iosched/burst_ms"
	most_dirty $write
	# 200 ms of 70 MB/s, and a call; two looks are 40 ms apart.
	[ "$most" -le 20000 ] || fail "$write has $most KiB dirty"
	slower=105
	[ "$write" != many ] || slower=125
	[ "$took" -le $((free * slower / 100)) ] || fail "$write takes $took ms, not $free"
	if [ "$write" = large ] && { [ $((said * 4)) -lt $((wrote * 3)) ] || [ $((said * 4)) -gt $((wrote * 5)) ]; }; then
		fail "the drive writes $wrote MB/s and is said to write $said"
	fi
done
most_dirty several
[ "$most" -le 25000 ] || fail "several have $most KiB dirty"
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

# drain: beside a best-effort reader.
drain() {
	fio --name=reader --filename="$DEV" --offset=1g --size=1g --rw=randread --bs=4k --direct=1 --time_based --runtime=11 \
		--invalidate=0 --output=/tmp/fio &
	reader=$!
	sleep 0.5
	from=$(dirty_kib)
	written=$(stat -c %s /tmp/mnt/copy)
	least=$from
	for _ in $(seq 18); do
		sleep 0.5
		now=$(dirty_kib)
		[ "$now" -ge "$least" ] || least=$now
	done
	written=$(($(stat -c %s /tmp/mnt/copy) - written))
	wait $reader || fail "fio: $(cat /tmp/fio)"
	echo "dirty: $from KiB, at least $least within 9 s, in which $written bytes were written"
}

echo 500 >"$Q/iosched/burst_ms"
copy drain
[ "$from" -ge 1024 ] || fail "nothing to drain: $from KiB"
[ "$least" -le $((from * 6 / 10)) ] || fail "IDLE keeps $least of $from KiB dirty"
[ "$written" -ge 1048576 ] || fail "IDLE wrote but $written bytes"
[ "$written" -le 3145728 ] || fail "IDLE wrote $written bytes beside a reader"

# IDLE's dirty data takes long to write back beside others: a call proceeds nevertheless. The first call finds open gates.
echo 0 >"$Q/iosched/burst_ms"
ionice -c 3 dd if=/dev/zero of=/tmp/mnt/late bs=1M count=8 status=none
echo 500 >"$Q/iosched/burst_ms"
echo 100 >"$Q/iosched/starvation_ms"
fio --name=reader --filename="$DEV" --offset=1g --size=1g --rw=randread --bs=4k --direct=1 --time_based --runtime=4 \
	--invalidate=0 --output=/tmp/fio &
reader=$!
sleep 0.5
timeout 3 ionice -c 3 dd if=/dev/zero of=/tmp/mnt/late bs=4k count=2 oflag=append conv=notrunc status=none ||
	fail "IDLE waits until all is written"
wait $reader || fail "fio: $(cat /tmp/fio)"
