# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-token
# A cgroup with a rate costs the disk its rate, whatever it does and however many processes it has, including cgroups below.
# Calls without cost are never held, nor are other processes; a new rate has effect at once.
. ./lib.sh

RATE=2000000

buckets=/sys/kernel/debug/block/simdisk-d0/sched/buckets

# of CGROUP FIELD: a field of its bucket.
of() {
	awk -v cgroup="$(stat -c %i "$G/$1")" -v field="$2" '$1 == cgroup { print $field }' $buckets
}

# in_group CGROUP COMMAND…: run a command there.
in_group() {
	sh -c 'echo $$ >"$0/cgroup.procs" && shift && exec "$@"' "$G/$1" "$@"
}

# solvent: wait until no cgroup is in debt.
solvent() {
	for _ in $(seq 600); do
		awk 'NR > 1 && $3 < 0 { exit 1 }' $buckets && return 0
		sleep 0.1
	done
	fail "still in debt: $(cat $buckets)"
}

milliseconds() {
	awk '{ print $1 * 1000 }' /proc/uptime
}

# costs NAME COMMAND…: the bucket of b is charged its rate for the duration of the command. The charge may differ by a second of
# the rate. More is the saved burst, the cost of one request or call, and the commit that no process waits for; less is the
# beginning. A payment in advance that comes back when all is written counts as b's own.
costs() {
	name=$1
	shift
	sync
	solvent
	before=$(of b 4) start=$(milliseconds)
	in_group b "$@" >/tmp/said 2>&1 || fail "$name: $(cat /tmp/said)"
	took=$(($(milliseconds) - start))
	sync
	cost=$(($(of b 4) - before)) back=$(of b 3)
	[ "$back" -le $((RATE / 10)) ] || cost=$((cost + back))
	echo "$name: $cost in $took ms"
	if [ $cost -lt $(((took - 1000) * (RATE / 1000))) ] || [ $cost -gt $(((took + 1000) * (RATE / 1000))) ]; then
		fail "$name costs $cost in $took ms, not $RATE a second: $(cat $buckets)"
	fi
}

# files NAME FIO_OPTION…: the same for a fio that runs for 20 seconds in a file.
files() {
	name=$1
	shift
	costs "$name" fio --name=x --directory=/tmp/mnt --filename=x --size=64m --time_based=1 --runtime=20 --invalidate=1 \
		--overwrite=1 --norandommap=1 "$@"
}

disk ssd
scheduler split-token
datasheet ssd
weights
# An access time would be written, by a commit that costs half a second.
file_system -o no_prefetch_block_bitmaps,noatime
mkdir "$G/b" "$G/b/below" "$G/other"
[ "$(cat "$G/b/io.sluice.rate")" = max ] || fail "a new cgroup has a rate: $(cat "$G/b/io.sluice.rate")"
fio --name=x --directory=/tmp/mnt --filename=x --size=64m --rw=write --bs=1m --end_fsync=1 --output=/dev/null
echo $RATE >"$G/b/io.sluice.rate"

files "sequential read" --rw=read --bs=64k
files "random read" --rw=randread --bs=4k
files "deep direct read" --rw=randread --bs=4k --direct=1 --ioengine=libaio --iodepth=32
files "direct read of 64" --rw=randread --bs=4k --direct=1 --numjobs=64 --thread
files "direct write" --rw=randwrite --bs=4k --direct=1
files "io_uring write" --rw=randwrite --bs=4k --direct=1 --ioengine=io_uring --iodepth=8
files "sequential write" --rw=write --bs=64k
files "random write" --rw=randwrite --bs=4k
files "random write of 64" --rw=randwrite --bs=4k --numjobs=64 --thread
files "durable write" --rw=randwrite --bs=4k --sync=1
files "stores" --rw=randwrite --bs=4k --ioengine=mmap

# The cost of names is known when the journal writes them.
# shellcheck disable=SC2016
costs names perl -e 'use IO::Handle; my $end = time + 20;
	for ($n = 0; time < $end; $n++) { open(F, ">", "/tmp/mnt/n$n") or die; F->sync }'

# Another process is never held while b is.
in_group b fio --name=x --directory=/tmp/mnt --size=64m --rw=write --bs=64k --time_based=1 --runtime=6 --output=/dev/null &
sleep 3
[ "$(of b 3)" -lt 0 ] || fail "b isn't in debt: $(cat $buckets)"
in_group other fio --name=y --directory=/tmp/mnt --size=32m --rw=write --bs=64k --end_fsync=1 --output-format=terse \
	--output=/tmp/fio
[ "$(awk -F';' '{ print $50 }' /tmp/fio)" -lt 1500 ] || fail "a process without a rate needs $(awk -F';' '{ print $50 }' /tmp/fio) ms"
wait

# Overwriting dirty data, even in debt, and reading from the page cache: at full speed.
sync
solvent
# Loading perl takes a second, the first time.
perl -e 1
in_group b dd if=/dev/zero of=/tmp/mnt/memory bs=1M count=2 2>/dev/null
# shellcheck disable=SC2016
for action in '<' '+<'; do
	start=$(milliseconds)
	in_group b perl -e 'open(F, $ARGV[0], "/tmp/mnt/memory") or die; my $x = "x" x 4096;
		for (0 .. 7) { sysseek(F, 0, 0); for (1 .. 512) {
			($ARGV[0] eq "<" ? sysread(F, $x, 4096) : syswrite(F, $x)) == 4096 or die } }' "$action"
	took=$(($(milliseconds) - start))
	[ $took -lt 1000 ] || fail "16 MB of memory, $action: $took ms: $(cat $buckets)"
done
[ "$(of b 3)" -lt 0 ] || fail "b isn't in debt any more"

# A cgroup without a rate, or with a higher one, pays the rate above it: 10 % of it in 2 s are 200 kB.
sync
solvent
echo $((RATE / 10)) >"$G/b/io.sluice.rate"
echo +io >"$G/b/cgroup.subtree_control"
echo 500 >"$G/b/below/io.sluice.weight"
for rate in max 1000000000; do
	echo $rate >"$G/b/below/io.sluice.rate"
	before=$(of b 4)
	# shellcheck disable=SC2016
	in_group b/below sh -c 'echo $$ >/tmp/pid && exec dd if=/tmp/mnt/x of=/dev/null bs=64k iflag=direct' &
	reader=$!
	sleep 3
	cost=$(($(of b 4) - before))
	kill -KILL "$(cat /tmp/pid)" || fail "below, at $rate, all has been read in 3 s: $(cat $buckets)"
	[ $cost -le $((RATE / 2)) ] || fail "below, at $rate, costs $cost in 3 s: $(cat $buckets)"
	# A read that waits can be killed.
	wait $reader && fail "the reader isn't killed"
	solvent
done

# A debt that takes a minute: a call and a read wait; with another rate both go on at once.
echo max >"$G/b/below/io.sluice.rate"
in_group b/below sh -c 'dd if=/dev/zero of=/tmp/mnt/memory bs=1M count=3 2>/dev/null; dd if=/tmp/mnt/x of=/dev/null bs=4k count=1 iflag=direct 2>/dev/null' &
first=$!
sleep 1
in_group b/below mkdir /tmp/mnt/made &
second=$!
sleep 1
grep -q "mkdir .*reason=tokens" /sys/kernel/debug/split/held || fail "no mkdir is held: $(cat /sys/kernel/debug/split/held $buckets)"
echo max >"$G/b/io.sluice.rate"
sleep 0.1
kill -0 $second 2>/dev/null && fail "mkdir is still held"
wait $first || fail "the first one fails"
wait $second || fail "mkdir fails"
[ -d /tmp/mnt/made ] || fail "nothing was made"
umount /tmp/mnt
scheduler none
rmmod split-token
