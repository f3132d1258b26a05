# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: mq-prio
# Beside a higher rank that always has requests, lower ranks get low_share percent of the device's time, the most urgent of them
# most of that. None of their requests waits longer than the bound in docs/mq-prio.md.
. ./lib.sh

tracing=/sys/kernel/tracing

# A job's position in MiB tells its rank.
job() {
	echo "--name=rank$1 --prioclass=$2 --prio=$3 --offset=$1m --iodepth=$4"
}

# run SECONDS JOB…: RT 0, with four requests at a time, beside these jobs.
run() {
	runtime=$1
	shift
	echo >$tracing/trace
	# shellcheck disable=SC2046,SC2048,SC2086  # words on purpose
	fio --thread --filename="$DEV" --direct=1 --ioengine=libaio --rw=randread --bs=4k --size=1m --norandommap \
		--time_based --runtime="$runtime" --output=/out/fio $(job 0 1 0 4) $*
	cp $tracing/trace /out/trace
}

# check SHARE COST PERIOD NAME: lower ranks got SHARE percent, and of the share that a rank leaves to those below it they got
# SHARE percent again. One of their requests costs COST ms. So a request with N older ones before it was chosen within N + 1
# periods of PERIOD ms, or more periods in proportion if its rank gets less. It is issued two requests later at the latest. A
# trial, in which a rank has the device for itself, is left out: in a trial there are ten or more requests in a row.
check() {
	# In the trace the sector follows the device, the kind of request, its size and a pair of brackets.
	tr , ' ' <$tracing/trace | awk -v share="$1" -v cost="$2" -v period="$3" -v name="$4" \
		-v dev="$(tr : ' ' <"/sys/block/${DEV#/dev/}/dev")" '
		index($0, ": " dev " ") == 0 { next }
		{
			for (i = 1; $i != "()"; i++);
			sector = $(i + 1)
			r = int(sector / 2048)
			match($0, /[0-9]+\.[0-9]+:/)
			now = substr($0, RSTART, RLENGTH) * 1000
		}
		/block_rq_insert:/ && r {
			came[r, last[r]++ + 0] = now
			older[r, last[r] - 1] = waiting++
		}
		/block_rq_issue:/ {
			row = r == before ? row + 1 : 1
			before = r
			if (r && row == 10)
				tried[r] += 9
			if (r && row >= 10)
				tried[r]++
			issued[r]++
			# Requests after the last one of rank 0 are not shared.
			if (!r)
				for (i in issued)
					counted[i] = issued[i] - tried[i]
		}
		/block_rq_issue:/ && r {
			waiting--
			at = first[r]++ + 0
			waits[++n] = now - came[r, at]
			of[n] = r
			bounds[n] = (older[r, at] + 1) * period
		}
		END {
			for (r = 1; r < 17; r++) {
				rest += issued[r] > 0
				low += counted[r]
			}
			got = 100 * low / (low + counted[0])
			if (got < 0.9 * share || got > 1.15 * share)
				print name ": lower ranks got " got " % of the requests, not " share
			for (r = left = 1; r < 17; r++) {
				if (!issued[r])
					continue
				wanted = low * left * (--rest ? 1 - share / 100 : 1)
				slower[r] = left
				left *= share / 100
				if (counted[r] < 0.8 * wanted - 2 || counted[r] > 1.25 * wanted + 2)
					print name ": rank " r " got " counted[r] " requests of " low ", not " wanted
			}
			for (i = 1; i <= n; i++) {
				bound = bounds[i] / slower[of[i]] + 2 * cost
				if (waits[i] > bound)
					print name ": rank " of[i] " waited " waits[i] " ms, the bound is " bound
				edge = edge > waits[i] / bound ? edge : waits[i] / bound
			}
			printf "%s: %.1f %%, waited %.2f of the bound\n", name, got, edge >"/out/said"
			print "ok"
		}' >/tmp/verdict
	cat /tmp/verdict /out/said
	[ "$(cat /tmp/verdict)" = ok ] || fail "$4"
}

# One request at a time, each for 1 ms.
disk ssd queue_depth=1 slots=1 slowdown=10 read_latency_ns=68000 read_cmd_ns=0 read_lsb_ns=1 read_msb_ns=1 data=none
scheduler mq-prio
echo 64 >"$Q/nr_requests"
echo 2 >"$Q/nomerges"
for event in insert issue; do
	echo 1 >$tracing/events/block/block_rq_$event/enable
done

echo 1 >"$Q/iosched/low_share"
run 3 "$(job 16 3 0 4)"
check 1 1 100 "share 1"
echo 10 >"$Q/iosched/low_share"
run 1 "$(job 16 3 0 4)"
check 10 1 10 "share 10"
run 1 "$(job 15 2 7 1)"
check 10 1 10 "share 10, one at a time"
run 5 "$(job 8 2 0 2)" "$(job 15 2 7 2)" "$(job 16 3 0 2)"
check 10 1 10 "share 10 for three ranks"
echo 50 >"$Q/iosched/low_share"
run 1 "$(job 9 2 1 4)"
check 50 1 2 "share 50"
