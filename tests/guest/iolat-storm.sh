# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# cpus: 2
# full
# As many I/Os as two CPUs can make: if all are followed, the count is exact, else the sum is right; and nothing is lost. On
# Linux 7.x a process can be preempted in a BPF program: of what its CPU loses meanwhile, all is reported.
. ./lib.sh

modprobe null_blk nr_devices=1 queue_mode=2 irqmode=1 submit_queues=2 hw_queue_depth=256

# storm OPTION…: sets ios (iolat's count), lost (events that it reports as lost) and done (fio's count).
storm() {
	watch /tmp/json --json -d nullb0 --op read "$@"
	fio --name=x --filename=/dev/nullb0 --direct=1 --ioengine=io_uring --iodepth=64 --iodepth_batch_submit=16 \
		--iodepth_batch_complete_max=16 --numjobs=4 --group_reporting --rw=randread --bs=4k --time_based=1 \
		--runtime=300ms --output-format=terse --terse-version=3 --output=/tmp/fio
	end_watch
	done=$(($(awk -F';' '{ print $6 }' /tmp/fio) / 4))
	ios=$(awk -v RS='"ios":' 'NR > 1 { sum += $0 } END { print sum }' /tmp/json)
	lost=$(sed 's/.*"lost_events":\([0-9]*\).*/\1/' /tmp/json)
	case $(uname -r) in
	6.*) ! grep -q '"lost_[a-z]*":[1-9]' /tmp/json || fail "$*: lost: $(cut -c 1-400 /tmp/json)" ;;
	esac
	echo "$*: fio $done, iolat $ios, $(cut -c 1-200 /tmp/json)"
}

for scheduler in none mq-deadline; do
	echo $scheduler >/sys/block/nullb0/queue/scheduler
	for options in --all --order; do
		storm $options
		{ [ "$ios" -le "$done" ] && [ $((ios + lost)) -ge "$done" ]; } ||
			fail "$scheduler $options: iolat has $ios I/Os and lost $lost events, fio has $done"
	done
	storm
	awk -v a="$ios" -v b="$done" 'BEGIN { exit !(b > 10000 && a / b > 0.98 && a / b < 1.02) }' ||
		fail "$scheduler: iolat has $ios I/Os, fio $done"
	[ "$(sed 's/.*"followed":\([0-9]*\).*/\1/' /tmp/json)" -lt $((done / 4)) ] || fail "all were followed"
done
