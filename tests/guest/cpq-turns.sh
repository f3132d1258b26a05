# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: cpq
# While both groups wait, they take turns by the device's time. The idle slice holds the background only where that pays, and
# ends in time.
. ./lib.sh

tracing=/sys/kernel/tracing

# run SECONDS BACKGROUND_SECONDS FIO_OPTION…: the foreground, with these options, beside the IDLE class with eight requests at a
# time. Sets idle, how often the background was held before the last request of the foreground.
run() {
	front=$1 back=$2
	shift 2
	echo >$tracing/trace
	fio --thread --filename="$DEV" --direct=1 --ioengine=libaio --rw=randread --bs=4k --size=64m --time_based \
		--output=/out/fio --name=back --prioclass=3 --iodepth=8 --runtime="$back" \
		--name=front --prioclass=2 --offset=64m --runtime="$front" --startdelay=100ms "$@" || fail "fio"
	cp $tracing/trace /out/trace
	idle=$(awk '/cpq_idle:/ { n++ } /group=0/ { idle = n } END { print idle + 0 }' /out/trace)
}

# count: sets fore and back, the requests of each group from the first of the foreground to its last, and longest, the longest
# time without a dispatch in ms.
count() {
	fore=0 back=0 longest=0
	eval "$(awk '
		/cpq_dispatch:/ {
			match($0, /[0-9]+\.[0-9]+:/)
			now = substr($0, RSTART, RLENGTH) * 1000
			if (before && now - before > longest)
				longest = now - before
			before = now
			if (/group=0/) {
				fore++
				back += since
				since = 0
			} else if (fore) {
				since++
			}
		}
		END { printf "fore=%d back=%d longest=%d\n", fore, back, longest }' /out/trace)"
	# One request is chosen before the device has finished the one before it: 20 ms, and the slice.
	echo "$1: foreground $fore, background $back, held $idle times, longest pause $longest ms"
}

# turns: each turn lasts for its budget of requests of mean duration. The first two turns aren't counted, since the mean is
# learned in them, nor are the last two, in which the foreground ends.
turns() {
	awk -v fore="$(cat "$Q/iosched/fore_timeout")" -v back="$(cat "$Q/iosched/back_timeout")" '
		/cpq_dispatch:/ {
			match($0, /[0-9]+\.[0-9]+:/)
			now = substr($0, RSTART, RLENGTH) * 1000
			start = n++ ? start : now
			group = /group=1/
			if (group != last) {
				long[++runs] = 1
				whose[runs] = group
			} else {
				long[runs]++
			}
			last = group
		}
		END {
			cost = (now - start) / (n - 1)
			for (i = 3; i < runs - 1; i++) {
				want = (whose[i] ? back : fore) / cost
				if (long[i] < want - 1 || long[i] > want + 1)
					print "turn " i " of group " whose[i] " had " long[i] " requests, not " want
			}
			print (runs > 8 ? "ok" : "bad") ": " runs " turns of requests of " cost " ms"
		}' /out/trace >/tmp/verdict
	cat /tmp/verdict
	[ "$(wc -l </tmp/verdict)" = 1 ] || fail "the turns don't last for their budget"
	grep -q ^ok /tmp/verdict || fail "too few turns"
}

# One request at a time, each for some 11 ms.
disk ssd queue_depth=1 slots=1 slowdown=100 read_cmd_ns=100000 read_lsb_ns=1 read_msb_ns=1 read_latency_ns=0 data=none
scheduler cpq
echo 64 >"$Q/nr_requests"
echo 2 >"$Q/nomerges"
echo 1 >"$Q/iosched/cpq_log"
for event in cpq_dispatch cpq_idle; do
	echo 1 >$tracing/events/sluice/$event/enable
done

echo 200 >"$Q/iosched/fore_timeout"
echo 50 >"$Q/iosched/back_timeout"
run 2 3 --iodepth=8
turns
[ "$idle" = 0 ] || fail "held though the foreground waits"
echo 60 >"$Q/iosched/fore_timeout"
echo 120 >"$Q/iosched/back_timeout"
run 2 3 --iodepth=8
turns

# A reader that comes back at once keeps its turn for itself; the slice ends when it doesn't come back.
echo 1000 >"$Q/iosched/fore_timeout"
echo 100 >"$Q/iosched/back_timeout"
run 2 3 --iodepth=1
count "reader"
[ "$fore" -gt $((back * 6)) ] || fail "the background goes in the foreground's turn"
[ "$back" -ge 10 ] || fail "the background had no turn"
[ "$idle" -gt 10 ] || fail "never held"
[ "$longest" -le 25 ] || fail "a pause of $longest ms"

# The slice doesn't pay: the issuer comes back late, doesn't wait, or the device is fast.
run 2 3 --iodepth=1 --thinktime=5ms
count "late reader"
[ "$back" -gt $((fore / 2)) ] || fail "held for an issuer that comes back late"
[ "$longest" -le 25 ] || fail "a pause of $longest ms"
echo 20000 >"$Q/iosched/io_threshold"
run 1 2 --iodepth=1
count "fast device"
[ "$idle" = 0 ] || fail "held below io_threshold"
echo 1000 >"$Q/iosched/io_threshold"
echo 0 >"$Q/iosched/slice_idle"
run 1 2 --iodepth=1
count "no slice"
[ "$idle" = 0 ] || fail "held with slice_idle 0"
[ "$back" -ge $((fore / 2)) ] || fail "the background did not go"
