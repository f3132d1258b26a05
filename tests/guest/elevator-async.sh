# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# schedulers: mq-prio cpq sluice afq split-token split-deadline wrr
# full: split-token split-deadline
# kernels: next
# The queue's async_depth, which is there since 7.0, limits the tags of all but synchronous reads. It is all of them after a switch
# of schedulers, and can change under load.
. ./lib.sh

# busy: the most scheduler tags that are in use at one time within a second.
busy() {
	for _ in $(seq 50); do
		sed -n '/^busy=/s///p' "/sys/kernel/debug/block/${DEV#/dev/}/hctx0/sched_tags"
		sleep 0.02
	done | sort -n | tail -n 1
}

# expect LOW HIGH: so many tags are in use.
expect() {
	used=$(busy)
	if [ "$used" -lt "$1" ] || [ "$used" -gt "$2" ]; then
		fail "$rw has $used tags of $1 to $2"
	fi
}

disk ssd queue_depth=1 slots=1
scheduler kyber
echo 64 >"$Q/nr_requests"
[ "$(cat "$Q/async_depth")" -lt "$(cat "$Q/nr_requests")" ] || fail "kyber leaves nothing that could stay"
scheduler "$SCHEDULER"
echo 64 >"$Q/nr_requests"
[ "$(cat "$Q/async_depth")" -eq "$(cat "$Q/nr_requests")" ] || fail "the limit of another scheduler has stayed"
for rw in randread randwrite; do
	fio --thread --filename="$DEV" --direct=1 --ioengine=libaio --bs=4k --size=64m --rw=$rw --name=$rw --iodepth=40 \
		--time_based --runtime=60 --output=/out/fio &
	sleep 0.5
	echo 64 >"$Q/async_depth"
	expect 16 40
	echo 4 >"$Q/async_depth"
	sleep 0.5
	case $rw in
	randread) expect 16 40 ;;
	randwrite) expect 1 4 ;;
	esac
	pkill -TERM fio
	wait
done
scheduler none
