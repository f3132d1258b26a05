# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: cpq
# While two thread groups want tags, each has its part of the tags and of the I/Os; a single one has all. max_tgroup_io_ratio
# sets the size of a part, 100 means no limit, and a change has effect at once. Real time is exempt.
. ./lib.sh

accounts=/sys/kernel/debug/block/simdisk-d0/sched/accounts

# readers NAME THREADS [OPTION…]: a process whose threads each read with a depth of 1; its number in $reader.
readers() {
	name=$1 threads=$2
	shift 2
	fio --thread --name="$name" --filename="$DEV" --direct=1 --ioengine=psync --numjobs="$threads" --rw=randread --bs=4k \
		--size=64m --time_based --runtime=60 --group_reporting --minimal \
		--output="/out/$name" "$@" &
	reader=$!
}

# has PROCESS: the number of its tags, in $used, and of its tasks that wait for a tag, in $waiting.
has() {
	used=0 waiting=0
	while read -r what number _ tags wait; do
		if [ "$what $number" = "process $1" ]; then
			used=${tags#used=} waiting=${wait#waiting=}
		fi
	done <$accounts
}

# settle PROCESS TASKS: wait until TASKS of its tasks have or want a tag.
settle() {
	for _ in $(seq 1000); do
		has "$1"
		[ $((used + waiting)) -lt "$2" ] || return 0
		sleep 0.01
	done
	fail "process $1 has no $2 tasks: $(cat $accounts)"
}

# expect WHAT PROCESS LEAST MOST: check the most tags that it has in some looks. Two more than its part of 64, 25.6 or 32 may
# have been admitted before one of them had its tag.
expect() {
	most=0
	for _ in $(seq 100); do
		has "$2"
		[ "$used" -le "$most" ] || most=$used
	done
	echo "$1: $most tags"
	if [ "$most" -lt "$3" ] || [ "$most" -gt "$4" ]; then
		fail "$1: $most tags, not $3 to $4: $(cat $accounts)"
	fi
}

# done_by PROCESS: I/Os that it has done.
done_by() {
	awk '$1 == "syscr:" { print $2 }' "/proc/$1/io"
}

# share SECONDS: the part of $few in all I/Os of the following seconds, in per cent.
share() {
	before_many=$(done_by $many) before_few=$(done_by $few)
	sleep "$1"
	read_many=$(($(done_by $many) - before_many)) read_few=$(($(done_by $few) - before_few))
	echo "many read $read_many, few $read_few"
	percent=$((read_few * 100 / (read_many + read_few)))
}

disk emmc data=none
scheduler cpq
echo 128 >"$Q/nr_requests"

readers many 300
many=$reader
settle "$many" 280
expect "many alone" "$many" 125 128
readers few 50
few=$reader
settle "$few" 45
sleep 0.1
expect "many beside few" "$many" 60 66
expect "few beside many" "$few" 45 50
share 1
[ "$percent" -ge 40 ] || fail "few have $percent % of the I/Os"

# Under load: 100 removes the limit at once. An account above a new limit gets no tag until it is below it.
echo 100 >"$Q/iosched/max_tgroup_io_ratio"
sleep 0.1
[ "$(cat $accounts)" = "tags=128 used=0 waiting=0" ] || fail "switched off: $(cat $accounts)"
share 0.5
[ "$percent" -le 25 ] || fail "few have $percent % of the I/Os without fairness"
echo 20 >"$Q/iosched/max_tgroup_io_ratio"
sleep 0.1
expect "many, of which each may have 20 %" "$many" 20 28
expect "few, of which each may have 20 %" "$few" 20 28
echo 100 >"$Q/iosched/max_tgroup_io_ratio"
sleep 0.1
echo 50 >"$Q/iosched/max_tgroup_io_ratio"
sleep 0.1
expect "many beside few again" "$many" 60 66
share 0.5
[ "$percent" -ge 40 ] || fail "few have $percent % of the I/Os, switched on again"

# A process that is alone again has all tags, real time is exempt, and in the end no account has a tag.
kill $few
wait $few || :
sleep 0.1
echo 20 >"$Q/iosched/max_tgroup_io_ratio"
sleep 0.1
expect "many alone again" "$many" 125 128
readers urgent 20 --prioclass=1
urgent=$reader
until [ "$(done_by $urgent)" -gt 100 ]; do
	sleep 0.01
done
expect "real time" "$urgent" 0 0
has "$urgent"
[ "$waiting" = 0 ] || fail "$waiting tasks of real time wait"
kill $many $urgent
wait $many $urgent || :
[ "$(cat $accounts)" = "tags=128 used=0 waiting=0" ] || fail "in the end: $(cat $accounts)"

# On a device so slow that a task waits for longer than a second, it still waits for its account's part.
rmdir /sys/kernel/config/simdisk/d0
disk hdd data=none
scheduler cpq
echo 64 >"$Q/nr_requests"
readers many 400 --size=64g --norandommap
many=$reader
settle "$many" 380
readers few 10 --size=64g --norandommap
few=$reader
settle "$few" 10
sleep 2
expect "many beside few on a slow disk" "$many" 28 34
kill $many $few
wait $many $few || :
[ "$(cat $accounts)" = "tags=64 used=0 waiting=0" ] || fail "on a slow disk: $(cat $accounts)"
scheduler none
