# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: sluice
# Processes of one rank on flash: one that asks for little is served first, and the device does as much as without it. Many
# that come one after the other don't stop the others, and a copy at the same rank leaves a reader its latency.
. ./lib.sh

# job NAME FIO_OPTION…: reads of the disk for $time s after half of one; /tmp/NAME becomes "IOPS P99_US".
job() {
	name=$1
	shift
	fio --name="$name" --filename="$DEV" --offset=40g --size=8g --direct=1 --ioengine=libaio --norandommap --randseed=1 \
		--time_based --ramp_time=500ms --runtime="$time" --rw=randread --bs=4k --invalidate=0 --output-format=terse \
		--terse-version=3 --output="/tmp/$name.terse" "$@" || fail "fio: $*"
	awk -F';' '{ sub(/.*=/, "", $30); print $8, $30 }' "/tmp/$name.terse" >"/tmp/$name"
	echo "$name: $(cat "/tmp/$name")"
}

iops() {
	cut -d' ' -f1 "/tmp/$1"
}

p99() {
	cut -d' ' -f2 "/tmp/$1"
}

# both FIO_OPTION…: a light reader, with these options, beside a deep one.
both() {
	job deep --iodepth=32 &
	deep=$!
	job light --iodepth=1 "$@"
	wait $deep
}

# comers NUMBER BYTES COUNT: so many processes at a time, which come one after the other and read COUNT times BYTES each.
comers() {
	for i in $(seq "$1"); do
		while [ -e /tmp/come ]; do
			dd if="$DEV" of=/dev/null bs="$2" count="$3" skip=$((i * 100)) iflag=direct status=none
		done &
	done
}

# beside NUMBER BYTES COUNT FIO_OPTION…: a reader with these options beside such.
beside() {
	touch /tmp/come
	comers "$1" "$2" "$3"
	shift 3
	job reader "$@"
	rm /tmp/come
	wait
}

# looks SECONDS: in how many of twenty looks, after so long, a process is served before others.
looks() {
	sleep "$1"
	seen=0
	for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		sleep 0.05
		! awk '$9 == 1 { light = 1 } END { exit !light }' "/sys/kernel/debug/block/${DEV#/dev/}/sched/clients" ||
			seen=$((seen + 1))
	done
	echo "light in $seen looks"
}

# traced DISK: a look at each read of the disk in a trace. /tmp/front becomes the sectors of writes that the drive had not
# done when it got the read, and /tmp/queued the microseconds from the read's insertion to that moment; both in order.
traced() {
	echo 0 >$TRACE/tracing_on
	awk -v disk="$(tr : , <"/sys/block/${DEV#/dev/}/dev")" '
		match($0, /[0-9]+\.[0-9]+: block_rq_[a-z]+: /) {
			split(substr($0, RSTART, RLENGTH), head, ": ")
			at = head[1] * 1e6
			event = head[2]
			$0 = substr($0, RSTART + RLENGTH)
			if ($1 != disk)
				next
			for (plus = 3; $plus != "+"; plus++)
				;
			place = $(plus - 1)
			if (event == "block_rq_insert") {
				inserted[place] = at
			} else if (event == "block_rq_issue" && $2 ~ /^R/) {
				print 0 + front >"/tmp/front"
				print (place in inserted ? at - inserted[place] : 0) >"/tmp/queued"
			} else if (event == "block_rq_issue" && $2 ~ /W/) {
				front += written[place] = $(plus + 1)
			} else if (event == "block_rq_complete" && $2 ~ /W/) {
				front -= written[place]
				delete written[place]
			}
			if (event != "block_rq_insert")
				delete inserted[place]
		}' $TRACE/trace
	for measured in front queued; do
		sort -n -o /tmp/$measured /tmp/$measured
	done
	echo >$TRACE/trace
}

# of_hundred PERCENTILE FILE: that percentile of sorted numbers.
of_hundred() {
	sed -n "$((($(wc -l <"$2") * $1 + 99) / 100))p" "$2"
}

# copy: what is copied in 10 s, beside what began 2 s before. In less the speed depends on the start.
copy() {
	dd if=/dev/zero of=/tmp/mnt/copy bs=1M count=100000 status=none &
	copy=$!
	sleep 2
	before=$(stat -c %s /tmp/mnt/copy)
	sleep 10
	copied=$(($(stat -c %s /tmp/mnt/copy) - before))
	learned=$(cat "/sys/kernel/debug/block/${DEV#/dev/}/sched/writeback")
	kill $copy
	wait $copy || :
	rm /tmp/mnt/copy
	echo "copied $copied"
}

TRACE=/sys/kernel/tracing
echo 0 >$TRACE/tracing_on
echo 16384 >$TRACE/buffer_size_kb
disk ssd
scheduler sluice

# A copy through the page cache has what a reader leaves. 99 of 100 reads find one and a half pieces of 128 KiB or less of
# the copy in the drive, and go there at once. How long they take then is the drive's affair, which may write out its buffer.
mkfs.ext4 -q -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$DEV" 1g
mkdir -p /tmp/mnt
mount "$DEV" /tmp/mnt
copy
copied_alone=$copied
case $learned in *"deferred 0"*) ;; *) fail "what a copy alone writes is kept back: $learned" ;; esac
for event in insert issue complete; do
	echo 1 >$TRACE/events/block/block_rq_$event/enable
done
time=12
job light --iodepth=1 --thinktime=5000 &
light=$!
{
	sleep 1 # what the copy wrote before the reader came is done
	echo >$TRACE/trace
	echo 1 >$TRACE/tracing_on
} &
copy
wait $light
traced
echo 0 >$TRACE/events/enable
[ "$copied" -ge $((copied_alone * 70 / 100)) ] || fail "beside a reader the copy has $copied of $copied_alone bytes"
[ "$(wc -l </tmp/front)" -ge 1000 ] || fail "only $(wc -l </tmp/front) reads are in the trace"
front=$(of_hundred 99 /tmp/front) queued=$(of_hundred 99 /tmp/queued)
echo "99 of 100 reads: $front sectors or less in front, $queued us or less in the scheduler"
[ "$front" -le 384 ] || fail "beside a copy one of 100 reads finds more than $front sectors in the drive"
[ "${queued%.*}" -le 100 ] || fail "beside a copy one of 100 reads waits in the scheduler for more than $queued us"
# One that starts reads one page after the other, and thinks little. It has two fifths of the time for itself.
time=2
job light --iodepth=1 --thinktime=200
time=12
starts=$(iops light)
job light --iodepth=1 --thinktime=200 &
light=$!
copy
wait $light
[ "$(iops light)" -ge $((starts * 40 / 100)) ] || fail "beside a copy a start does $(iops light) reads, alone $starts"
[ "$copied" -ge $((copied_alone * 50 / 100)) ] || fail "beside a start the copy has $copied of $copied_alone bytes"
umount /tmp/mnt

time=2
job deep --iodepth=32
job light --iodepth=1
alone=$(iops deep) most=$((3 * $(p99 light)))

both
sum=$(($(iops deep) + $(iops light)))
[ "$(p99 light)" -le $most ] || fail "the p99 of a reader at depth 1 is $(p99 light) us, more than $most"
[ "$sum" -ge $((alone * 95 / 100)) ] || fail "both readers do $sum reads, the deep one alone $alone"

# Looking for the limit anew takes some of a second.
time=4
both --thinktime=5000
[ "$(p99 light)" -le $most ] || fail "the p99 of a reader that thinks is $(p99 light) us, more than $most"
[ "$(iops deep)" -ge $((alone * 90 / 100)) ] || fail "beside it the deep reader does $(iops deep) reads, alone $alone"

# A process that comes after another one is alone: there is none to be served before.
time=2
job first --iodepth=32
time=1
job next --iodepth=32 &
next=$!
looks 0
wait $next
[ $seen -eq 0 ] || fail "after another process a reader that is alone counts as light"
[ "$(iops next)" -ge $((alone * 97 / 100)) ] || fail "after another process a reader does $(iops next) reads, not $alone"

# Sixteen threads of a process, for eight tags.
tags=$(cat "$Q/nr_requests")
echo 8 >"$Q/nr_requests"
both
few=$(iops light)
fio --thread --numjobs=16 --name=threads --filename="$DEV" --offset=40g --size=8g --direct=1 --rw=randread --norandommap \
	--time_based --runtime=4 --output=/dev/null &
threads=$!
job light --iodepth=1
wait $threads
echo "$tags" >"$Q/nr_requests"
[ "$(iops light)" -ge $((few / 2)) ] || fail "beside threads that wait for tags a reader does $(iops light) reads, not $few"

beside 8 4k 64 --iodepth=32
[ "$(iops reader)" -ge $((alone * 5 / 100)) ] || fail "beside processes that come and go a reader does $(iops reader) of $alone"
# Each asks for 64 MiB at once, which take the link 120 ms or more: a light reader doesn't wait for one of them, once it was
# seen beside them. In a second it may read some ten times only.
time=3
beside 8 64M 1 --iodepth=1
[ "$(p99 reader)" -le 120000 ] || fail "beside processes that read much at once the p99 of a reader is $(p99 reader) us"

time=1
# All that one of these asks for waits, and nothing comes meanwhile: there is another process all the same.
echo 1024 >"$Q/nr_requests"
beside 1 64M 1 --iodepth=1 --runtime=2 &
beside=$!
looks 1
wait $beside
[ $seen -ge 10 ] || fail "beside requests that all wait a reader counts as light in $seen looks of 20"
