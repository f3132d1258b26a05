# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: mq-prio
# each
# debug
# Every knob accepts its range and nothing else; the scheduler's state can be read.
. ./lib.sh

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
	echo "$2" >"$Q/iosched/$1" || fail "$1 refuses $2"
	[ "$(cat "$Q/iosched/$1")" = "$2" ] || fail "$1 is $(cat "$Q/iosched/$1"), not $2"
}

# knob NAME LEAST MOST
knob() {
	taken "$1" "$2"
	taken "$1" "$3"
	for value in -1 $(($2 - 1)) $(($3 + 1)) 4294967296 4294967297 99999999999999999999 ' ' '
' 0x ten 5.5 '5 5' 5ms '5,'; do
		refused "$1" "$value"
	done
}

disk ssd data=none
scheduler mq-prio
[ "$(echo "$Q"/iosched/*)" = "$Q/iosched/hold_ms $Q/iosched/low_share" ] || fail "knobs: $(ls "$Q/iosched")"
[ "$(cat "$Q/iosched/low_share")" = 10 ] || fail "low_share is $(cat "$Q/iosched/low_share") on flash"
[ "$(cat "$Q/iosched/hold_ms")" = 10 ] || fail "hold_ms is $(cat "$Q/iosched/hold_ms")"
knob low_share 1 50
knob hold_ms 0 1000

# Only root writes.
for file in "$Q"/iosched/*; do
	[ "$(stat -c %a "$file")" = 644 ] || fail "$file has mode $(stat -c %a "$file")"
done

DISK=d1 disk hdd data=none
scheduler mq-prio
[ "$(cat "$Q/iosched/low_share")" = 5 ] || fail "low_share is $(cat "$Q/iosched/low_share") on a disk"

# A high rank beside a low one: turns open and end, the remaining requests are held, and the state counts them.
tracing=/sys/kernel/tracing
state=/sys/kernel/debug/block/${DEV#/dev/}/sched/state
for event in sluice/rank_turn sluice/rank_turn_end sluice/rank_hold block/block_rq_insert; do
	echo 1 >$tracing/events/$event/enable
done
fio --thread --filename="$DEV" --direct=1 --ioengine=libaio --iodepth=8 --rw=randread --bs=256k --number_ios=16 \
	--size=1g --output=/out/fio --name=high --prioclass=1 --name=low --prioclass=3
for event in rank_turn rank_turn_end rank_hold block_rq_insert; do
	grep -q " $event: " $tracing/trace || fail "$event never fires"
done
[ "$(grep -c block_rq_insert: $tracing/trace)" = 32 ] ||
	fail "block_rq_insert: $(grep -c block_rq_insert: $tracing/trace) of 32"
awk '
	NR == 1 && $0 != "rank queued issued oldest_ns max_wait_ns limit mib_ns" { print "head: " $0 }
	NR > 1 && NR < 19 && ($1 != NR - 2 || NF != 7 || $2 || $3 || $4) { print "idle rank: " $0 }
	$1 == 16 && !$5 { print "rank 16 never waited: " $0 }
	NR == 19 && ($1 != "turns" || !$2 || NF % 2) { print "turns: " $0 }
	END { if (NR != 19) print NR " lines" }
' "$state" >/tmp/verdict
[ ! -s /tmp/verdict ] || fail "$(cat /tmp/verdict "$state")"
