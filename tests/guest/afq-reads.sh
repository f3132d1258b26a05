# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# schedulers: afq
# Reads and direct writes are served by pass: each level has its share, whatever runs beside it. RT goes first, IDLE when no
# other class has work, and each class proceeds within starvation_ms. A process that is alone loses nothing.
. ./lib.sh

# run SECONDS FIO_OPTION…: jobs on the raw disk, reported in /tmp/parts as "NAME BYTES".
run() {
	seconds=$1
	shift
	fio --filename="$DEV" --direct=1 --ioengine=psync --time_based=1 --runtime="$seconds" --output-format=terse \
		--output=/tmp/fio.terse "$@" || fail "fio: $*"
	awk -F';' '{ print $3, ($6 + $47) * 1024 }' /tmp/fio.terse >/tmp/parts
	cat /tmp/parts
}

# part NAME: the bytes of a job.
part() {
	awk -v name="$1" '$1 == name { print $2 }' /tmp/parts
}

# levels MOST: for eight jobs p0 to p7 the mean deviation from 8:7:…:1 is at most MOST per cent.
levels() {
	awk -v most="$1" '
		{ bytes[substr($1, 2)] = $2; all += $2 }
		END {
			for (i = 0; i < 8; i++) {
				ideal = all * (8 - i) / 36
				off = (bytes[i] - ideal) / ideal * 100
				mean += (off < 0 ? -off : off) / 8
			}
			print "deviation " mean " %, " all / 1000000 " MB"
			exit mean > most
		}' /tmp/parts || fail "levels deviate"
}

# eight FIO_OPTION…: the sections of eight jobs, one for each level, each on 1 GiB of its own.
eight() {
	for level in 0 1 2 3 4 5 6 7; do
		echo "--name=p$level --prio=$level --offset=$((level))g --size=1g $*"
	done
}

disk ssd data=none
scheduler "$SCHEDULER"
# shellcheck disable=SC2046  # words on purpose
run 2 $(eight --rw=read --bs=128k)
levels 5
# In the first second the scheduler learns what writes cost this drive.
# shellcheck disable=SC2046
run 1 $(eight --rw=randwrite --bs=16k)
# shellcheck disable=SC2046
run 2 $(eight --rw=randwrite --bs=16k)
levels 5

# Requests beyond the window wait in the scheduler, where there still is a choice.
run 1 --ioengine=libaio --iodepth=64 --bs=128k --rw=randread --name=one --name=other &
load=$!
most=0
sleep 0.5
for _ in $(seq 20); do
	read -r inside _ <"${Q%/queue}/inflight"
	[ "$inside" -le "$most" ] || most=$inside
	sleep 0.01
done
wait $load
[ "$most" -ge 4 ] || fail "only $most reads are inside the device"
[ "$most" -le 12 ] || fail "$most reads are inside the device"

run 2 --bs=64k --rw=read --name=rt --prioclass=1 --name=be --offset=1g
[ "$(part be)" -gt 0 ] || fail "BE starves beside RT"
[ "$(part rt)" -gt $(($(part be) * 20)) ] || fail "BE has too much beside RT"
run 3 --bs=64k --rw=read --name=be --name=idle --prioclass=3 --offset=1g
[ "$(part idle)" -ge $((2 * 65536)) ] || fail "IDLE starves"
[ "$(part idle)" -le $((6 * 65536)) ] || fail "IDLE isn't idle"

# Alone, in any class, with one or several processes of an account: the throughput is that of none.
for class in 1 2 3; do
	run 1 --bs=4k --rw=randread --thread --numjobs=8 --group_reporting --name=ours --prioclass=$class
	ours=$(part ours)
	scheduler none
	run 1 --bs=4k --rw=randread --thread --numjobs=8 --group_reporting --name=ours --prioclass=$class
	[ "$ours" -ge $(($(part ours) * 90 / 100)) ] || fail "class $class alone reads $ours of $(part ours)"
	scheduler "$SCHEDULER"
done

# On a disk: turns.
scheduler none
DISK=d1 disk hdd data=none
scheduler "$SCHEDULER"
# shellcheck disable=SC2046
run 15 $(eight --rw=read --bs=256k)
levels 10
all=$(awk '{ all += $2 } END { printf "%d", all / 15000000 }' /tmp/parts)
[ "$all" -ge 100 ] || fail "$all MB/s in all"
