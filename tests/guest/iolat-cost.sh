# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# kernels: 6.12
# full
# Watching adds at most 5 % to the instructions of an I/O whose only cost is the CPU; the cost of other tools is shown too.
. ./lib.sh

modprobe null_blk nr_devices=1 queue_mode=2 irqmode=0

# io NAME: sets instructions, per I/O of each job: the clock counts them.
io() {
	instructions=
	for depth in 1 16; do
		fio --name=x --filename=/dev/nullb0 --direct=1 --ioengine=libaio --iodepth=$depth --rw=randread --bs=4k \
			--iodepth_batch_submit=$depth --iodepth_batch_complete_max=$depth --time_based=1 --runtime=200ms \
			--output-format=terse --terse-version=3 --output=/tmp/fio
		instructions="$instructions $(awk -F';' '{ printf "%.0f", 1e9 / $8 }' /tmp/fio)"
	done
	echo "$1:$instructions instructions per I/O at depth 1 and 16"
}

# costs LIMIT: the instructions are at most LIMIT times those without watching.
costs() {
	for depth in 1 2; do
		awk -v a="$(echo "$alone" | cut -d' ' -f $((depth + 1)))" -v limit="$1" \
			-v b="$(echo "$instructions" | cut -d' ' -f $((depth + 1)))" 'BEGIN { exit !(a > 0 && b / a <= limit) }' ||
			fail "$alone alone, $instructions watched: more than $1"
	done
}

for scheduler in none mq-deadline; do
	Q=/sys/block/nullb0/queue
	echo $scheduler >$Q/scheduler
	io "$scheduler, alone"
	alone=$instructions
	for tool in biolatency-libbpf biosnoop-libbpf; do
		$tool >/tmp/tool 2>&1 &
		sleep 2
		io "$scheduler, $tool"
		kill -INT $!
		wait $! || :
	done
	watch /tmp/out
	io "$scheduler, iolat"
	end_watch
	costs 1.05
	watch /tmp/out --all
	io "$scheduler, iolat --all"
	end_watch
	costs 1.2
	watch /tmp/out --order
	io "$scheduler, iolat --order"
	end_watch
	io "$scheduler, alone again"
	costs 1.001
done
