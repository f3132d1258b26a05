# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: sluice
# debug
# The tracepoints say which calls are held and for how long, and which requests go first for a more urgent process: an idle
# copy is held beside a log's commits of best effort 0, and what these commits write of it goes first. Writeback that no
# commit asked for doesn't.
. ./lib.sh

events=/sys/kernel/tracing/events/sluice
disk ssd
scheduler sluice
file_system
for event in hold let_go inherit; do
	echo 1 >$events/sluice_$event/enable
done
echo 1 >/sys/kernel/tracing/events/block/block_rq_issue/enable
fio --name=log --filename=/tmp/mnt/log --rw=write --bs=8k --size=8m --fdatasync=1 --prio=0 --time_based=1 --runtime=600 \
	--ioengine=psync --output=/dev/null &
ionice -c 3 dd if=/dev/zero of=/tmp/mnt/copy bs=64k count=3000 status=none &
copy=$!
sleep 4
kill -KILL $copy
wait $copy || true
pkill -KILL fio
wait
echo 0 >/sys/kernel/tracing/events/enable
log=$(sed -n 's/.* sluice_inherit: .* waiter=\([0-9]*\) waiter_rank=8$/\1/p' /sys/kernel/tracing/trace | sort -u)

# count EVENT PATTERN: the events whose fields match.
count() {
	grep -cE " sluice_$1: [0-9]+,[0-9]+ $2" /sys/kernel/tracing/trace || true
}

holds=$(count hold "pid=$copy rank=16 kind=write reason=(rank|dirty)\$")
gone=$(count let_go "pid=$copy rank=16 kind=write held_ms=[0-9]+\$")
first=$(count inherit "sector=[0-9]+ bytes=[0-9]+ pid=$copy rank=16 waiter=$log waiter_rank=8\$")
echo "$holds held, $gone gone, $first first for process $log"
[ "$holds" -ge 5 ] || fail "the copy was held $holds times"
# The last one was killed.
[ $((holds - gone)) -le 1 ] || fail "of $holds held calls $gone went"
[ "$first" -ge 5 ] || fail "of the copy's requests $first went first for the log"
# A commit's writes are SYNC; "... block_rq_issue: 259,3 WS 65536 () 1000 + 128 none,0,0 [dd]".
awk '/ sluice_inherit: / { split($(NF - 5), at, "="); first[at[2]] = 1 }
	/ block_rq_issue: / {
		for (i = 1; i <= NF; i++)
			if ($i == "+" && $(i - 1) in first) {
				if ($(i - 4) !~ /[SM]/) print
				delete first[$(i - 1)]
			}
	}' /sys/kernel/tracing/trace >/tmp/unasked
[ ! -s /tmp/unasked ] || fail "writeback that no commit asked for goes first: $(head -3 /tmp/unasked)"
# A process of the highest rank that works inherits nothing, and none is held.
[ "$(count hold 'pid=[0-9]+ rank=8 ')" = 0 ] || fail "the log is held"
[ "$(count inherit '.* rank=8 waiter')" = 0 ] || fail "the log's requests go first for another"
umount /tmp/mnt
expect_dmesg_clean
