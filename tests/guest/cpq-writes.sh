# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2086  # words on purpose
# modules: cpq
# cpus: 2
# While a process of the same urgency reads, one or two writes are inside the device, so that the next read finds it free. The
# writes go on, by their deadlines and in their turns. They have the device again when the reader pauses, and none is lost.
. ./lib.sh

tracing=/sys/kernel/tracing

# run FIO_OPTION…: sets reads and writes, each per second, and p99 of reads in µs.
run() {
	echo >$tracing/trace
	fio --thread --filename="$DEV" --direct=1 --ioengine=libaio --bs=4k --size=256m --time_based --runtime=400ms \
		--output-format=terse --terse-version=3 --output=/out/fio "$@" || fail "fio: $(cat /out/fio)"
	cp $tracing/trace /out/trace
	# shellcheck disable=SC2046  # words on purpose
	set -- $(awk -F ';' '
		{
			reads += $8
			writes += $49
			if ($8) {
				p99 = $30
				sub(/.*=/, "", p99)
			}
		}
		END { print int(reads), int(writes), p99 + 0 }' /out/fio)
	reads=$1 writes=$2 p99=$3
}

# inside: sets beside and apart, the most writes inside the device. For beside the last read came in the last 4 ms, for apart at
# least 20 ms ago.
inside() {
	beside=0 apart=0
	eval "$(awk '
		{
			event = ""
			for (at = 1; at <= NF; at++)
				if ($at ~ /^block_rq_(insert|issue|complete):$/) {
					event = $at
					break
				}
			match($0, /[0-9]+\.[0-9]+:/)
			now = substr($0, RSTART, RLENGTH) * 1000
		}
		event == "" { next }
		event == "block_rq_insert:" && $(at + 2) ~ /^R/ { seen = now }
		$(at + 2) !~ /^W/ { next }
		event == "block_rq_complete:" && n { n-- }
		event == "block_rq_issue:" {
			n++
			# Writes that were inside before the first read of a while are inside still.
			if (seen && now - seen < 4 && now - apart_at > 20 && n > beside)
				beside = n
			if (!seen || now - seen > 4)
				apart_at = now
			if (seen && now - seen > 20 && n > apart)
				apart = n
		}
		END { print "beside=" beside + 0, "apart=" apart + 0 }' /out/trace)"
}

# expect WHAT NUMBER LEAST MOST
expect() {
	echo "$1: $2"
	if [ "$2" -lt "$3" ] || [ "$2" -gt "$4" ]; then
		fail "$1: $2, not $3 to $4"
	fi
}

writer="--name=writer --rw=randwrite --iodepth=32"
reader="--name=reader --rw=randread --offset=256m"
disk emmc data=none
echo 8192 >$tracing/buffer_size_kb

for name in mq-deadline cpq; do
	scheduler $name
	run $writer
	[ $name = cpq ] || alone=$writes
	expect "$name, writer alone" "$writes" $((alone * 99 / 100)) 99999
	[ $name = mq-deadline ] || for event in insert issue complete; do
		echo 1 >$tracing/events/block/block_rq_$event/enable
	done
	run $writer $reader
	[ $name = cpq ] || deadline_p99=$p99
done
expect "reader's p99 beside the writer, us" "$p99" 1 $((deadline_p99 / 4))
expect "writer beside the reader" "$writes" $((alone / 2)) 99999
inside
expect "writes inside beside reads" "$beside" 1 2

# A reader that pauses: 20 reads, then nothing for 50 ms.
run $writer $reader --thinktime=50ms --thinktime_blocks=20
inside
expect "writes inside while the reader pauses" "$apart" 32 32
expect "writer beside a reader that pauses" "$writes" $((alone * 9 / 10)) 99999

# A less urgent reader doesn't hold a writer up, and real-time writes never wait.
run $writer $reader --prioclass=3 --iodepth=32
expect "writer beside an idle reader" "$writes" $((alone * 8 / 10)) 99999
inside
expect "writes inside beside an idle reader" "$beside" 16 32
run $writer --prioclass=1 $reader --prioclass=2
expect "real-time writer beside a reader" "$writes" $((alone * 9 / 10)) 99999

# At the start of a batch the oldest write goes first if its deadline has passed, also if it had to wait for another write. A
# write that goes in its place goes by sector.
for event in insert issue complete; do
	echo 0 >$tracing/events/block/block_rq_$event/enable
done
echo 1 >$tracing/events/sluice/cpq_dispatch/enable
echo 1 >"$Q/iosched/cpq_log"
echo 0 >"$Q/iosched/write_expire"
echo 600000 >"$Q/iosched/read_expire"
run $writer $reader
batches=0 late=0 wrong=0
eval "$(awk '
	/cpq_dispatch: .* W / { n++ }
	/cpq_dispatch: .* W .*why=deadline/ { late++ }
	/cpq_dispatch: .* R .*why=deadline/ { wrong++ }
	END { print "batches=" int(n / 16), "late=" late + 0, "wrong=" wrong + 0 }' /out/trace)"
expect "reads by a deadline that they don't have" "$wrong" 0 0
expect "batches of writes by deadline, of $batches" "$late" $((batches * 9 / 10)) $((batches * 11 / 10 + 1))
echo 0 >"$Q/iosched/cpq_log"

# The background keeps its turn while its writes wait: in 50 ms it has more writes than the one or two that are inside at once.
rmdir /sys/kernel/config/simdisk/d0
disk emmc data=none queue_depth=4
scheduler cpq
echo 64 >"$Q/nr_requests"
for knob in fore_timeout back_timeout; do
	echo 50 >"$Q/iosched/$knob"
done
run $writer --prioclass=3 $reader --iodepth=32
expect "background's writes beside deep reads" "$writes" 2000 99999

# Where the foreground's writes wait so that its reads find the device free, the background doesn't fill the device.
rmdir /sys/kernel/config/simdisk/d0
disk emmc data=none
scheduler cpq
run $writer --name=background --prioclass=3 --rw=randread --offset=512m --iodepth=8 $reader
expect "reader's p99 beside the writer and the background, us" "$p99" 1 $((deadline_p99 / 4))
expect "writer beside the reader and the background" "$writes" $((alone / 2)) 99999

# Four hardware queues, two CPUs, all classes: all requests are done in time, and the books balance.
rmdir /sys/kernel/config/simdisk/d0
disk nvme data=none queues=4 queue_depth=2 slots=4
scheduler cpq
echo 2 >"$Q/iosched/writes_beside_reads"
run --runtime=1 --cpus_allowed=0 $writer --name=be0 $reader --name=idle0 --prioclass=3 --rw=randrw --iodepth=8 \
	--name=be1 --cpus_allowed=1 --prioclass=2 --rw=randrw --iodepth=16 --name=rt1 --prioclass=1 --rw=randrw --iodepth=2 \
	--thinktime=1ms
echo "storm: $reads reads, $writes writes"

# A device that takes many requests at once needs many writes at once: no limit.
rmdir /sys/kernel/config/simdisk/d0
disk nvme data=none
scheduler cpq
run $writer
alone=$writes
run $writer $reader --iodepth=1
expect "writer beside a reader on a deep device" "$writes" $((alone * 9 / 10)) 99999
scheduler none
expect_dmesg_clean
