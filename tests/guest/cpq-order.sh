# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: cpq
# Requests that wait behind a busy device are served by class and group. Within a queue they are served by sector from the
# position of the sweep, by deadline at the start of a batch, and by direction as writes_starved says.
. ./lib.sh

tracing=/sys/kernel/tracing

# run FIO_OPTION…: the device has one request at a time, each for 50 ms.
run() {
	echo >$tracing/trace
	fio --thread --filename="$DEV" --direct=1 --ioengine=libaio --bs=4k --size=64m --output=/out/fio "$@" ||
		fail "fio: $*"
	cp $tracing/trace /out/trace
}

# judge AWK_PROGRAM [NAME=VALUE…]: over cpq_dispatch and block_rq_insert; the program prints errors. It sees event, now (ms) and
# sector; for a dispatch also class, group and why.
judge() {
	program=$1
	shift
	awk "$@" '
		function value(name,  i) {
			for (i = at; i <= NF; i++)
				if (index($i, name "=") == 1)
					return substr($i, length(name) + 2)
		}
		{
			event = ""
			for (at = 1; at <= NF; at++)
				if ($at == "cpq_dispatch:" || $at == "block_rq_insert:") {
					event = $at
					break
				}
			if (event == "")
				next
			match($0, /[0-9]+\.[0-9]+:/)
			now = substr($0, RSTART, RLENGTH) * 1000
			dir = substr($(at + 2), 1, 1)
			sector = event == "cpq_dispatch:" ? $(at + 3) + 0 : $(at + 5) + 0
			class = value("class")
			group = value("group")
			why = value("why")
		}
		'"$program" /out/trace >/tmp/verdict
	cat /tmp/verdict
	tail -n 1 /tmp/verdict | grep -q '^ok' || fail "wrong order"
	[ "$(wc -l </tmp/verdict)" = 1 ] || fail "wrong order"
}

disk ssd queue_depth=1 slots=1 slowdown=1000 read_cmd_ns=50000 write_cmd_ns=50000 read_lsb_ns=1 read_msb_ns=1 \
	read_latency_ns=0 data=none
scheduler cpq
echo 64 >"$Q/nr_requests"
echo 2 >"$Q/nomerges"
echo 1 >"$Q/iosched/cpq_log"
for event in block/block_rq_insert sluice/cpq_dispatch; do
	echo 1 >$tracing/events/$event/enable
done
echo 60000 >"$Q/iosched/fore_timeout"
for knob in read_expire write_expire; do
	echo 600000 >"$Q/iosched/$knob"
done

# The jobs start from the least urgent on, while RT keeps the device busy.
job() {
	echo "--name=job$3 --prioclass=$1 --offset=$((64 * $3))m --startdelay=$2ms --iodepth=6 --rw=randread --number_ios=6"
}
# shellcheck disable=SC2046  # words on purpose
run $(job 1 0 0) $(job 3 20 1) $(job 2 40 2) $(job 1 60 3)
judge '
	event == "cpq_dispatch:" {
		n++
		rank = class + group * 3
		order = order " " rank
		# All have come when the third is chosen; one is chosen before the device is free for it.
		if (n > 3 && rank < last)
			print "class " class " of group " group " goes late"
		last = rank
	}
	END { print (n == 24 ? "ok" : n " dispatched") order }'

# A model of the sweep and of the deadlines: which of the waiting requests is chosen?
model='
	event == "block_rq_insert:" { came[sector] = now }
	event == "cpq_dispatch:" {
		oldest = next_up = lowest = ""
		for (s in came) {
			s += 0
			if (oldest == "" || came[s] < came[oldest] - 0.0001)
				oldest = s
			if (lowest == "" || s < lowest)
				lowest = s
			if (s >= pos && (next_up == "" || s < next_up))
				next_up = s
		}
		expected = next_up == "" ? lowest : next_up
		waited = now - came[sector]
		n++
		if (why == "deadline") {
			late++
			if (waited < expire - 10)
				print "sector " sector " went by its deadline after " waited " ms"
			if (came[sector] > came[oldest] + 0.01)
				print "sector " sector " went by its deadline, " oldest " is older"
		} else {
			# Where the sweep was before the run is not known here.
			if (pos != "" && sector != expected)
				print "sector " sector " went, " expected " is next from " pos
			if (batch == 1 && now - came[oldest] > expire + 10)
				print "sector " oldest " is past its deadline: " now - came[oldest] " ms"
		}
		delete came[sector]
		pos = sector + 8
	}
	END { print (n == ios && (late > 0) == lates ? "ok" : "bad") ": " n " dispatched, " late + 0 " by deadline" }'

run --name=sweep --rw=randread --iodepth=12 --number_ios=96
judge "$model" -v expire=600000 -v batch=16 -v ios=96 -v lates=0
echo 1 >"$Q/iosched/fifo_batch"
echo 400 >"$Q/iosched/read_expire"
run --name=deadline --rw=randread --iodepth=12 --number_ios=96 --randseed=7
judge "$model" -v expire=400 -v batch=1 -v ios=96 -v lates=1
echo 0 >"$Q/iosched/read_expire"
run --name=fifo --rw=randread --iodepth=12 --number_ios=24 --randseed=9
judge "$model" -v expire=0 -v batch=1 -v ios=24 -v lates=1

# Batches of four; two of reads, then one of writes, while both wait. Real-time writes don't wait for one another.
echo 600000 >"$Q/iosched/read_expire"
echo 4 >"$Q/iosched/fifo_batch"
echo 2 >"$Q/iosched/writes_starved"
run --iodepth=16 --number_ios=48 --prioclass=1 --name=reads --rw=randread --name=writes --rw=randwrite --offset=64m
judge '
	event == "cpq_dispatch:" {
		n++
		left[dir]++
		if (dir != last && last != "") {
			# The first run began before both had come; at the end only one direction is left.
			if (runs && left["R"] < 40 && length_of != (last == "R" ? 8 : 4))
				print "a run of " length_of " " last ", not " (last == "R" ? 8 : 4)
			runs++
			length_of = 0
		}
		length_of++
		last = dir
	}
	END { print (n == 96 && runs > 6 ? "ok" : "bad") ": " n " dispatched in " runs " runs" }'
