# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: cpq
# Beside RT without pauses, BE and IDLE wait for prio_aging_expire and then are served, one request at a time and within the
# bound in cpq.c. With 0 they wait until RT ends.
. ./lib.sh

tracing=/sys/kernel/tracing

# run AGING SECONDS: RT with four requests at a time, a backlog of BE and, inserted after it, of IDLE.
run() {
	echo "$1" >"$Q/iosched/prio_aging_expire"
	echo >$tracing/trace
	fio --thread --filename="$DEV" --direct=1 --ioengine=libaio --rw=randread --bs=4k --size=64m --output=/out/fio \
		--name=rt --prioclass=1 --iodepth=4 --time_based --runtime="$2" \
		--name=be --prioclass=2 --offset=64m --iodepth=6 --number_ios=6 --startdelay=100ms \
		--name=idle --prioclass=3 --offset=128m --iodepth=6 --number_ios=6 --startdelay=300ms || fail "fio"
	cp $tracing/trace "/out/trace$1"
}

# check AGING: each BE and IDLE request waits for AGING ms at least, and no longer than the bound.
check() {
	awk -v aging="$1" '
		{
			for (at = 1; at <= NF && $at != "cpq_dispatch:" && $at != "block_rq_insert:"; at++);
			if (at > NF)
				next
			match($0, /[0-9]+\.[0-9]+:/)
			now = substr($0, RSTART, RLENGTH) * 1000
		}
		$at == "block_rq_insert:" {
			sector = $(at + 5)
			came[sector] = now
			if (sector >= 131072)
				older[sector] = backlog++
			else
				waiting++
			next
		}
		{
			sector = $(at + 3)
			aged = $0 ~ /why=aged/
		}
		sector < 131072 {
			waiting--
			last_aged = 0
			next
		}
		{
			backlog--
			n++
			waited = now - came[sector]
			if (!waiting)
				next
			exceptions++
			if (!aged || !aging)
				print "sector " sector " went before RT, not aged"
			if (aged && last_aged)
				print "sector " sector " is the second aged one in a row"
			last_aged = aged
			if (waited < aging - 10)
				print "sector " sector " aged in " waited " ms"
			# 50 ms in the device, and 50 ms until the next is chosen.
			bound = aging + (older[sector] + 1) * (50 + 50) + 10
			if (waited > bound)
				print "sector " sector " waited " waited " ms, the bound is " bound
		}
		END {
			if (n != 12 || (exceptions > 6) != (aging > 0))
				print n " dispatched, " exceptions + 0 " before RT"
			print "ok: " exceptions + 0 " exceptions"
		}' "/out/trace$1" >/tmp/verdict
	cat /tmp/verdict
	[ "$(wc -l </tmp/verdict)" = 1 ] || fail "prio_aging_expire $1"
}

disk ssd queue_depth=1 slots=1 slowdown=1000 read_cmd_ns=50000 read_lsb_ns=1 read_msb_ns=1 read_latency_ns=0 data=none
scheduler cpq
echo 64 >"$Q/nr_requests"
echo 2 >"$Q/nomerges"
echo 1 >"$Q/iosched/cpq_log"
for event in block/block_rq_insert sluice/cpq_dispatch; do
	echo 1 >$tracing/events/$event/enable
done
run 500 3
check 500
run 0 2
check 0
