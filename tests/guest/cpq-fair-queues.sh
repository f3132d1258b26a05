# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# modules: cpq
# cpus: 2
# Each hardware queue has its own tags. A process that uses up the tags of one queue does not keep another process out of that
# queue, though the other queue has free tags. A process that is alone in its hardware queue has all tags there.
. ./lib.sh

accounts=/sys/kernel/debug/block/simdisk-d0/sched/accounts

# readers CPU THREADS: a process whose threads each read with a depth of 1; its number in $reader.
readers() {
	fio --thread --name=reader --filename="$DEV" --direct=1 --ioengine=psync --numjobs="$2" --rw=randread --bs=4k \
		--size=64m --time_based --runtime=60 --cpus_allowed="$1" --output=/dev/null &
	reader=$!
}

# settle PROCESS THREADS: wait until the process has THREADS tasks with or waiting for a tag.
settle() {
	until [ "$(awk '$1 == "Threads:" { print $2 }' "/proc/$1/status")" -gt "$2" ]; do
		sleep 0.1
	done
}

done_by() {
	awk '$1 == "syscr:" { print $2 }' "/proc/$1/io"
}

disk emmc data=none queues=2 slowdown=10
set -- "$Q"/../mq/*
[ $# = 2 ] || fail "hardware queues: $*"
scheduler cpq
echo 64 >"$Q/nr_requests"
readers 0 120
many=$reader
readers 0 20
few=$reader
settle "$many" 120
settle "$few" 20
sleep 0.2
before_many=$(done_by "$many") before_few=$(done_by "$few")
sleep 2
read_many=$(($(done_by "$many") - before_many)) read_few=$(($(done_by "$few") - before_few))
cat $accounts
echo "many read $read_many, few $read_few"
[ $((read_few * 100 / (read_many + read_few))) -ge 30 ] || fail "few have $read_few of $((read_many + read_few)) I/Os"
# The process gets all tags of the other queue, beside two processes with their parts of the first.
readers 1 60
other=$reader
settle "$other" 60
sleep 0.2
used=$(awk -F '[ =]' -v process="$other" '$2 == process { n += $6 } END { print n + 0 }' $accounts)
[ "$used" -ge 50 ] || fail "an account alone in its hardware queue has $used tags: $(cat $accounts)"
kill "$many" "$few" "$other"
wait "$many" "$few" "$other" || :
[ "$(cat $accounts)" = "tags=64 used=0 waiting=0
tags=64 used=0 waiting=0" ] || fail "in the end: $(cat $accounts)"
scheduler none
