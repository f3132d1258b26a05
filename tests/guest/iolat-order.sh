# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# full
# Inversions, starvation, bypasses, shares and a change of scheduler are reported; in a clean run none is.
. ./lib.sh

disk ssd data=none slowdown=4
job() {
	name=$1
	shift
	fio --name="$name" --filename="$DEV" --direct=1 --ioengine=libaio --bs=4k --size=256m --time_based=1 \
		--output=/dev/null "$@"
}

# A single reader: no inversion, no alarm.
scheduler mq-deadline
watch /tmp/json --json --alarm 0.1 -d "$DEV"
job alone --rw=randread --iodepth=8 --runtime=1s --prioclass=1
end_watch 0
grep -q '"inversions":\[\]' /tmp/json || fail "inversions in a clean run: $(cat /tmp/json)"
if grep -q ALARM /tmp/iolat.log; then
	fail "an alarm in a clean run: $(cat /tmp/iolat.log)"
fi
grep -q '"shares":\[{"ioclass":"rt","level":0,"bytes":[0-9]*,"share":1.000000}\]' /tmp/json || fail "$(cat /tmp/json)"

# Kyber looks at operations, not at classes: reads of the idle class go before older writes of the real-time class.
mix() {
	job writer --rw=randwrite --iodepth=64 --runtime=2s --prioclass=1 &
	job reader --rw=randread --iodepth=64 --runtime=2s --prioclass=3
	wait $!
}
scheduler kyber
watch /tmp/json --json --order -d "$DEV"
mix
end_watch
count=$(sed 's/.*"inversions":\[{"device":"simdisk-d0","scheduler":"kyber","count":\([0-9]*\),.*/\1/' /tmp/json)
[ "$count" -gt 100 ] || fail "$count inversions with kyber: $(cat /tmp/json)"
grep -qE '"issued":\{"ioclass":"idle","level":0,"op":"read","pid":[1-9][0-9]*\},"waiting":\{"ioclass":"rt","level":0,"op":"write","pid":[1-9]' \
	/tmp/json || fail "the pair is missing: $(cat /tmp/json)"
grep -qE '"bypasses":[1-9]' /tmp/json || fail "no bypasses: $(cat /tmp/json)"

# The same with mq-deadline, which goes by class: the idle class waits, and the alarm is raised.
scheduler mq-deadline
# Enough tags for both, since the wait for a tag does not go by class.
echo 256 >"$Q/nr_requests"
watch /tmp/json --json --alarm 1 -d "$DEV"
mix
end_watch 3
grep -q '"inversions":\[\]' /tmp/json || fail "inversions with mq-deadline: $(cat /tmp/json)"
grep -q 'ALARM: on simdisk-d0 with mq-deadline an I/O of class idle has waited for 1\.' /tmp/iolat.log ||
	fail "no alarm: $(cat /tmp/iolat.log)"
oldest=$(sed 's/.*"idle":\([0-9]*\)}.*/\1/' /tmp/json)
[ "$oldest" -gt 1000000000 ] || fail "the oldest of idle class has waited for $oldest ns"

# The scheduler is changed during the run: a mark, and a row for each scheduler.
watch /tmp/json --json -d "$DEV"
job before --rw=randread --iodepth=1 --runtime=100ms
scheduler none
job after --rw=randread --iodepth=1 --runtime=100ms
end_watch
grep -q '"switches":\[{"seconds":[0-9.]*,"from":"mq-deadline","to":"none"}\]' /tmp/json || fail "$(cat /tmp/json)"
for name in mq-deadline none; do
	grep -q "\"scheduler\":\"$name\",\"op\":\"read\"" /tmp/json || fail "no row for $name"
done

# Shares by process: one of three asks for half of what the others get.
watch /tmp/json --json --by process -d "$DEV"
job a --rw=randread --rate_iops=100 --runtime=1s &
a=$!
job b --rw=randread --rate_iops=100 --runtime=1s &
b=$!
job c --rw=randread --rate_iops=50 --runtime=1s
wait $a $b
end_watch
jain=$(sed 's/.*"jain":\([0-9.]*\).*/\1/' /tmp/json)
awk -v jain="$jain" 'BEGIN { exit !(jain > 0.915 && jain < 0.935) }' || fail "Jain index $jain of 2:2:1, expected 0.926"
