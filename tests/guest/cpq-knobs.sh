# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: cpq
# each
# debug
# Every knob has the paper's default, and accepts its range and nothing else. The list of background cgroups accepts valid
# entries. The scheduler's state can be read, and cpq_log switches its tracepoints.
. ./lib.sh

tracing=/sys/kernel/tracing
cgroups=/tmp/cgroups

# refused KNOB VALUE: writing VALUE must fail and leave the knob as it was.
refused() {
	old=$(cat "$Q/iosched/$1")
	if printf '%s' "$2" 2>/dev/null >"$Q/iosched/$1"; then
		fail "$1 takes '$2'"
	fi
	[ "$(cat "$Q/iosched/$1")" = "$old" ] || fail "$1 was $old, is $(cat "$Q/iosched/$1") after '$2'"
}

# taken KNOB VALUE
taken() {
	printf '%s\n' "$2" >"$Q/iosched/$1" || fail "$1 refuses $2"
	[ "$(cat "$Q/iosched/$1")" = "$2" ] || fail "$1 is $(cat "$Q/iosched/$1"), not $2"
}

# knob NAME DEFAULT LEAST MOST
knob() {
	known="$known $Q/iosched/$1"
	[ "$(cat "$Q/iosched/$1")" = "$2" ] || fail "$1 is $(cat "$Q/iosched/$1"), not $2"
	taken "$1" "$3"
	taken "$1" "$4"
	for value in -1 $(($3 - 1)) $(($4 + 1)) 4294967296 4294967297 99999999999999999999 ' ' '
' 0x ten 5.5 '5 5' 5ms '5,'; do
		refused "$1" "$value"
	done
	taken "$1" "$2"
}

disk ssd data=none
scheduler cpq
known=
knob adaptive_expire 0 0 1
knob async_depth 96 1 128
knob back_timeout 125 1 60000
known="$known $Q/iosched/background"
knob cpq_log 0 0 1
knob fifo_batch 16 1 1024
knob fore_timeout 2000 1 60000
knob front_merges 1 0 1
knob io_threshold 1000 0 1000000
knob max_tgroup_io_ratio 50 1 100
knob prio_aging_expire 10000 0 600000
knob read_expire 250 0 600000
knob slice_idle 1000 0 100000
knob write_expire 5000 0 600000
knob writes_beside_reads 2 0 1024
knob writes_starved 2 1 1024
[ "$(echo "$Q"/iosched/*)" = "${known# }" ] || fail "knobs: $(ls "$Q/iosched")"

# Only root writes.
for file in "$Q"/iosched/*; do
	[ "$(stat -c %a "$file")" = 644 ] || fail "$file has mode $(stat -c %a "$file")"
done

# The background: idle, and existing cgroups, one on each line.
[ "$(cat "$Q/iosched/background")" = idle ] || fail "background is $(cat "$Q/iosched/background")"
mkdir $cgroups
mount -t cgroup2 none $cgroups
mkdir "$cgroups/batch" "$cgroups/batch/job" "$cgroups/with space"
taken background /batch
taken background '/batch/job
idle
/with space'
for value in batch Idle 'idle ' /none /batch/none '/batch /batch' '/batch
/none' ''; do
	[ -z "$value" ] || refused background "$value"
done
many=$(for _ in $(seq 16); do echo /batch; done)
taken background "$many"
refused background "$many
/batch"
printf '\n\n/batch\n\n' >"$Q/iosched/background"
[ "$(cat "$Q/iosched/background")" = /batch ] || fail "empty lines count"
# A cgroup that is removed stays listed, and may be replaced.
taken background '/batch/job'
rmdir "$cgroups/batch/job"
[ "$(cat "$Q/iosched/background")" = /batch/job ] || fail "the list changed by itself"
refused background /batch/job
taken background ''
taken background idle

# After a change of the scheduler each knob has its default again.
echo 1 >"$Q/iosched/fifo_batch"
scheduler none
scheduler cpq
[ "$(cat "$Q/iosched/fifo_batch")" = 16 ] || fail "fifo_batch is kept"

# cpq_log: cpq's tracepoints fire only with 1; block_rq_insert always does.
state=/sys/kernel/debug/block/${DEV#/dev/}/sched/state
for event in sluice/cpq_dispatch block/block_rq_insert; do
	echo 1 >$tracing/events/$event/enable
done
for log in 0 1; do
	echo $log >"$Q/iosched/cpq_log"
	echo >$tracing/trace
	fio --thread --filename="$DEV" --direct=1 --ioengine=libaio --iodepth=8 --rw=randread --bs=4k --number_ios=16 \
		--size=1g --output=/out/fio --name=high --prioclass=1 --name=low --prioclass=3
	for event in block_rq_insert cpq_dispatch; do
		count=$(grep -c " $event: " $tracing/trace) || :
		wanted=32
		[ $event-$log != cpq_dispatch-0 ] || wanted=0
		[ "$count" = $wanted ] || fail "$event: $count of $wanted with cpq_log $log"
	done
done
awk '
	BEGIN { split("rt-fore rt-back be-fore idle-fore be-back idle-back", names) }
	NR == 1 && $0 != "queue reads writes issued served" { print "head: " $0 }
	NR > 1 && NR < 8 && ($1 != names[NR - 1] || NF != 5 || $2 || $3 || $4) { print "idle queue: " $0 }
	($1 == "rt-fore" || $1 == "idle-back") && $5 != 32 { print "served: " $0 }
	NR == 8 && ($1 != "turn" || NF != 12) { print "turn: " $0 }
	END { if (NR != 8) print NR " lines" }
' "$state" >/tmp/verdict
[ ! -s /tmp/verdict ] || fail "$(cat /tmp/verdict "$state")"
