# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: mq-prio
# A rank that comes back now and then meets a device that is busy, and not full; what is below it loses little. Beside one
# that never stops, lower ranks get their share of what they do alone, also where the drive serves many requests at a time or
# keeps writes in a buffer.
. ./lib.sh

# measure TIME JOB…: for each job a line in /tmp/jobs: its name, IOPS, p50 and p99 of its reads in us.
measure() {
	time=$1
	shift
	fio --filename="$DEV" --direct=1 --ioengine=libaio --norandommap --thread --time_based --ramp_time=500ms \
		--runtime="$time" --output-format=terse --terse-version=3 --output=/tmp/fio.terse "$@" || fail "fio: $*"
	awk -F';' '{
		sub(/.*=/, "", $24)
		sub(/.*=/, "", $30)
		print $3, $8 + $49, $24, $30
	}' /tmp/fio.terse >/tmp/jobs
	cat /tmp/jobs
}

# field NAME NUMBER
field() {
	awk -v name="$1" -v number="$2" '$1 == name { print $number }' /tmp/jobs
}

# within NAME VALUE LEAST MOST
within() {
	awk -v value="$2" -v least="$3" -v most="$4" 'BEGIN { exit !(value >= least && value <= most) }' ||
		fail "$1: $2, not from $3 to $4"
}

reader='--name=reader --prioclass=1 --rw=randread --bs=4k --rate_iops=40'
backup='--name=backup --prioclass=3 --rw=read --bs=128k --iodepth=128'

# sparse: a read each 25 ms beside a deep backup.
sparse() {
	# shellcheck disable=SC2086  # words on purpose
	{
		measure 1 $reader
		p50=$(field reader 3) p99=$(field reader 4)
		measure 3 $backup
		iops=$(field backup 2)
		measure 8 $reader $backup
	}
	cat "/sys/kernel/debug/block/${DEV#/dev/}/sched/state"
	within "the reader's p50 on $DEV" "$(field reader 3)" 1 $((p50 * 3))
	within "the reader's p99 on $DEV" "$(field reader 4)" 1 $((p99 * 5))
	within "the backup's IOPS on $DEV, of $iops" "$(field backup 2)" $((iops * 8 / 10)) $((iops * 11 / 10))
}

# changed: the same where the backup read pages before, of which more may be inside than of what it reads now.
changed() {
	# shellcheck disable=SC2086  # words on purpose
	{
		measure 1 $reader
		p99=$(field reader 4)
		{
			fio --filename="$DEV" --direct=1 --ioengine=libaio --norandommap --time_based --runtime=3 --output=/tmp/pages \
				--name=pages --prioclass=3 --rw=randread --bs=4k --iodepth=64 || fail "fio: $(cat /tmp/pages)"
			fio --filename="$DEV" --direct=1 --ioengine=libaio --time_based --runtime=6 --output=/tmp/backup $backup \
				--iodepth=32 || fail "fio: $(cat /tmp/backup)"
		} &
		measure 4 --ramp_time=4s $reader
	}
	wait $!
	cat "/sys/kernel/debug/block/${DEV#/dev/}/sched/state"
	within "the reader's p99 on $DEV beside other requests" "$(field reader 4)" 1 $((p99 * 5))
}

# few: a backup with two requests beside the same reader. What they cost is not what each of sixty-four costs.
few() {
	# shellcheck disable=SC2086  # words on purpose
	measure 3 $reader --name=backup --prioclass=3 --rw=randread --bs=4k --iodepth=2
}

# share FIO_OPTION…: of a lower rank that does this, beside a reader that never stops.
share() {
	measure 1 --name=low --prioclass=3 "$@"
	iops=$(field low 2)
	measure 2 --ramp_time=2s --exitall --name=urgent --prioclass=1 --rw=randread --bs=4k --name=low --prioclass=3 "$@"
	cat "/sys/kernel/debug/block/${DEV#/dev/}/sched/state"
	within "lower ranks' share of $iops IOPS with $*" "$(field low 2)" $((iops * 8 / 100)) $((iops * 15 / 100))
}

# mixed: where as many requests read as write, chance makes them no other requests, which would be tried anew.
mixed() {
	echo 50 >"$Q/iosched/low_share"
	fio --filename="$DEV" --direct=1 --ioengine=libaio --norandommap --thread --time_based --runtime=5 \
		--output=/tmp/fio --name=urgent --prioclass=1 --rw=randread --bs=4k --iodepth=4 \
		--name=low --prioclass=3 --rw=randrw --bs=16k --iodepth=16 &
	sleep 2
	cost >/tmp/before
	wait $! || fail "fio: $(cat /tmp/fio)"
	cost >/tmp/after
	[ -s /tmp/before ] || fail "no trial"
	cmp -s /tmp/before /tmp/after || fail "what a MiB costs: $(cat /tmp/before), later $(cat /tmp/after)"
}

# cost: of a MiB of the idle rank, in ns, where it is known.
cost() {
	awk '$1 == 16 && $7 { print $7 }' "/sys/kernel/debug/block/${DEV#/dev/}/sched/state"
}

disk ssd data=none slowdown=4
echo 32 >"$Q/max_sectors_kb"
scheduler mq-prio
sparse

DISK=d1 disk nvme data=none
scheduler mq-prio
sparse
changed
few
share --rw=randread --bs=4k --iodepth=64
share --rw=randread --bs=512k --iodepth=16
# Its buffer takes these at the link's speed, which is 1.6 times the flash's.
share --rw=randwrite --bs=128k --iodepth=16

DISK=d2 disk emmc data=none
scheduler mq-prio
mixed
