# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: split-deadline afq
# debug
# io.sluice.deadline accepts deadlines and nothing else, and without CAP_SYS_NICE only longer ones; so do the knobs. Schedulers,
# deadlines and knobs change under load, also while fsyncs are held, and nothing is lost.
. ./lib.sh

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

# taken FILE VALUE TEXT: the value is accepted, and reads as TEXT.
taken() {
	error=$(written "$1" "$2")
	[ "$error" = 0 ] || fail "$1 '$2': error $error"
	[ "$(cat "$1")" = "$3" ] || fail "'$2' made $1 $(cat "$1"), not $3"
}

# in_group NAME COMMAND…
in_group() {
	sh -c 'echo $$ >"$0/cgroup.procs" && shift && exec "$@"' "$G/$1" "$@"
}

EPERM=1 EINVAL=22 ERANGE=34

disk ssd
scheduler split-deadline
weights
mkdir "$G/a" "$G/b"
[ ! -e "$G/io.sluice.deadline" ] || fail "the root has deadlines"
file=$G/a/io.sluice.deadline
[ "$(stat -c %a "$file")" = 644 ] || fail "mode $(stat -c %a "$file")"
[ "$(cat "$file")" = "read=default fsync=default" ] || fail "a new cgroup has $(cat "$file")"
taken "$file" fsync=100 "read=default fsync=100"
taken "$file" read=60000000 "read=60000000 fsync=100"
taken "$file" "fsync=5000  read=default" "read=default fsync=5000"
for value in fsync=99 fsync=60000001 read=0 "read=500 fsync=1"; do
	refused "$file" "$value" $ERANGE
done
for value in ' ' 5000 fsync fsync= fsync=5ms write=5000 "fsync=5000 5000" "read=600 fsync=five" fsync=-1; do
	refused "$file" "$value" $EINVAL
done

# Without CAP_SYS_NICE, a delegated cgroup can have more time than it would have without its own deadline, not less.
mkdir "$G/above"
echo +io >"$G/above/cgroup.subtree_control"
echo fsync=5000 >"$G/above/io.sluice.deadline"
mkdir "$G/above/own"
own=$G/above/own/io.sluice.deadline
chown 65534 "$own"
# as_nobody VALUE: the error of that write by the user nobody.
# shellcheck disable=SC2016
as_nobody() {
	setpriv --reuid 65534 --clear-groups --inh-caps=-all \
		perl -e 'open(F, ">", $ARGV[0]) or die; print defined(syswrite(F, $ARGV[1])) ? 0 : $! + 0' "$own" "$1"
}
[ "$(as_nobody fsync=4999)" = $EPERM ] || fail "a process without the right has less time than above: $(cat "$own")"
[ "$(cat "$own")" = "read=default fsync=default" ] || fail "what was refused changes it: $(cat "$own")"
[ "$(as_nobody fsync=5000)" = 0 ] || fail "a process without the right doesn't get what is above"
[ "$(as_nobody "read=1000 fsync=900000")" = 0 ] || fail "a process without the right doesn't get more time"

for knob in read_deadline:50 fsync_deadline:100; do
	default=${knob#*:} knob=$Q/iosched/${knob%:*}
	[ "$(cat "$knob")" = "$default" ] || fail "$knob is $(cat "$knob")"
	for value in 1 60000 "$default"; do
		echo "$value" >"$knob" || fail "$knob refuses $value"
	done
	refused "$knob" 0 $ERANGE
	refused "$knob" 60001 $ERANGE
	for value in -1 ten 5.5 5ms; do
		refused "$knob" $value $EINVAL
	done
done

knob=$Q/iosched/own_writeback
for value in 2 -1 on; do
	error=$ERANGE
	[ "$value" = 2 ] || error=$EINVAL
	refused "$knob" $value $error
done

# The kernel's own throttling of writes is off while this scheduler decides; 6.1 doesn't show that.
case $(uname -r) in
6.1.*) ;;
*) [ "$(cat "$Q/wbt_lat_usec")" = 0 ] || fail "writeback is throttled too: $(cat "$Q/wbt_lat_usec")" ;;
esac
scheduler none
[ "$(cat "$Q/wbt_lat_usec")" != 0 ] || fail "writeback isn't throttled afterwards"

# An fsync of much data is held beside a process with a short deadline, and the scheduler, or the deadline, changes.
file_system
for name in split-deadline none afq; do
	scheduler split-deadline
	echo fsync=1000 >"$file"
	echo fsync=60000000 >"$G/b/io.sluice.deadline"
	in_group a fio --name=small --directory=/tmp/mnt --size=1m --rw=randwrite --bs=4k --fsync=1 --time_based --runtime=30 \
		--trigger-file=/tmp/enough --output=/out/fio-a &
	small=$!
	sleep 0.2
	in_group b fio --name=big --directory=/tmp/mnt --size=64m --rw=randwrite --bs=4k --io_size=8m --end_fsync=1 \
		--fallocate=none --output=/out/fio-b &
	big=$!
	for _ in $(seq 500); do
		! grep -q " fsync .*reason=fsync" /sys/kernel/debug/split/held || break
		sleep 0.01
	done
	grep -q " fsync .*reason=fsync" /sys/kernel/debug/split/held ||
		fail "no fsync is held: $(cat /sys/kernel/debug/block/simdisk-d0/sched/forecast)"
	if [ $name = split-deadline ]; then
		echo fsync=default >"$file"
	else
		scheduler $name
	fi
	touch /tmp/enough
	wait $small || fail "fio: $(cat /out/fio-a)"
	wait $big || fail "fio: $(cat /out/fio-b)"
	rm -f /tmp/enough /tmp/mnt/*.0
done

# Four jobs verify their writes, while everything that can be changed changes.
in_group b fio --directory=/tmp/mnt --ioengine=psync --bs=4k --size=1m --loops=2 --verify=crc32c --fallocate=none --fsync=4 \
	--numjobs=4 --name=verify --rw=randwrite --output=/out/fio &
load=$!
changed=0
while kill -0 $load 2>/dev/null; do
	for name in split-deadline none split-deadline afq; do
		scheduler $name
		for value in 100 5000 60000000 default; do
			echo "fsync=$value read=$value" >"$G/b/io.sluice.deadline"
			if [ $name = split-deadline ]; then
				echo $((changed + 1)) >"$Q/iosched/fsync_deadline"
				echo $((changed % 2)) >"$Q/iosched/own_writeback"
			fi
			sleep 0.02
		done
	done
	changed=$((changed + 1))
done
wait $load || fail "fio: $(cat /out/fio)"
[ $changed -gt 2 ] || fail "changed $changed times only"
umount /tmp/mnt
scheduler none
rmmod split-deadline
