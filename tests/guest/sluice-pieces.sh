# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: sluice
# Beside commits of best effort 0 the writeback of an idle copy goes in pieces, one after the other, unless a commit asked for
# it. A piece is what the drive writes in 2.5 ms, 32 to 128 KiB. Hardly any goes between a commit's flushes. Alone it goes as
# before. Afterwards the queue has its own limits again, and the kept-back data is on the disk.
. ./lib.sh

tracing=/sys/kernel/tracing
limit=128

# watch SECONDS: the copy's writeback in that time, as "REQUESTS LARGEST_KIB MOST_INSIDE BETWEEN_FLUSHES".
watch() {
	echo >$tracing/trace
	echo 1 >$tracing/tracing_on
	sleep "$1"
	echo 0 >$tracing/tracing_on
	cp $tracing/trace /out/trace
	# "... block_rq_issue: 259,3 W 131072 () 1000 + 256 none,0,0 [kworker]"; a commit's are WS. A flush is FF. A write with
	# flushes is complete a second time after the last one, with 0 sectors.
	awk '/ block_rq_(issue|complete): / {
			for (i = 1; i <= NF; i++)
				if ($i == "+") { sector = $(i - 1); sectors = $(i + 1) }
			if ($0 ~ /block_rq_issue: [0-9]+,[0-9]+ FF /)
				flushing = 1
			else if ($0 ~ /block_rq_complete: [0-9]+,[0-9]+ W/ && !sectors)
				flushing = 0
			if ($0 ~ /block_rq_issue: [0-9]+,[0-9]+ W /) {
				count++
				if (sectors > largest) largest = sectors
				if (!(sector in inside)) now++
				between += flushing
				inside[sector] = 1
				if (now > most) most = now
			} else if ($0 ~ /block_rq_complete/ && sector in inside) {
				delete inside[sector]
				now--
			}
		}
		END { print count + 0, largest / 2, most + 0, between + 0 }' $tracing/trace
}

load xfs
disk ssd
scheduler sluice
datasheet ssd
mkfs.xfs -q "$DEV"
mkdir -p /tmp/mnt
mount "$DEV" /tmp/mnt
own=$(cat "$Q/max_sectors_kb")
[ "$own" -gt "$limit" ] || fail "requests have $own KiB at most before anything begins"
for event in issue complete; do
	echo 1 >$tracing/events/block/block_rq_$event/enable
done
echo 0 >$tracing/tracing_on
echo 8192 >$tracing/buffer_size_kb

ionice -c 3 fio --name=copy --directory=/tmp/mnt --rw=write --bs=1m --size=40m --time_based=1 --runtime=600 --output=/dev/null &
fio --name=log --directory=/tmp/mnt --rw=write --bs=8k --size=8m --fdatasync=1 --prio=0 --time_based=1 --runtime=600 \
	--output=/dev/null &
sleep 3
beside=$(watch 6)
[ "$(cat "$Q/max_sectors_kb")" = $limit ] || fail "beside commits requests have $(cat "$Q/max_sectors_kb") KiB at most"
echo "beside: $beside"
# shellcheck disable=SC2086
set -- $beside
[ "$1" -ge 10 ] || fail "hardly anything is written back: $beside"
[ "$2" -le $limit ] || fail "beside commits a request of $2 KiB was written back"
[ "$3" -le 2 ] || fail "$3 pieces were inside the device at once"
[ $(($4 * 50)) -le "$1" ] || fail "$4 pieces of $1 were dispatched between a commit's flushes"

# piece WRITE_MBPS KIB: so large is a request at most when the drive is thought to write so fast.
piece() {
	echo "write_mbps=$1" >"$Q/iosched/costs"
	sleep 1
	[ "$(cat "$Q/max_sectors_kb")" = "$2" ] || fail "a drive of $1 MB/s gets $(cat "$Q/max_sectors_kb") KiB at most, not $2"
}
piece 30 64
piece 10 32
piece 200 128

pkill -f -KILL name=log
sleep 2
alone=$(watch 3)
echo "alone: $alone"
[ "$(cat "$Q/max_sectors_kb")" = "$own" ] || fail "alone requests have $(cat "$Q/max_sectors_kb") KiB at most, not $own"
# shellcheck disable=SC2086
set -- $alone
[ "$2" -gt $limit ] || fail "alone no request is larger than $2 KiB"

# Writeback that is kept back below a reader goes when the reader has ended, even if the disk is otherwise idle. The dirty
# data has no limit here, and the drive is thought to be slow, so that much is kept back.
pkill -KILL fio
while pgrep fio >/dev/null; do sleep 0.1; done
burst_ms=$(cat "$Q/iosched/burst_ms")
echo 0 >"$Q/iosched/burst_ms"
echo write_mbps=20 >"$Q/iosched/costs"
read -r before _ <"$Q/../stat"
fio --name=reads --filename="$DEV" --direct=1 --rw=randread --bs=4k --prio=0 --time_based=1 --runtime=600 --output=/dev/null &
for _ in $(seq 300); do
	read -r reads _ <"$Q/../stat"
	[ $((reads - before)) -lt 100 ] || break
	sleep 0.02
done
[ $((reads - before)) -ge 100 ] || fail "the reader does not begin"
ionice -c 3 dd if=/dev/zero of=/tmp/mnt/kept bs=1M count=4 status=none
ionice -c 3 fio --name=hint --filename=/tmp/mnt/kept --rw=read --bs=4m --size=4m --invalidate=1 --output=/dev/null &
for _ in $(seq 200); do
	deferred=$(sed -n 's/^deferred //p' /sys/kernel/debug/block/"${DEV#/dev/}"/sched/writeback)
	[ "$deferred" -eq 0 ] || break
	sleep 0.02
done
[ "$deferred" -gt 0 ] || fail "nothing is kept back below a reader"
pkill -KILL fio
sleep 2
deferred=$(sed -n 's/^deferred //p' /sys/kernel/debug/block/"${DEV#/dev/}"/sched/writeback)
[ "$deferred" -eq 0 ] || fail "with the reader gone $deferred requests are kept back"
echo "$burst_ms" >"$Q/iosched/burst_ms"
echo write_mbps=200 >"$Q/iosched/costs"

# A limit that is set while ranks compete stays; the limit from before comes back if the scheduler goes meanwhile.
ionice -c 3 fio --name=copy --directory=/tmp/mnt --rw=write --bs=1m --size=40m --time_based=1 --runtime=600 --output=/dev/null &
fio --name=log --directory=/tmp/mnt --rw=write --bs=8k --size=8m --fdatasync=1 --prio=0 --time_based=1 --runtime=600 \
	--output=/dev/null &
sleep 2
[ "$(cat "$Q/max_sectors_kb")" = $limit ] || fail "beside commits anew requests have $(cat "$Q/max_sectors_kb") KiB at most"
echo none >"$Q/scheduler"
[ "$(cat "$Q/max_sectors_kb")" = "$own" ] || fail "without the scheduler requests have $(cat "$Q/max_sectors_kb") KiB at most"
echo sluice >"$Q/scheduler"
sleep 2
echo 40 >"$Q/max_sectors_kb"
sleep 1
echo none >"$Q/scheduler"
[ "$(cat "$Q/max_sectors_kb")" = 40 ] || fail "a limit of 40 KiB that was set became $(cat "$Q/max_sectors_kb")"
pkill -KILL fio
while pgrep fio >/dev/null; do sleep 0.1; done
umount /tmp/mnt
xfs_repair -n "$DEV" || fail "the file system is not whole"
expect_dmesg_clean
