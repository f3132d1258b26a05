# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-token split-noop afq
# debug
# io.sluice.rate accepts rates, as many as there are places, and nothing else; so does the knob. Schedulers, rates and the knob
# change under load. The queue is frozen while calls and reads wait for a debt of hours, and nothing is lost.
. ./lib.sh

buckets=/sys/kernel/debug/block/simdisk-d0/sched/buckets

# written FILE VALUE: the error of a write, 0 if the value is accepted.
written() {
	perl -e 'open(F, ">", $ARGV[0]) or die; print defined(syswrite(F, $ARGV[1])) ? 0 : $! + 0' "$1" "$2"
}

# refused FILE VALUE ERROR: the write fails with ERROR, and nothing changes.
refused() {
	old=$(cat "$1")
	error=$(written "$1" "$2")
	[ "$error" = "$3" ] || fail "$1 '$2': error $error, not $3"
	[ "$(cat "$1")" = "$old" ] || fail "'$2' made $1 $(cat "$1")"
}

in_group() {
	sh -c 'echo $$ >"$0/cgroup.procs" && shift && exec "$@"' "$G/$1" "$@"
}

milliseconds() {
	awk '{ print $1 * 1000 }' /proc/uptime
}

EINVAL=22 ENOSPC=28 ERANGE=34

disk ssd
scheduler split-token
weights
mkdir "$G/a"
[ ! -e "$G/io.sluice.rate" ] || fail "the root has a rate"
rate=$G/a/io.sluice.rate
[ "$(stat -c %a "$rate")" = 644 ] || fail "mode $(stat -c %a "$rate")"
for value in 1024 8589934592 1000000; do
	echo $value >"$rate" || fail "the rate $value is refused"
	[ "$(cat "$rate")" = $value ] || fail "$value made it $(cat "$rate")"
done
for value in 0 1023 8589934593 18446744073709551616; do
	refused "$rate" $value $ERANGE
done
for value in ' ' ten 5.5 '5000 5000' 5000k -1 0x1000 maximum; do
	refused "$rate" "$value" $EINVAL
done
echo max >"$rate"
[ "$(cat "$rate")" = max ] || fail "max made it $(cat "$rate")"

# Each place is taken, given back, and taken again; a cgroup that is removed gives back its place.
for n in $(seq 256); do
	mkdir "$G/n$n"
	echo 1000000 >"$G/n$n/io.sluice.rate" || fail "rate $n is refused"
done
refused "$rate" 1000000 $ENOSPC
echo 2000000 >"$G/n7/io.sluice.rate" || fail "a cgroup with a rate gets no other one"
echo max >"$G/n7/io.sluice.rate"
echo 1000000 >"$rate" || fail "a place that was given back isn't free"
refused "$G/n7/io.sluice.rate" 1000000 $ENOSPC
for n in $(seq 256); do
	rmdir "$G/n$n"
done
for _ in $(seq 100); do
	mkdir "$G/again"
	[ "$(written "$G/again/io.sluice.rate" 1000000)" = $ENOSPC ] || break
	rmdir "$G/again"
	sleep 0.1
done
[ "$(cat "$G/again/io.sluice.rate")" = 1000000 ] || fail "cgroups that are gone keep their places"
rmdir "$G/again"

# Without CAP_SYS_ADMIN, one delegated cgroup with all below it has 32 places at most. All such cgroups together have 128, and
# the administrator has the others.
# delegate NAME NUMBER: the user nobody sets NUMBER rates below a cgroup of its own; the next one is refused.
delegate() {
	mkdir "$G/$1"
	chown nobody "$G/$1" "$G/$1/cgroup.subtree_control"
	perl -e '$) = $> = 65534; my ($top, $number) = @ARGV;
		sub put { open(my $f, ">", $_[0]) or die "$_[0]: $!"; defined(syswrite($f, $_[1])) ? 0 : $! + 0 }
		put("$top/cgroup.subtree_control", "+io") and die; mkdir("$top/deep") or die;
		put("$top/deep/cgroup.subtree_control", "+io") and die;
		for (1 .. $number) { mkdir("$top/deep/$_") or die; put("$top/deep/$_/io.sluice.rate", 1000000) and die "$_: $!" }
		mkdir("$top/more") or die; put("$top/more/io.sluice.rate", 1000000) == 28 or die "one more: $!";
		$number == 0 or put("$top/deep/1/io.sluice.rate", 2000000) == 0 or die "another rate: $!"' "$G/$1" "$2" ||
		fail "$1: not $2 rates without CAP_SYS_ADMIN"
}
for n in 1 2 3 4; do
	delegate d$n 32
done
delegate d5 0
for n in $(seq 127); do
	mkdir "$G/n$n"
	echo 1000000 >"$G/n$n/io.sluice.rate" || fail "rate $n is refused beside delegates"
done
mkdir "$G/n128"
refused "$G/n128/io.sluice.rate" 1000000 $ENOSPC
for n in $(seq 128); do
	rmdir "$G/n$n"
done
find "$G"/d? -mindepth 1 -depth -type d -exec rmdir {} +
rmdir "$G"/d?

knob=$Q/iosched/burst_ms
[ "$(cat "$knob")" = 100 ] || fail "burst_ms is $(cat "$knob")"
for value in 0 10000 100; do
	echo $value >"$knob" || fail "burst_ms refuses $value"
done
refused "$knob" 10001 $ERANGE
refused "$knob" 4294967296 $ERANGE
for value in -1 ten 5.5 5ms; do
	refused "$knob" $value $EINVAL
done

# A debt of 35 minutes: a call and a read wait, and the queue is frozen, for a change of the tags and for other schedulers.
file_system
dd if=/dev/zero of=/tmp/mnt/x bs=1M count=8 conv=fsync 2>/dev/null
for name in split-token none afq split-noop; do
	scheduler split-token
	echo 2048 >"$rate"
	in_group a dd if=/dev/zero of=/tmp/mnt/y bs=1M count=1 2>/dev/null
	in_group a mkdir /tmp/mnt/$name &
	call=$!
	in_group a dd if=/tmp/mnt/x of=/dev/null bs=64k count=1 iflag=direct 2>/dev/null &
	read=$!
	for _ in $(seq 100); do
		awk '$6 == 1 && $7 == 1 { exit 1 }' $buckets || break
		sleep 0.01
	done
	awk '$6 == 1 && $7 == 1 { exit 1 }' $buckets && fail "no call waits: $(cat $buckets)"
	# The read is done because of that, and not because its limit of 5 seconds is over.
	start=$(milliseconds)
	echo $(($(cat "$Q/nr_requests") - 1)) >"$Q/nr_requests"
	took=$(($(milliseconds) - start))
	[ $took -lt 3000 ] || fail "to freeze the queue takes $took ms"
	wait $read || fail "the read fails"
	kill -0 $call || fail "the call doesn't wait"
	if [ $name = split-token ]; then
		echo max >"$rate"
	else
		scheduler $name
	fi
	wait $call || fail "the call fails"
	[ -d /tmp/mnt/$name ] || fail "no /tmp/mnt/$name"
	sync
done

# A cgroup whose rate was removed has no debt that would keep the gates closed.
scheduler split-token
echo 2048 >"$rate"
in_group a dd if=/dev/zero of=/tmp/mnt/y bs=1M count=1 2>/dev/null
grep -q "closed=write" /sys/kernel/debug/split/devices || fail "a debt closes no gate: $(cat /sys/kernel/debug/split/devices)"
echo max >"$rate"
sleep 0.1
grep -q "closed=\$" /sys/kernel/debug/split/devices || fail "gates stay closed: $(cat /sys/kernel/debug/split/devices $buckets)"

# Four jobs verify their writes, while everything that can be changed changes.
in_group a fio --directory=/tmp/mnt --ioengine=psync --bs=4k --size=1m --loops=2 --verify=crc32c --fallocate=none --fsync=4 \
	--numjobs=4 --name=verify --rw=randwrite --output=/out/fio &
load=$!
changed=0
while kill -0 $load 2>/dev/null; do
	for name in split-token none split-token afq; do
		scheduler $name
		for value in 3000000 50000000 8589934592 max; do
			echo $value >"$rate"
			[ $name != split-token ] || echo $changed >"$knob"
			sleep 0.02
		done
	done
	changed=$((changed + 1))
done
wait $load || fail "fio: $(cat /out/fio)"
[ $changed -gt 2 ] || fail "changed $changed times only"
umount /tmp/mnt
scheduler none
rmmod split-token
